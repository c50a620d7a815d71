-- The life of a firing: refill, claim, sweep, missed, hand back, start, complete, end lost.
--
-- Every statement over many firings locks them by primary key in firing_id order in a
-- MATERIALIZED CTE first, never by ctid: a row updated between snapshot and lock has another
-- ctid and would be left out silently.  The lock stands in a LATERAL subquery, which the planner
-- can neither pull up nor turn round: as a plain join, statistics taken while nothing was started
-- made it walk the whole table once for each wanted row (measured: over 60 s for 5,000).
--
-- Every write that gives or ends a lease raises the fence (I3).  `now` is NULL in production,
-- which means the database clock.

-- name: refill
-- Rows of a shard due in a window, for the wheel; index only on firings_due.
COPY (
    SELECT firing_id, due_at
    FROM firings
    WHERE shard = %(shard)s AND due_at >= %(from_at)s AND due_at < %(until_at)s
    ORDER BY due_at, firing_id
    LIMIT %(limit)s
) TO STDOUT (FORMAT binary);

-- name: claim_page
-- Lease the next page of due firings in (due_at, firing_id) order; index firings_due.  The term
-- is locked FOR SHARE, so a claim cannot overlap a takeover.  An unstarted lease of anyone but
-- this holder is a dead leader's, since the term says that this holder alone leads the shard.
COPY (
    WITH term AS MATERIALIZED (
        SELECT shard FROM shards
        WHERE shard = %(shard)s AND term = %(term)s AND leader = %(holder)s
        FOR SHARE
    ), due AS MATERIALIZED (
        SELECT f.firing_id, f.attempt
        FROM firings AS f
        WHERE EXISTS (SELECT FROM term)
            AND f.shard = %(shard)s
            AND (f.due_at, f.firing_id) > (%(after_due_at)s, %(after_id)s)
            AND f.due_at <= %(until_at)s
            AND f.started_at IS NULL
            AND f.locked_by IS DISTINCT FROM %(holder)s
        ORDER BY f.due_at, f.firing_id
        LIMIT %(limit)s
        FOR UPDATE OF f SKIP LOCKED
    ), leased AS (
        UPDATE firings AS f
        SET fence = f.fence + 1, locked_by = %(holder)s, attempt = greatest(f.attempt, 1)
        FROM due
        WHERE f.firing_id = due.firing_id
        RETURNING f.firing_id, f.job_id, f.due_at, f.scheduled_at, f.fence, f.rev, f.attempt,
            f.trigger, f.catch_up, f.lost_count, f.previous_at, due.attempt = 0 AS first_claim
    )
    {claimed_columns}
) TO STDOUT (FORMAT binary);

-- name: claim_ids
-- Lease named firings, by primary key: with a fence, those whose fence still is that one (a frame
-- that nobody answered is claimed anew); with a negative one, those this holder has not leased
-- (found by a sweep, or by a hint).
COPY (
    WITH term AS MATERIALIZED (
        SELECT shard FROM shards
        WHERE shard = %(shard)s AND term = %(term)s AND leader = %(holder)s
        FOR SHARE
    ), want AS MATERIALIZED (
        SELECT w.firing_id, w.fence
        FROM unnest(%(ids)s::bigint[], %(fences)s::bigint[]) AS w (firing_id, fence)
        WHERE EXISTS (SELECT FROM term)
        ORDER BY w.firing_id
    ), due AS MATERIALIZED (
        SELECT l.firing_id, l.attempt
        FROM want AS w
        CROSS JOIN LATERAL (
            SELECT f.firing_id, f.attempt
            FROM firings AS f
            WHERE f.firing_id = w.firing_id
                AND f.shard = %(shard)s
                AND f.due_at <= %(until_at)s
                AND f.started_at IS NULL
                AND (
                    f.fence = w.fence
                    OR (w.fence < 0 AND f.locked_by IS DISTINCT FROM %(holder)s)
                )
            FOR UPDATE SKIP LOCKED
        ) AS l
    ), leased AS (
        UPDATE firings AS f
        SET fence = f.fence + 1, locked_by = %(holder)s, attempt = greatest(f.attempt, 1)
        FROM due
        WHERE f.firing_id = due.firing_id
        RETURNING f.firing_id, f.job_id, f.due_at, f.scheduled_at, f.fence, f.rev, f.attempt,
            f.trigger, f.catch_up, f.lost_count, f.previous_at, due.attempt = 0 AS first_claim
    )
    {claimed_columns}
) TO STDOUT (FORMAT binary);

