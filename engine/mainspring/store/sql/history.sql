-- Runs, dead letters and the partitions they live in; idempotency keys, as far as they age.

-- name: runs_of_job
-- Newest scheduled_at first, then highest attempt; waiting and running firings are read from
-- firings.  Each part sorts and cuts for itself, so that a page costs a page: indexes
-- job_runs_job, firings_pkey and firings_extra.
(
    SELECT
        r.firing_id, r.fence, r.job_id, r.scheduled_at, r.attempt, r.status::text AS status,
        r.trigger, r.catch_up, r.started_at, r.finished_at, r.worker_id, r.missed_count, r.error,
        r.output
    FROM job_runs AS r
    WHERE r.job_id = %(job_id)s::bigint
        AND (r.scheduled_at, r.attempt, r.firing_id, r.fence)
            < (%(before_at)s, %(before_attempt)s, %(before_firing)s, %(before_fence)s)
    ORDER BY r.scheduled_at DESC, r.attempt DESC, r.firing_id DESC, r.fence DESC
    LIMIT %(limit)s
)
UNION ALL
SELECT
    f.firing_id, f.fence, f.job_id, f.scheduled_at, greatest(f.attempt, 1),
    CASE WHEN f.started_at IS NULL THEN 'pending' ELSE 'running' END,
    f.trigger, f.catch_up, f.started_at, NULL,
    CASE WHEN f.started_at IS NOT NULL THEN f.locked_by END, 0, NULL, NULL
FROM firings AS f
WHERE (f.firing_id = %(job_id)s::bigint OR (f.job_id = %(job_id)s AND f.firing_id <> f.job_id))
    AND f.scheduled_at < 'infinity'
    AND (f.scheduled_at, greatest(f.attempt, 1), f.firing_id, f.fence)
        < (%(before_at)s, %(before_attempt)s, %(before_firing)s, %(before_fence)s)
ORDER BY scheduled_at DESC, attempt DESC, firing_id DESC, fence DESC
LIMIT %(limit)s;

-- name: recent_runs
-- The newest recorded runs of all jobs, for people, out of a window that the caller widens until
-- it holds enough; index job_runs_recorded.  now() and not clock_timestamp(), which would keep
-- the planner from leaving partitions out.
SELECT
    r.firing_id, r.fence, r.job_id, r.scheduled_at, r.attempt, r.status::text AS status,
    r.trigger, r.catch_up, r.started_at, r.finished_at, r.worker_id, r.missed_count, r.error,
    r.output
FROM job_runs AS r
WHERE r.recorded_at > coalesce(%(now)s::timestamptz, now())
    - make_interval(secs => %(window_seconds)s)
ORDER BY r.recorded_at DESC, r.firing_id DESC, r.fence DESC
LIMIT %(limit)s;

-- name: list_dead_letters
SELECT
    d.firing_id, d.fence, d.job_id, d.scheduled_at, d.attempt, d.trigger, d.catch_up, d.died_at,
    d.error
FROM dead_letters AS d
WHERE (d.died_at, d.firing_id, d.fence) > (%(after_at)s, %(after_firing)s, %(after_fence)s)
ORDER BY d.died_at, d.firing_id, d.fence
LIMIT %(limit)s;

-- name: find_dead_letter
SELECT
    d.firing_id, d.fence, d.job_id, d.scheduled_at, d.attempt, d.trigger, d.catch_up, d.died_at,
    d.error
FROM dead_letters AS d
WHERE d.firing_id = %(firing_id)s AND d.fence = %(fence)s;

