-- What a life costs as plain set-based SQL: no payload, no term, no wheel, no frames, no sockets.

-- name: floor_update
UPDATE firings
SET fence = fence + 1, locked_by = 1, locked_until = clock_timestamp() + interval '30 seconds'
WHERE due_at <= clock_timestamp();

-- name: floor_claim
WITH due AS MATERIALIZED (
    SELECT firing_id FROM firings
    WHERE shard = %(shard)s AND (due_at, firing_id) > (%(after_at)s, %(after_id)s)
        AND due_at <= clock_timestamp() AND started_at IS NULL
    ORDER BY due_at, firing_id
    LIMIT %(limit)s
    FOR UPDATE SKIP LOCKED
), leased AS (
    UPDATE firings AS f
    SET fence = f.fence + 1, locked_by = 1, attempt = 1
    FROM due
    WHERE f.firing_id = due.firing_id
    RETURNING f.firing_id, f.fence, f.due_at
)
SELECT array_agg(firing_id ORDER BY firing_id), array_agg(fence ORDER BY firing_id), max(due_at)
FROM leased;

-- name: floor_start
WITH want AS MATERIALIZED (
    SELECT w.firing_id, w.fence
    FROM unnest(%(ids)s::bigint[], %(fences)s::bigint[]) AS w (firing_id, fence)
    ORDER BY w.firing_id
), locked AS MATERIALIZED (
    SELECT l.firing_id
    FROM want AS w
    CROSS JOIN LATERAL (
        SELECT f.firing_id FROM firings AS f
        WHERE f.firing_id = w.firing_id AND f.fence = w.fence AND f.started_at IS NULL
        FOR UPDATE SKIP LOCKED
    ) AS l
)
UPDATE firings AS f
SET locked_by = 2, started_at = clock_timestamp(),
    locked_until = clock_timestamp() + interval '30 seconds'
FROM locked AS l
WHERE f.firing_id = l.firing_id;

-- name: floor_complete
WITH want AS MATERIALIZED (
    SELECT w.firing_id, w.fence
    FROM unnest(%(ids)s::bigint[], %(fences)s::bigint[]) AS w (firing_id, fence)
    ORDER BY w.firing_id
), locked AS MATERIALIZED (
    SELECT l.firing_id, l.job_id, l.fence, l.scheduled_at, l.started_at, l.locked_by, l.attempt
    FROM want AS w
    CROSS JOIN LATERAL (
        SELECT f.firing_id, f.job_id, f.fence, f.scheduled_at, f.started_at, f.locked_by, f.attempt
        FROM firings AS f
        WHERE f.firing_id = w.firing_id AND f.fence = w.fence AND f.started_at IS NOT NULL
        FOR UPDATE
    ) AS l
), moved AS (
    UPDATE firings AS f
    SET fence = f.fence + 1, locked_by = NULL, locked_until = NULL, started_at = NULL,
        due_at = f.due_at + interval '1 day', scheduled_at = f.scheduled_at + interval '1 day',
        attempt = 0
    FROM locked AS l
    WHERE f.firing_id = l.firing_id
    RETURNING l.firing_id, l.job_id, l.fence, l.scheduled_at, l.started_at, l.locked_by, l.attempt
)
INSERT INTO job_runs (
    recorded_at, firing_id, fence, job_id, scheduled_at, started_at, finished_at, worker_id,
    attempt, status, trigger, catch_up
)
SELECT clock_timestamp(), firing_id, fence, job_id, scheduled_at, started_at, clock_timestamp(),
    locked_by, attempt, 'success', 0, false
FROM moved;
