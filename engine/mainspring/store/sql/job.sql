-- Registration, reading and deletion of jobs.  Each change of a job writes its firing rows in
-- the same transaction (rev + 1), and queues behind a start by locking them.

-- name: take_ids
SELECT nextval('ids') FROM generate_series(1, %(count)s);

-- name: last_id
-- The highest id ever given out; an id above it names nothing.
SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM ids;

-- name: insert_jobs
-- Definitions and their cursors, and one hint for each shard with its earliest due time.
WITH new AS MATERIALIZED (
    SELECT
        n.job_id, n.shard, n.first_at, n.anchor_at, n.is_once, n.name, n.task, n.queue, n.schedule,
        n.timezone, n.payload, n.idempotency_key_template, n.max_retries, n.retry_backoff,
        n.retry_base_seconds, n.retry_cap_seconds, n.timeout_seconds, n.missed_window,
        n.max_missed, n.misfire_grace_seconds, n.dst_gap, n.dst_overlap
    FROM unnest(
        %(job_ids)s::bigint[], %(shards)s::integer[], %(first_at)s::timestamptz[],
        %(anchor_at)s::timestamptz[], %(is_once)s::boolean[], %(names)s::text[], %(tasks)s::text[],
        %(queues)s::text[], %(schedules)s::text[], %(timezones)s::text[], %(payloads)s::text[],
        %(templates)s::text[], %(max_retries)s::integer[], %(backoffs)s::text[],
        %(base_seconds)s::integer[], %(cap_seconds)s::integer[], %(timeout_seconds)s::integer[],
        %(missed_windows)s::text[], %(max_missed)s::integer[], %(grace_seconds)s::integer[],
        %(dst_gaps)s::text[], %(dst_overlaps)s::text[]
    ) AS n (
        job_id, shard, first_at, anchor_at, is_once, name, task, queue, schedule, timezone,
        payload, idempotency_key_template, max_retries, retry_backoff, retry_base_seconds,
        retry_cap_seconds, timeout_seconds, missed_window, max_missed, misfire_grace_seconds,
        dst_gap, dst_overlap
    )
), defined AS (
    INSERT INTO jobs (
        job_id, shard, anchor_at, created_at, updated_at, is_once, name, task, queue, schedule,
        timezone, payload, idempotency_key_template, max_retries, retry_backoff,
        retry_base_seconds, retry_cap_seconds, timeout_seconds, missed_window, max_missed,
        misfire_grace_seconds, dst_gap, dst_overlap
    )
    SELECT
        job_id, shard, anchor_at, coalesce(%(now)s::timestamptz, clock_timestamp()),
        coalesce(%(now)s::timestamptz, clock_timestamp()), is_once, name, task, queue, schedule,
        timezone, payload, idempotency_key_template, max_retries, retry_backoff,
        retry_base_seconds, retry_cap_seconds, timeout_seconds, missed_window, max_missed,
        misfire_grace_seconds, dst_gap, dst_overlap
    FROM new
), planned AS (
    INSERT INTO firings (firing_id, job_id, shard, due_at, scheduled_at)
    SELECT job_id, job_id, shard, first_at, first_at FROM new
)
SELECT pg_notify(
    'mainspring_due',
    shard::text || ' ' || (extract(epoch FROM min(first_at)) * 1000000)::bigint::text || ' '
        || CASE WHEN count(*) = 1 THEN min(job_id) ELSE 0 END::text
)
FROM new
GROUP BY shard;

-- name: get_jobs
-- By primary key, in any order; deleted ones are told by their status.
SELECT
    j.job_id, j.shard, j.rev, j.status::text, j.name, j.task, j.queue, j.schedule, j.timezone, j.payload,
    j.idempotency_key_template, j.max_retries, j.retry_backoff, j.retry_base_seconds,
    j.retry_cap_seconds, j.timeout_seconds, j.missed_window, j.max_missed,
    j.misfire_grace_seconds, j.dst_gap, j.dst_overlap, j.anchor_at, j.is_once, j.timed_at,
    j.created_at, j.updated_at,
    CASE WHEN f.due_at = 'infinity' OR j.status = 'paused' THEN 'infinity'
        ELSE f.scheduled_at END AS next_at
