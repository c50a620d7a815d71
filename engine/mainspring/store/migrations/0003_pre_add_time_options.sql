-- Why: what a gap and an overlap of the zone do is chosen per job; a handler is told which firing
-- of its job ran before; a shard remembers by which time zone data its cursors were computed.
-- Lock: the strongest on jobs, firings and shards for a moment: constants as defaults rewrite no
-- table (PostgreSQL manual, ALTER TABLE, "Notes").  Runs in one transaction.

ALTER TABLE jobs
    ADD COLUMN dst_gap text NOT NULL DEFAULT 'next_valid',
    ADD COLUMN dst_overlap text NOT NULL DEFAULT 'first',
    -- When its times were set anew, by a changed schedule or a resumption; nothing earlier is due.
    ADD COLUMN timed_at timestamptz NOT NULL DEFAULT '-infinity',
    ADD CONSTRAINT jobs_dst_gap_check CHECK (dst_gap IN ('next_valid', 'skip')),
    ADD CONSTRAINT jobs_dst_overlap_check CHECK (dst_overlap IN ('first', 'second', 'both'));

-- The occurrence of this job that ran last; '-infinity' before the first.
ALTER TABLE firings ADD COLUMN previous_at timestamptz NOT NULL DEFAULT '-infinity';

-- The release of tzdata by which the shard's cursors were computed; '' before any was noted.
ALTER TABLE shards ADD COLUMN tzdata text NOT NULL DEFAULT '';

-- What a change of the time zone data moved, for people.
CREATE TABLE zone_changes (
    changed_at timestamptz NOT NULL,
    moved_count bigint NOT NULL,
    parked_count bigint NOT NULL,
    shard smallint NOT NULL,
    from_version text NOT NULL,
    to_version text NOT NULL,
    timezone text NOT NULL
);
CREATE INDEX zone_changes_changed ON zone_changes (changed_at);
