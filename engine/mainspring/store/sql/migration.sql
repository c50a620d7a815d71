-- What was applied to this database; used by store/migrate.py under its advisory lock.

-- name: create_migrations
CREATE TABLE IF NOT EXISTS schema_migrations (
    version integer NOT NULL,
    name text NOT NULL,
    checksum text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT schema_migrations_pkey PRIMARY KEY (version)
);

-- name: has_migrations
SELECT to_regclass('schema_migrations') IS NOT NULL;

-- name: read_migrations
SELECT version, name, checksum FROM schema_migrations ORDER BY version;

-- name: write_migration
INSERT INTO schema_migrations (version, name, checksum)
VALUES (%(version)s, %(name)s, %(checksum)s);

-- name: limit_lock_waits
SELECT set_config('lock_timeout', %(limit)s, false);

-- name: lock_migrations
SELECT pg_advisory_lock(%(key)s);