FROM jobs AS j
LEFT JOIN firings AS f ON f.firing_id = j.job_id
WHERE j.job_id = ANY (%(job_ids)s::bigint[]);

-- name: list_jobs
-- A page of live jobs in id order.
SELECT
    j.job_id, j.shard, j.rev, j.status::text, j.name, j.task, j.queue, j.schedule, j.timezone, j.payload,
    j.idempotency_key_template, j.max_retries, j.retry_backoff, j.retry_base_seconds,
    j.retry_cap_seconds, j.timeout_seconds, j.missed_window, j.max_missed,
    j.misfire_grace_seconds, j.dst_gap, j.dst_overlap, j.anchor_at, j.is_once, j.timed_at,
    j.created_at, j.updated_at,
    CASE WHEN f.due_at = 'infinity' OR j.status = 'paused' THEN 'infinity'
        ELSE f.scheduled_at END AS next_at
FROM jobs AS j
LEFT JOIN firings AS f ON f.firing_id = j.job_id
WHERE j.job_id > %(after_id)s AND j.status <> 'deleted'
ORDER BY j.job_id
LIMIT %(limit)s;

-- name: lock_job
-- First statement of every change, deletion and redrive: serializes them per job.  Jobs are locked
-- before their firings everywhere, so that none of these deadlocks with a completion.
SELECT status::text FROM jobs WHERE job_id = %(job_id)s FOR UPDATE;

-- name: lock_firings_of_job
-- Second: queue behind a start that is under way.  Its cursor and its extra firings.
SELECT firing_id, started_at IS NOT NULL AS is_started
FROM firings
WHERE firing_id = %(job_id)s OR (job_id = %(job_id)s AND firing_id <> job_id)
ORDER BY firing_id
FOR UPDATE;

-- name: delete_unstarted_firings
DELETE FROM firings
WHERE (firing_id = %(job_id)s OR (job_id = %(job_id)s AND firing_id <> job_id))
    AND started_at IS NULL;

-- name: mark_started_firings
-- What runs is moved by its completion alone; the rev tells it to read the definition again.
UPDATE firings SET rev = rev + 1
WHERE (firing_id = %(job_id)s OR (job_id = %(job_id)s AND firing_id <> job_id))
    AND started_at IS NOT NULL;

-- name: mark_job_deleted
UPDATE jobs
SET status = 'deleted', rev = rev + 1,
    updated_at = coalesce(%(now)s::timestamptz, clock_timestamp())
WHERE job_id = %(job_id)s;

-- name: delete_job
DELETE FROM jobs WHERE job_id = %(job_id)s;

-- name: change_job
-- The definition as it becomes, if its rev is still the one that the change was decided from.
UPDATE jobs
SET rev = rev + 1, updated_at = coalesce(%(now)s::timestamptz, clock_timestamp()),
    status = %(status)s::job_status, anchor_at = %(anchor_at)s, is_once = %(is_once)s,
    timed_at = %(timed_at)s, name = %(name)s, task = %(task)s, queue = %(queue)s,
    schedule = %(schedule)s, timezone = %(timezone)s, payload = %(payload)s,
    idempotency_key_template = %(template)s, max_retries = %(max_retries)s,
    retry_backoff = %(backoff)s, retry_base_seconds = %(base_seconds)s,
    retry_cap_seconds = %(cap_seconds)s, timeout_seconds = %(timeout_seconds)s,
    missed_window = %(missed_window)s, max_missed = %(max_missed)s,
    misfire_grace_seconds = %(grace_seconds)s, dst_gap = %(dst_gap)s,
    dst_overlap = %(dst_overlap)s
WHERE job_id = %(job_id)s AND rev = %(rev)s AND status <> 'deleted'
RETURNING shard;