-- name: claimed_columns
-- The columns of a ClaimBatch, in the order of claim.KINDS; a part of both claims.
SELECT
    l.firing_id, l.job_id, l.due_at, l.scheduled_at, l.fence, l.rev, l.attempt, l.trigger,
    l.catch_up, l.lost_count, l.first_claim,
    coalesce(%(now)s::timestamptz, clock_timestamp()) AS claimed_at,
    j.anchor_at, l.previous_at, j.timeout_seconds, j.misfire_grace_seconds, j.task, j.queue,
    j.schedule, j.timezone, j.dst_gap, j.dst_overlap, j.idempotency_key_template, j.name, j.payload
FROM leased AS l
JOIN jobs AS j ON j.job_id = l.job_id
ORDER BY l.due_at, l.firing_id;

-- name: sweep_unleased
-- Unstarted rows at or before the page cursor that this leader may not know: not leased by it,
-- or, in a full sweep, leased by it too (the caller compares those with its ledger).
COPY (
    SELECT firing_id, fence, (locked_by IS NOT DISTINCT FROM %(holder)s) AS is_mine
    FROM firings
    WHERE shard = %(shard)s
        AND (due_at, firing_id) <= (%(cursor_due_at)s, %(cursor_id)s)
        AND started_at IS NULL
        AND (%(full)s OR locked_by IS DISTINCT FROM %(holder)s)
    ORDER BY due_at, firing_id
    LIMIT %(limit)s
) TO STDOUT (FORMAT binary);

-- name: sweep_ended
-- Started firings whose worker is dead or whose lease ran out; a started row is due, so the
-- range is the low end of firings_due.  `extension` puts locked_until off by as long as this
-- leader could not see heartbeats.  The living are read once, not looked up for each row.
SELECT
    f.firing_id, f.job_id, f.fence, f.rev, f.attempt, f.attempts_spent, f.trigger, f.scheduled_at,
    f.locked_by
FROM firings AS f
WHERE f.shard = %(shard)s
    AND f.due_at <= coalesce(%(now)s::timestamptz, clock_timestamp())
    AND f.started_at IS NOT NULL
    AND (
        f.locked_by <> ALL (ARRAY(
            SELECT h.holder_id FROM holders AS h WHERE h.dead_at IS NULL AND h.left_at IS NULL
        ))
        OR f.locked_until + %(extension)s::interval
            < coalesce(%(now)s::timestamptz, clock_timestamp())
    )
ORDER BY f.firing_id
LIMIT %(limit)s;

