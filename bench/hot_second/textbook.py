"""The claim loop of the textbook design: one wide table, LIMIT 500, RETURNING *.

In its favour: the shard filter by hash is left out (it would walk the rows of all other shards),
nothing is published, and each row is fetched with psycopg's C loaders.  The loop claims every due
row once; what it claimed stays at the low end of the index, as nothing completes.
"""

from __future__ import annotations

import threading

import psycopg

from mainspring.clock import monotonic_s

TABLE = """
CREATE TABLE textbook_jobs (
    job_id varchar(32) PRIMARY KEY,
    name text NOT NULL,
    schedule text NOT NULL,
    timezone text NOT NULL,
    payload jsonb,
    status text NOT NULL DEFAULT 'active',
    missed_window text NOT NULL DEFAULT 'RUN_ONCE',
    max_retries integer NOT NULL DEFAULT 3,
    timeout_seconds integer NOT NULL DEFAULT 300,
    next_run_at timestamptz NOT NULL,
    locked_by text,
    locked_until timestamptz,
    created_at timestamptz NOT NULL DEFAULT now()
)
"""
INDEX = "CREATE INDEX jobs_due ON textbook_jobs (next_run_at) WHERE status = 'active'"
FILL = """
INSERT INTO textbook_jobs (job_id, name, schedule, timezone, payload, next_run_at)
SELECT 'j_' || job_id, name, schedule, timezone, payload::jsonb, now() - interval '1 second'
FROM jobs ORDER BY job_id
"""
# The textbook's lease of 30 s would run out before the loop has seen every row: it would not end.
CLAIM = """
UPDATE textbook_jobs
SET locked_by = %(shard)s, locked_until = now() + interval '1 hour'
WHERE job_id IN (
    SELECT job_id FROM textbook_jobs
    WHERE status = 'active' AND next_run_at <= now()
        AND (locked_by IS NULL OR locked_until < now())
    ORDER BY next_run_at
    LIMIT 500
    FOR UPDATE SKIP LOCKED
)
RETURNING *
"""


def make_table(dsn: str) -> None:
    """Make the wide table from the jobs of this database."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(TABLE)
        connection.execute(FILL)
        connection.execute(INDEX)


def claim_per_s(dsn: str, count: int, *, connections: int) -> float:
    """Claim every row by the loop; returns rows claimed a second over all connections.

    Raises
    ------
    RuntimeError
        Not every row was claimed exactly once.
    """
    claimed: list[int] = []
    ready = threading.Barrier(connections + 1)

    def loop(shard: str) -> None:
        with psycopg.connect(dsn, autocommit=True) as connection:
            ready.wait()
            rows = connection.execute(CLAIM, {"shard": shard}).fetchall()
            while rows:
                claimed.append(len(rows))
                rows = connection.execute(CLAIM, {"shard": shard}).fetchall()

    threads = [threading.Thread(target=loop, args=(f"shard-{i}",)) for i in range(connections)]
    for thread in threads:
        thread.start()
    ready.wait()
    begun_s = monotonic_s()
    for thread in threads:
        thread.join()
    took_s = monotonic_s() - begun_s
    if sum(claimed) != count:
        raise RuntimeError(f"the textbook loop claimed {sum(claimed)} of {count} rows")
    return count / took_s
