-- Live processes and their heartbeats.

-- name: register_holder
INSERT INTO holders (holder_id, started_at, kind, address, name)
VALUES (
    nextval('holder_ids'), coalesce(%(now)s::timestamptz, clock_timestamp()), %(kind)s,
    %(address)s, %(name)s
)
RETURNING holder_id;

-- name: beat
-- A holder that was declared dead, or has left, gets no row: it must draw a new id.
UPDATE holders SET beat = beat + 1
WHERE holder_id = %(holder)s AND dead_at IS NULL AND left_at IS NULL
RETURNING beat;

-- name: read_holders
-- What an observer of heartbeats needs, with the server's identity and clock in the same read;
-- one row without a holder where nobody lives.
SELECT
    h.holder_id, h.kind, h.address, h.name, h.beat, h.started_at,
    pg_postmaster_start_time() AS server_started_at,
    coalesce(%(now)s::timestamptz, clock_timestamp()) AS read_at
FROM (SELECT) AS reading
LEFT JOIN holders AS h ON h.dead_at IS NULL AND h.left_at IS NULL
ORDER BY h.holder_id;

-- name: declare_dead
-- Only if it has not beaten since it was observed.
UPDATE holders SET dead_at = coalesce(%(now)s::timestamptz, clock_timestamp())
WHERE holder_id = %(holder)s AND beat = %(beat)s AND dead_at IS NULL AND left_at IS NULL
RETURNING holder_id;

-- name: leave
UPDATE holders SET left_at = coalesce(%(now)s::timestamptz, clock_timestamp())
WHERE holder_id = %(holder)s AND dead_at IS NULL AND left_at IS NULL
RETURNING holder_id;

-- name: prune_holders
-- Rows of the long gone; their ids stay in the history.
DELETE FROM holders
WHERE coalesce(dead_at, left_at) < coalesce(%(now)s::timestamptz, clock_timestamp())
    - interval '1 day';

-- name: database_clock
SELECT coalesce(%(now)s::timestamptz, clock_timestamp());