-- name: record_missed
-- What becomes of leased, unstarted firings that came late, and one row for the occurrences that
-- nothing will run.  Steps: 0 run now, the lease goes on; 1 due at another time, the lease ends;
-- 2 remove.  The fence is raised in each case, so that a row of misses and a run never share one,
-- and a copy of the call matches nothing.
WITH want AS MATERIALIZED (
    SELECT
        w.firing_id, w.fence, w.step, w.scheduled_at, w.due_at, w.is_catch_up, w.dropped_at,
        w.dropped_count
    FROM unnest(
        %(ids)s::bigint[], %(fences)s::bigint[], %(steps)s::integer[],
        %(scheduled_at)s::timestamptz[], %(due_at)s::timestamptz[], %(catch_ups)s::boolean[],
        %(dropped_at)s::timestamptz[], %(dropped_counts)s::integer[]
    ) AS w (firing_id, fence, step, scheduled_at, due_at, is_catch_up, dropped_at, dropped_count)
    ORDER BY w.firing_id
), locked AS MATERIALIZED (
    SELECT
        l.firing_id, l.job_id, l.fence, l.attempt, l.trigger, w.step, w.scheduled_at, w.due_at,
        w.is_catch_up, w.dropped_at, w.dropped_count
    FROM want AS w
    CROSS JOIN LATERAL (
        SELECT f.firing_id, f.job_id, f.fence, f.attempt, f.trigger
        FROM firings AS f
        WHERE f.firing_id = w.firing_id
            AND f.fence = w.fence
            AND f.locked_by = %(holder)s
            AND f.started_at IS NULL
        FOR UPDATE
    ) AS l
), moved AS (
    UPDATE firings AS f
    SET fence = f.fence + 1,
        scheduled_at = l.scheduled_at,
        catch_up = l.is_catch_up,
        due_at = CASE l.step WHEN 0 THEN f.due_at ELSE l.due_at END,
        locked_by = CASE l.step WHEN 0 THEN f.locked_by END,
        attempt = CASE l.step WHEN 0 THEN f.attempt ELSE 0 END
    FROM locked AS l
    WHERE f.firing_id = l.firing_id AND l.step <> 2
    RETURNING f.firing_id
), removed AS (
    DELETE FROM firings AS f
    USING locked AS l
    WHERE f.firing_id = l.firing_id AND l.step = 2
    RETURNING f.firing_id
), written AS (
    INSERT INTO job_runs (
        recorded_at, firing_id, fence, job_id, scheduled_at, finished_at, attempt, status,
        missed_count, trigger, catch_up
    )
    SELECT
        coalesce(%(now)s::timestamptz, clock_timestamp()), l.firing_id, l.fence, l.job_id,
        l.dropped_at, coalesce(%(now)s::timestamptz, clock_timestamp()), l.attempt, 'missed',
        l.dropped_count, l.trigger, false
    FROM locked AS l
    WHERE l.dropped_count > 0
)
SELECT firing_id, fence + 1 FROM locked ORDER BY firing_id;

-- name: hand_back
-- End leases that were never started: the rows become due again at once.
WITH want AS MATERIALIZED (
    SELECT w.firing_id, w.fence
    FROM unnest(%(ids)s::bigint[], %(fences)s::bigint[]) AS w (firing_id, fence)
    ORDER BY w.firing_id
), locked AS MATERIALIZED (
    SELECT l.firing_id
    FROM want AS w
    CROSS JOIN LATERAL (
        SELECT f.firing_id
        FROM firings AS f
        WHERE f.firing_id = w.firing_id
            AND f.fence = w.fence
            AND f.locked_by = %(holder)s
            AND f.started_at IS NULL
        FOR UPDATE
    ) AS l
)
UPDATE firings AS f
SET fence = f.fence + 1, locked_by = NULL
FROM locked AS l
WHERE f.firing_id = l.firing_id
RETURNING f.firing_id;

-- name: start
-- Take leased firings for a worker: compare and set on the fence, never early, only while the
-- worker's own holder row is alive.  Repeatable after a lost answer.  The fence is carried.
-- The holder row is read, not locked: a start that overtakes its worker's death leaves a row
-- whose holder is dead, which the next sweep ends.
COPY (
    WITH alive AS MATERIALIZED (
        SELECT holder_id FROM holders
        WHERE holder_id = %(holder)s AND dead_at IS NULL AND left_at IS NULL
    ), want AS MATERIALIZED (
        SELECT w.firing_id, w.fence, w.timeout_seconds
        FROM unnest(%(ids)s::bigint[], %(fences)s::bigint[], %(timeouts)s::bigint[])
            AS w (firing_id, fence, timeout_seconds)
        WHERE EXISTS (SELECT FROM alive)
        ORDER BY w.firing_id
    ), locked AS MATERIALIZED (
        SELECT l.firing_id, w.timeout_seconds
        FROM want AS w
        CROSS JOIN LATERAL (
            SELECT f.firing_id
            FROM firings AS f
            WHERE f.firing_id = w.firing_id
                AND f.fence = w.fence
                AND f.due_at <= coalesce(%(now)s::timestamptz, clock_timestamp())
                AND (f.started_at IS NULL OR f.locked_by = %(holder)s)
            FOR UPDATE SKIP LOCKED
        ) AS l
    )
    UPDATE firings AS f
    SET locked_by = %(holder)s,
        started_at = coalesce(f.started_at, %(now)s::timestamptz, clock_timestamp()),
        locked_until = coalesce(%(now)s::timestamptz, clock_timestamp())
            + make_interval(secs => l.timeout_seconds + %(slack_seconds)s)
    FROM locked AS l
    WHERE f.firing_id = l.firing_id
    RETURNING f.firing_id, f.fence, f.started_at, f.locked_until
) TO STDOUT (FORMAT binary);

