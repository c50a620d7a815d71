-- Why: the first schema.  Cold definitions and hot firings are separate tables, since an UPDATE
-- copies the whole row version and every firing is updated four times in its life.
-- Lock: none that matters, all objects are new.  Runs in one transaction.

-- Job ids and firing ids come from one sequence and are never used again, so a job's own
-- schedule can be the firing whose id is the job's (its cursor).
CREATE SEQUENCE ids AS bigint;
CREATE SEQUENCE holder_ids AS bigint;

CREATE TYPE job_status AS ENUM ('active', 'paused', 'deleted');
CREATE TYPE run_status AS ENUM
    ('success', 'failed', 'dead', 'lost', 'missed', 'skipped', 'cancelled');

CREATE TABLE jobs (
    -- eight-byte columns first, then four, then variable ones: no padding
    job_id bigint NOT NULL,
    anchor_at timestamptz NOT NULL,     -- where @every counts from: the registration
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    rev integer NOT NULL DEFAULT 1,
    status job_status NOT NULL DEFAULT 'active',
    max_retries integer NOT NULL,
    retry_base_seconds integer NOT NULL,
    retry_cap_seconds integer NOT NULL,
    timeout_seconds integer NOT NULL,
    max_missed integer NOT NULL,
    misfire_grace_seconds integer NOT NULL,
    shard smallint NOT NULL,
    is_once boolean NOT NULL,
    name text NOT NULL,
    task text NOT NULL,
    queue text NOT NULL,
    schedule text NOT NULL,
    timezone text NOT NULL,
    retry_backoff text NOT NULL,
    missed_window text NOT NULL,
    idempotency_key_template text,
    payload text NOT NULL,              -- JSON text as it was registered; jsonb would reorder it
    CONSTRAINT jobs_pkey PRIMARY KEY (job_id),
    CONSTRAINT jobs_retry_backoff_check CHECK (retry_backoff IN ('fixed', 'linear', 'exponential')),
    CONSTRAINT jobs_missed_window_check CHECK (missed_window IN ('SKIP', 'RUN_ONCE', 'RUN_ALL')),
    CONSTRAINT jobs_timeout_check CHECK (timeout_seconds > 0)
);

-- One row per planned occurrence: narrow and hot.  No index on any lease column, so claim and
-- start are HOT updates (PostgreSQL manual, "Heap-Only Tuples"); fillfactor leaves them room.
CREATE TABLE firings (
    firing_id bigint NOT NULL,
    job_id bigint NOT NULL,
    due_at timestamptz NOT NULL,        -- 'infinity' parks it
    scheduled_at timestamptz NOT NULL,
    fence bigint NOT NULL DEFAULT 0,
    rev integer NOT NULL DEFAULT 1,
    attempt integer NOT NULL DEFAULT 0, -- 0: this occurrence was never claimed
    attempts_spent integer NOT NULL DEFAULT 0, -- before a redrive gave it attempts again
    shard smallint NOT NULL,
    lost_count smallint NOT NULL DEFAULT 0,
    trigger smallint NOT NULL DEFAULT 0, -- 0 schedule, 1 manual, 2 backfill, 3 redrive
    catch_up boolean NOT NULL DEFAULT false,
    locked_by bigint,                   -- the leader before start, the worker after
    locked_until timestamptz,           -- set by start
    started_at timestamptz,
    CONSTRAINT firings_pkey PRIMARY KEY (firing_id) WITH (fillfactor = 90),
    CONSTRAINT firings_trigger_check CHECK (trigger BETWEEN 0 AND 3),
    CONSTRAINT firings_started_check CHECK (started_at IS NULL OR locked_by IS NOT NULL)
) WITH (
    fillfactor = 50,
    -- 500,000 firings of one second leave as many dead versions: vacuum by count, not by share,
    -- and at full speed.
    autovacuum_vacuum_scale_factor = 0.0,
    autovacuum_vacuum_threshold = 50000,
    autovacuum_vacuum_cost_delay = 0,
    autovacuum_analyze_scale_factor = 0.05
);
-- The claim pages along (due_at, firing_id): half a million rows may share one due_at.
CREATE INDEX firings_due ON firings (shard, due_at, firing_id);
-- Extra firings of a job (manual, backfill, redrive); cursors are found by their own id.
CREATE INDEX firings_extra ON firings (job_id) WHERE firing_id <> job_id;

-- One row per attempt, append only, a partition per day of the time it was written.
-- No foreign key: it would lock the hot row and fight partition drops.
CREATE TABLE job_runs (
    recorded_at timestamptz NOT NULL,
    firing_id bigint NOT NULL,
    fence bigint NOT NULL,
    job_id bigint NOT NULL,
    scheduled_at timestamptz NOT NULL,
    started_at timestamptz,
    finished_at timestamptz,
    worker_id bigint,
    attempt integer NOT NULL,
    status run_status NOT NULL,
    missed_count integer NOT NULL DEFAULT 0,
    trigger smallint NOT NULL,
    catch_up boolean NOT NULL,
    error text,
    output text
) PARTITION BY RANGE (recorded_at);
CREATE INDEX job_runs_job ON job_runs (job_id, scheduled_at DESC);
-- For the newest runs of all jobs: rows lie in the order of recorded_at, so a summary per range of
-- pages finds them and costs an insert nothing (PostgreSQL manual, "BRIN Indexes").
CREATE INDEX job_runs_recorded ON job_runs USING brin (recorded_at) WITH (autosummarize = on);
-- Behind the daily partitions, so that no insert ever fails; must stay empty.
CREATE TABLE job_runs_default PARTITION OF job_runs DEFAULT;