-- name: change_firings
-- The firings of a changed job, which lock_firings_of_job has locked: all get another rev, and
-- unstarted ones another fence, so that no frame with what they were can be started.  The cursor
-- gets its new times; an occurrence of it that was due and gives way is recorded as skipped, under
-- the new fence: no run will have it, and that of a firing never leased is 0, which names nothing.
-- It never makes a firing.  Returns when what is not started is due.
WITH old AS MATERIALIZED (
    SELECT
        f.firing_id, f.job_id, f.fence, f.scheduled_at, f.attempt, f.trigger,
        f.started_at IS NULL AS is_free,
        f.firing_id = f.job_id AND f.started_at IS NULL AND %(scheduled_at)s::timestamptz IS NOT NULL
            AND f.scheduled_at <> %(scheduled_at)s::timestamptz AS is_moved
    FROM firings AS f
    WHERE f.firing_id = %(job_id)s OR (f.job_id = %(job_id)s AND f.firing_id <> f.job_id)
), changed AS (
    UPDATE firings AS f
    SET rev = f.rev + 1,
        fence = f.fence + o.is_free::integer,
        locked_by = CASE WHEN o.is_free THEN NULL ELSE f.locked_by END,
        scheduled_at = CASE WHEN o.is_moved THEN %(scheduled_at)s ELSE f.scheduled_at END,
        due_at = CASE
            WHEN o.is_free AND f.firing_id = f.job_id
                THEN coalesce(%(due_at)s::timestamptz, f.due_at)
            ELSE f.due_at END,
        attempt = CASE WHEN o.is_moved THEN 0 ELSE f.attempt END,
        attempts_spent = CASE WHEN o.is_moved THEN 0 ELSE f.attempts_spent END,
        lost_count = CASE WHEN o.is_moved THEN 0 ELSE f.lost_count END,
        catch_up = f.catch_up AND NOT o.is_moved
    FROM old AS o
    WHERE f.firing_id = o.firing_id
    RETURNING f.firing_id, f.due_at, o.is_free
), skipped AS (
    INSERT INTO job_runs (
        recorded_at, firing_id, fence, job_id, scheduled_at, finished_at, attempt, status,
        trigger, catch_up
    )
    SELECT
        coalesce(%(now)s::timestamptz, clock_timestamp()), o.firing_id, o.fence + 1, o.job_id,
        o.scheduled_at, coalesce(%(now)s::timestamptz, clock_timestamp()), greatest(o.attempt, 1),
        'skipped', o.trigger, false
    FROM old AS o
    WHERE o.is_moved AND o.scheduled_at <= coalesce(%(now)s::timestamptz, clock_timestamp())
)
SELECT
    pg_notify(
        'mainspring_due',
        %(shard)s::text || ' ' || (extract(epoch FROM due_at) * 1000000)::bigint::text || ' '
            || firing_id::text
    )
FROM changed
WHERE is_free AND due_at <> 'infinity';

-- name: lock_finished_jobs
-- Definitions that may go with their last firing: one-offs, and deleted jobs whose run ended.
-- Before the completion that removes the firing, since jobs are locked before firings.
SELECT job_id FROM jobs
WHERE job_id = ANY (%(job_ids)s::bigint[]) AND (is_once OR status = 'deleted')
ORDER BY job_id
FOR UPDATE;

-- name: delete_finished_jobs
-- A statement of its own, so that it sees what committed while lock_finished_jobs waited.
-- A one-off stays until its last dead letter is gone.
DELETE FROM jobs AS j
WHERE j.job_id = ANY (%(job_ids)s::bigint[])
    AND (
        j.status = 'deleted'
        OR (j.is_once AND NOT EXISTS (SELECT FROM dead_letters AS d WHERE d.job_id = j.job_id))
    )
    AND NOT EXISTS (SELECT FROM firings AS f WHERE f.firing_id = j.job_id)
    AND NOT EXISTS (
        SELECT FROM firings AS f WHERE f.job_id = j.job_id AND f.firing_id <> f.job_id
    );