-- name: redrive
-- The letter goes and a firing with the same scheduled_at, key and attempt count comes.  The
-- cursor's id is in use, so what died on a cursor gets a new id; a manual firing keeps its own,
-- since its idempotency key names it.
WITH taken AS (
    DELETE FROM dead_letters AS d
    USING jobs AS j
    WHERE d.firing_id = %(firing_id)s AND d.fence = %(fence)s
        AND j.job_id = d.job_id AND j.status <> 'deleted'
    RETURNING d.firing_id, d.fence, d.job_id, d.scheduled_at, d.attempt, d.shard, d.trigger,
        d.catch_up, j.rev
), planned AS (
    INSERT INTO firings (
        firing_id, job_id, due_at, scheduled_at, fence, rev, attempt, attempts_spent, shard,
        trigger, catch_up
    )
    SELECT
        CASE WHEN t.firing_id = t.job_id THEN nextval('ids') ELSE t.firing_id END,
        t.job_id, coalesce(%(now)s::timestamptz, clock_timestamp()), t.scheduled_at,
        CASE WHEN t.firing_id = t.job_id THEN 0 ELSE t.fence + 1 END,
        t.rev, t.attempt + 1, t.attempt, t.shard,
        CASE WHEN t.trigger = 0 THEN 3 ELSE t.trigger END, t.catch_up
    FROM taken AS t
    RETURNING firing_id, shard, due_at
)
SELECT p.firing_id, pg_notify(
    'mainspring_due',
    p.shard::text || ' ' || (extract(epoch FROM p.due_at) * 1000000)::bigint::text || ' '
        || p.firing_id::text
)
FROM planned AS p;

-- name: partitions_to_drop
-- Days before the kept ones that have a partition, oldest first.
SELECT to_date(right(c.relname, 8), 'YYYYMMDD')
FROM pg_inherits AS i
JOIN pg_class AS c ON c.oid = i.inhrelid
WHERE i.inhparent = 'job_runs'::regclass AND c.relname <> 'job_runs_default'
    AND to_date(right(c.relname, 8), 'YYYYMMDD')
        < (coalesce(%(now)s::timestamptz, clock_timestamp()) AT TIME ZONE 'UTC')::date
            - %(history_days)s::integer
ORDER BY 1;

-- name: default_partition_rows
-- Must stay 0: a row there had no partition of its day.
SELECT count(*) FROM (SELECT FROM job_runs_default LIMIT 1000) AS d;

-- name: limit_lock_wait
-- For the rest of the transaction: what queues for a table's strongest lock stops all behind it.
SELECT set_config('lock_timeout', %(lock_timeout)s, true);

-- name: make_partitions
SELECT count(*) FILTER (
    WHERE make_job_runs_partition(
        (coalesce(%(now)s::timestamptz, clock_timestamp()) AT TIME ZONE 'UTC')::date + d.day
    )
)
FROM generate_series(0, %(days_ahead)s::integer) AS d (day);

-- name: drop_partition
SELECT drop_job_runs_partition(%(day)s::date);

-- name: prune_keys
-- Called by every scheduler's pulse, a batch at a time; index idempotency_keys_created.  A key
-- outlives its age while its firing may come again: it is unfinished (a key is never older than its
-- firing's scheduled_at), or a dead letter that can be redriven.  Whether the job still
-- stands does not matter.
WITH old AS MATERIALIZED (
    SELECT k.job_id, k.key, k.effect
    FROM idempotency_keys AS k
    WHERE k.created_at < coalesce(%(now)s::timestamptz, clock_timestamp())
            - make_interval(days => %(history_days)s::integer)
        AND NOT EXISTS (
            SELECT FROM firings AS f
            WHERE f.firing_id = k.job_id AND f.scheduled_at <= k.created_at
        )
        AND NOT EXISTS (
            SELECT FROM firings AS f
            WHERE f.job_id = k.job_id AND f.firing_id <> f.job_id
                AND f.scheduled_at <= k.created_at
        )
        AND NOT EXISTS (
            SELECT FROM dead_letters AS d
            WHERE d.job_id = k.job_id AND k.created_at BETWEEN d.scheduled_at AND d.died_at
        )
    ORDER BY k.created_at
    LIMIT %(limit)s
    FOR UPDATE SKIP LOCKED
), pruned AS (
    DELETE FROM idempotency_keys AS k
    USING old AS o
    WHERE k.job_id = o.job_id AND k.key = o.key AND k.effect = o.effect
    RETURNING 1
)
SELECT count(*) FROM pruned;