-- name: complete
-- End runs by fence and rev: move the cursor, set the retry, park, or remove; write the run row
-- from what was locked, and the dead letter.  Actions: 0 move, 1 retry, 2 remove, 3 park,
-- 4 hold.
-- Statuses count from 1 in the array below.  Returns one row of arrays, so that the client makes
-- no object per firing.
WITH want AS MATERIALIZED (
    SELECT
        w.firing_id, w.fence, w.rev,
        (ARRAY['success', 'failed', 'dead', 'lost', 'cancelled']::run_status[])[w.status] AS status,
        w.action, w.next_at, w.delay_us, w.is_letter, w.error, w.output
    FROM unnest(
        %(ids)s::bigint[], %(fences)s::bigint[], %(revs)s::integer[], %(statuses)s::integer[],
        %(actions)s::integer[], %(next_at)s::timestamptz[], %(delays_us)s::bigint[],
        %(letters)s::boolean[], %(errors)s::text[], %(outputs)s::text[]
    ) AS w (
        firing_id, fence, rev, status, action, next_at, delay_us, is_letter, error, output
    )
    ORDER BY w.firing_id
), locked AS MATERIALIZED (
    SELECT
        l.firing_id, l.job_id, l.fence, l.scheduled_at, l.started_at, l.locked_by, l.attempt,
        l.shard, l.trigger, l.catch_up, w.status, w.action, w.next_at, w.delay_us, w.is_letter,
        w.error, w.output
    FROM want AS w
    CROSS JOIN LATERAL (
        SELECT
            f.firing_id, f.job_id, f.fence, f.scheduled_at, f.started_at, f.locked_by, f.attempt,
            f.shard, f.trigger, f.catch_up
        FROM firings AS f
        WHERE f.firing_id = w.firing_id
            AND f.fence = w.fence
            AND f.rev = w.rev
            AND f.started_at IS NOT NULL
        FOR UPDATE
    ) AS l
), moved AS (
    UPDATE firings AS f
    SET fence = f.fence + 1,
        locked_by = NULL,
        locked_until = NULL,
        started_at = NULL,
        due_at = CASE l.action
            WHEN 0 THEN l.next_at
            WHEN 1 THEN coalesce(%(now)s::timestamptz, clock_timestamp())
                + l.delay_us * interval '1 microsecond'
            ELSE 'infinity' END,
        scheduled_at = CASE l.action
            WHEN 0 THEN l.next_at WHEN 1 THEN f.scheduled_at WHEN 4 THEN f.scheduled_at
            ELSE 'infinity' END,
        attempt = CASE WHEN l.action IN (1, 4) THEN f.attempt + 1 ELSE 0 END,
        attempts_spent = CASE WHEN l.action IN (1, 4) THEN f.attempts_spent ELSE 0 END,
        lost_count = CASE
            WHEN l.action NOT IN (1, 4) THEN 0
            WHEN l.status = 'lost' THEN least(f.lost_count + 1, 32767)
            ELSE f.lost_count END,
        catch_up = (l.action IN (1, 4) AND f.catch_up),
        previous_at = CASE WHEN l.action IN (1, 4) THEN f.previous_at ELSE f.scheduled_at END
    FROM locked AS l
    WHERE f.firing_id = l.firing_id AND l.action <> 2
    RETURNING
        l.firing_id, l.job_id, l.fence, l.scheduled_at, l.started_at, l.locked_by, l.attempt,
        l.shard, l.trigger, l.catch_up, l.status, l.is_letter, l.error, l.output,
        f.due_at AS due_again_at
), removed AS (
    DELETE FROM firings AS f
    USING locked AS l
    WHERE f.firing_id = l.firing_id AND l.action = 2
    RETURNING
        l.firing_id, l.job_id, l.fence, l.scheduled_at, l.started_at, l.locked_by, l.attempt,
        l.shard, l.trigger, l.catch_up, l.status, l.is_letter, l.error, l.output,
        'infinity'::timestamptz AS due_again_at
), ended AS (
    SELECT
        firing_id, job_id, fence, scheduled_at, started_at, locked_by, attempt, shard, trigger,
        catch_up, status, is_letter, error, output, due_again_at
    FROM moved
    UNION ALL
    SELECT
        firing_id, job_id, fence, scheduled_at, started_at, locked_by, attempt, shard, trigger,
        catch_up, status, is_letter, error, output, due_again_at
    FROM removed
), letters AS (
    INSERT INTO dead_letters (
        firing_id, fence, job_id, scheduled_at, died_at, attempt, shard, trigger, catch_up, error
    )
    SELECT
        e.firing_id, e.fence, e.job_id, e.scheduled_at,
        coalesce(%(now)s::timestamptz, clock_timestamp()), e.attempt, e.shard, e.trigger,
        e.catch_up, e.error
    FROM ended AS e
    WHERE e.is_letter
), written AS (
    INSERT INTO job_runs (
        recorded_at, firing_id, fence, job_id, scheduled_at, started_at, finished_at, worker_id,
        attempt, status, trigger, catch_up, error, output
    )
    SELECT
        coalesce(%(now)s::timestamptz, clock_timestamp()), e.firing_id, e.fence, e.job_id,
        e.scheduled_at, e.started_at, coalesce(%(now)s::timestamptz, clock_timestamp()),
        e.locked_by, e.attempt, e.status, e.trigger, e.catch_up, e.error, e.output
    FROM ended AS e
)
SELECT array_agg(firing_id), array_agg(due_again_at) FROM ended;