CREATE TABLE dead_letters (
    firing_id bigint NOT NULL,
    fence bigint NOT NULL,              -- with firing_id: the run that was the last
    job_id bigint NOT NULL,
    scheduled_at timestamptz NOT NULL,
    died_at timestamptz NOT NULL,
    attempt integer NOT NULL,
    shard smallint NOT NULL,
    trigger smallint NOT NULL,
    catch_up boolean NOT NULL,
    error text,
    CONSTRAINT dead_letters_pkey PRIMARY KEY (firing_id, fence)
);
CREATE INDEX dead_letters_job ON dead_letters (job_id);
CREATE INDEX dead_letters_died ON dead_letters (died_at, firing_id, fence);

-- Live processes.  A row is written once a second by each, so it stays HOT and tiny.
CREATE TABLE holders (
    holder_id bigint NOT NULL,
    beat bigint NOT NULL DEFAULT 0,
    started_at timestamptz NOT NULL,
    dead_at timestamptz,                -- a leader has declared it dead
    left_at timestamptz,                -- a clean exit
    kind text NOT NULL,
    address text NOT NULL,
    name text NOT NULL,                 -- host:pid, for people
    CONSTRAINT holders_pkey PRIMARY KEY (holder_id),
    CONSTRAINT holders_kind_check CHECK (kind IN ('scheduler', 'worker'))
) WITH (fillfactor = 50);

-- The term is what a claim locks FOR SHARE; renewal is a row of its own, or it would wait for
-- every claim.
CREATE TABLE shards (
    term bigint NOT NULL DEFAULT 0,
    leader bigint,
    shard smallint NOT NULL,
    CONSTRAINT shards_pkey PRIMARY KEY (shard)
) WITH (fillfactor = 50);
CREATE TABLE shard_leases (
    term bigint NOT NULL DEFAULT 0,
    renewed_at timestamptz,
    backend_pid integer,
    shard smallint NOT NULL,
    CONSTRAINT shard_leases_pkey PRIMARY KEY (shard)
) WITH (fillfactor = 50);

-- Effects made in the same Postgres, once per key (a handler's own transaction writes here).
CREATE TABLE idempotency_keys (
    job_id bigint NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    key text NOT NULL,
    CONSTRAINT idempotency_keys_pkey PRIMARY KEY (job_id, key)
);

CREATE TABLE api_keys (
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    expires_at timestamptz,
    revoked_at timestamptz,
    key_id text NOT NULL,
    secret_sha256 bytea NOT NULL,
    namespace text NOT NULL DEFAULT 'default',
    scopes text[] NOT NULL,
    CONSTRAINT api_keys_pkey PRIMARY KEY (key_id)
);

-- Partitions are attached, not created in place: ATTACH takes a weaker lock on the parent, so a
-- completion never waits for tomorrow's partition (PostgreSQL manual, ALTER TABLE).  Rows of that
-- day that fell into the default meanwhile move over, or ATTACH would be refused for ever.
CREATE FUNCTION make_job_runs_partition(day date) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    child text := 'job_runs_' || to_char(day, 'YYYYMMDD');
    day_begin timestamptz := day::timestamp AT TIME ZONE 'UTC';
    day_end timestamptz := (day + 1)::timestamp AT TIME ZONE 'UTC';
BEGIN
    IF to_regclass(child) IS NOT NULL THEN
        RETURN false;
    END IF;
    EXECUTE format('CREATE TABLE %I (LIKE job_runs INCLUDING DEFAULTS)', child);
    LOCK TABLE job_runs_default IN ACCESS EXCLUSIVE MODE;
    EXECUTE format(
        'WITH moved AS ('
        '    DELETE FROM job_runs_default WHERE recorded_at >= %L AND recorded_at < %L RETURNING *'
        ') INSERT INTO %I SELECT * FROM moved', day_begin, day_end, child
    );
    EXECUTE format(
        'ALTER TABLE job_runs ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)', child,
        day_begin, day_end
    );
    RETURN true;
END
$$;

-- Takes the strongest lock on the parent for a moment: call it with a short lock_timeout.
CREATE FUNCTION drop_job_runs_partition(day date) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    child text := 'job_runs_' || to_char(day, 'YYYYMMDD');
BEGIN
    IF to_regclass(child) IS NULL THEN
        RETURN false;
    END IF;
    EXECUTE format('DROP TABLE %I', child);
    RETURN true;
END
$$;
