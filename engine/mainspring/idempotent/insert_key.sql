-- Run by `effect.py` on the caller's own connection, inside the caller's own transaction.
-- One row written: the effect is still to be made.  None: it has been made.  While another
-- transaction holds the same key, this waits for its end.
-- The conflict names its columns, so that a table without the unique index is an error and not a
-- table in which nothing is ever found.  Names no schema: the caller's search_path finds the table.
INSERT INTO idempotency_keys (job_id, key, effect)
VALUES (%(job_id)s, %(key)s, %(effect)s)
ON CONFLICT (job_id, key, effect) DO NOTHING
