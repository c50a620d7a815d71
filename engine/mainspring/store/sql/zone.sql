-- New rules of time zones: cursors read, moved, and reported.  Called by a shard's leader, and by
-- nobody while its release of tzdata is the one that the shard was computed by.

-- name: zone_versions
SELECT shard, tzdata FROM shards WHERE shard = coalesce(%(shard)s, shard);

-- name: zoned_cursors
-- A page of cursors in (due_at, firing_id) order; index firings_due, and then the key of jobs.
-- Every row of the page is returned, since the last one is where the next page begins.  Extra
-- firings have ids above their job's; of `=` Postgres expects so few rows that to sort all that is
-- due may look cheap (seen: 8,000 rows read for a page of 500).
WITH page AS MATERIALIZED (
    SELECT
        f.firing_id, f.fence, f.due_at, f.scheduled_at, f.previous_at, f.locked_by,
        f.started_at IS NOT NULL AS is_started
    FROM firings AS f
    WHERE f.shard = %(shard)s
        AND (f.due_at, f.firing_id) > (%(after_due_at)s, %(after_id)s)
        AND f.due_at < 'infinity'
        AND f.firing_id <= f.job_id
    ORDER BY f.due_at, f.firing_id
    LIMIT %(limit)s
)
SELECT
    p.firing_id, p.fence, p.due_at, p.scheduled_at, p.previous_at, j.anchor_at, j.timed_at,
    p.is_started, p.is_started OR coalesce(p.locked_by <> %(holder)s, false) AS is_framed,
    j.status = 'active' AS is_active, j.schedule, j.timezone, j.dst_gap, j.dst_overlap
FROM page AS p
JOIN jobs AS j ON j.job_id = p.firing_id
ORDER BY p.due_at, p.firing_id;

-- name: move_cursors
-- By primary key, after hold_term.  A claim, start, completion or change in between has raised the
-- fence, or has started it, and wins.  Returns which were found, and when those that moved are due.
WITH want AS MATERIALIZED (
    SELECT w.firing_id, w.fence, w.is_moved, w.to_at
    FROM unnest(
        %(ids)s::bigint[], %(fences)s::bigint[], %(is_moved)s::boolean[], %(to_at)s::timestamptz[]
    ) AS w (firing_id, fence, is_moved, to_at)
    ORDER BY w.firing_id
), found AS MATERIALIZED (
    SELECT w.firing_id, w.is_moved, w.to_at
    FROM want AS w
    CROSS JOIN LATERAL (
        SELECT f.firing_id
        FROM firings AS f
        WHERE f.firing_id = w.firing_id
            AND f.firing_id = f.job_id
            AND f.shard = %(shard)s
            AND f.fence = w.fence
            AND (f.started_at IS NULL OR NOT w.is_moved)
        FOR UPDATE
    ) AS l
)
UPDATE firings AS f
SET rev = f.rev + 1,
    fence = f.fence + n.is_moved::integer,
    locked_by = CASE WHEN n.is_moved THEN NULL ELSE f.locked_by END,
    scheduled_at = CASE WHEN n.is_moved THEN n.to_at ELSE f.scheduled_at END,
    due_at = CASE WHEN n.is_moved THEN n.to_at ELSE f.due_at END,
    attempt = CASE WHEN n.is_moved THEN 0 ELSE f.attempt END,
    attempts_spent = CASE WHEN n.is_moved THEN 0 ELSE f.attempts_spent END,
    lost_count = CASE WHEN n.is_moved THEN 0 ELSE f.lost_count END,
    catch_up = f.catch_up AND NOT n.is_moved
FROM found AS n
WHERE f.firing_id = n.firing_id
RETURNING f.firing_id, n.is_moved AND f.due_at < 'infinity' AS is_due, f.due_at;

-- name: announce_due
-- One hint for several firings of a shard that are due at other times now; id 0 stands for any.
SELECT pg_notify(
    'mainspring_due',
    %(shard)s::text || ' '
        || (extract(epoch FROM %(due_at)s::timestamptz) * 1000000)::bigint::text || ' '
        || %(firing_id)s::text
);

-- name: note_zone_version
-- Only under the standing term.  It waits for claims under way, which hold the row FOR SHARE.
UPDATE shards SET tzdata = %(to_version)s
WHERE shard = %(shard)s AND term = %(term)s AND leader IS NOT NULL
RETURNING shard;

-- name: insert_zone_changes
INSERT INTO zone_changes (
    changed_at, moved_count, parked_count, shard, from_version, to_version, timezone
)
SELECT
    coalesce(%(now)s::timestamptz, clock_timestamp()), c.moved_count, c.parked_count, %(shard)s,
    %(from_version)s, %(to_version)s, c.timezone
FROM unnest(
    %(moved_counts)s::bigint[], %(parked_counts)s::bigint[], %(timezones)s::text[]
) AS c (moved_count, parked_count, timezone);

-- name: zone_changes
-- For people.  A few rows for each release of tzdata, so it reads them all.
SELECT
    max(changed_at), timezone, sum(moved_count)::bigint, sum(parked_count)::bigint, from_version,
    to_version
FROM zone_changes
GROUP BY timezone, from_version, to_version
ORDER BY max(changed_at) DESC, timezone COLLATE "C", from_version COLLATE "C",
    to_version COLLATE "C"
LIMIT %(limit)s;
