-- Why: one run may have several effects, each with a key of its own name; and keys must not grow
-- for ever, so the old ones are found by their age.
-- Lock: the strongest on idempotency_keys, while its primary key is built anew.  No release before
-- this one writes there.  Runs in one transaction.

ALTER TABLE idempotency_keys
    ADD COLUMN effect text NOT NULL DEFAULT '', -- '' is the run's only, or unnamed, effect
    DROP CONSTRAINT idempotency_keys_pkey,
    ADD CONSTRAINT idempotency_keys_pkey PRIMARY KEY (job_id, key, effect);
-- Rows come in the order of created_at, so an insert adds to the last page.
CREATE INDEX idempotency_keys_created ON idempotency_keys (created_at);
