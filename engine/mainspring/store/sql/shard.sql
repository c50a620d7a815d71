-- Shards, terms and their leases.

-- name: count_shards
SELECT count(*) FROM shards;

-- name: lock_setup
-- Taken by whoever makes shards or partitions; ends with the transaction.
SELECT pg_advisory_xact_lock(%(lock_class)s, %(lock_key)s);

-- name: make_shards
INSERT INTO shards (shard) SELECT generate_series(0, %(count)s::integer - 1)
ON CONFLICT DO NOTHING;

-- name: make_shard_leases
INSERT INTO shard_leases (shard) SELECT generate_series(0, %(count)s::integer - 1)
ON CONFLICT DO NOTHING;

-- name: try_shard_lock
-- A session lock: freed by the server within milliseconds when a leader is killed.
SELECT pg_try_advisory_lock(%(lock_class)s, %(shard)s);

-- name: free_shard_lock
SELECT pg_advisory_unlock(%(lock_class)s, %(shard)s);

-- name: take_term
-- A new term begins; waits for claims under way (they hold the row FOR SHARE).
UPDATE shards SET term = term + 1, leader = %(holder)s
WHERE shard = %(shard)s
RETURNING term;

-- name: begin_lease
UPDATE shard_leases
SET term = %(term)s, renewed_at = coalesce(%(now)s::timestamptz, clock_timestamp()),
    backend_pid = pg_backend_pid()
WHERE shard = %(shard)s;

-- name: renew_terms
-- All shards of one leader in one statement; those missing from the answer are lost.
UPDATE shard_leases AS l
SET renewed_at = coalesce(%(now)s::timestamptz, clock_timestamp())
FROM shards AS s
WHERE s.shard = l.shard AND s.leader = %(holder)s AND s.term = l.term
    AND (l.shard, l.term) IN (
        SELECT w.shard, w.term
        FROM unnest(%(shards)s::bigint[], %(terms)s::bigint[]) AS w (shard, term)
    )
RETURNING l.shard;

-- name: end_term
-- The term stays as it is (it only grows); nobody leads until the next take_term.
UPDATE shards SET leader = NULL
WHERE shard = %(shard)s AND term = %(term)s AND leader = %(holder)s
RETURNING shard;

-- name: hold_term
-- First statement of a transaction that only the shard's leader may make.  A term that was ended
-- has no leader, so it holds nothing.
SELECT shard FROM shards
WHERE shard = %(shard)s AND term = %(term)s
    AND leader = coalesce(%(holder)s::bigint, leader)
FOR SHARE;

-- name: read_shards
SELECT s.shard, s.term, s.leader, l.renewed_at
FROM shards AS s
JOIN shard_leases AS l ON l.shard = s.shard
ORDER BY s.shard;