-- name: read_started
-- What a decision after a failure needs to know of a run, as it is now.
SELECT f.firing_id, f.job_id, f.fence, f.rev, f.attempt, f.attempts_spent, f.trigger,
    f.scheduled_at, f.locked_by
FROM firings AS f
WHERE f.firing_id = ANY (%(ids)s::bigint[]) AND f.started_at IS NOT NULL;

-- name: look_up_unaccepted
-- Why completions matched nothing: the firing's fence and rev as they are now, and the statuses
-- of its recorded run (the same status means that an earlier copy of this end was accepted).  A
-- copy comes within seconds of the first; two days keep the search out of old partitions.
SELECT
    w.firing_id, f.fence AS current_fence, f.rev AS current_rev,
    f.started_at IS NOT NULL AS is_started,
    ARRAY(
        SELECT r.status::text FROM job_runs AS r
        WHERE r.job_id = w.job_id AND r.scheduled_at = w.scheduled_at
            AND r.firing_id = w.firing_id AND r.fence = w.fence
            AND r.recorded_at > coalesce(%(now)s::timestamptz, now()) - interval '2 days'
    ) AS statuses
FROM unnest(
    %(ids)s::bigint[], %(fences)s::bigint[], %(job_ids)s::bigint[], %(scheduled_at)s::timestamptz[]
) AS w (firing_id, fence, job_id, scheduled_at)
LEFT JOIN firings AS f ON f.firing_id = w.firing_id;
