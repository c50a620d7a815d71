-- Reading the whole truth, for audits: the demo, the benches, the fault tests.  Not hot.

-- name: audit_runs
-- Every recorded attempt, oldest first.
COPY (
    SELECT
        r.firing_id, r.job_id, r.scheduled_at, coalesce(r.started_at, '-infinity') AS started_at,
        coalesce(r.finished_at, r.recorded_at) AS finished_at, r.attempt, r.missed_count,
        r.catch_up, r.status::text
    FROM job_runs AS r
    ORDER BY r.recorded_at, r.firing_id
) TO STDOUT (FORMAT binary);

-- name: audit_open
-- Firings that are due, or started, and have no end yet.
COPY (
    SELECT f.firing_id, f.job_id, f.scheduled_at, f.due_at, f.fence, f.attempt,
        f.started_at IS NOT NULL AS is_started
    FROM firings AS f
    WHERE f.due_at <= coalesce(%(now)s::timestamptz, clock_timestamp())
    ORDER BY f.firing_id
) TO STDOUT (FORMAT binary);
