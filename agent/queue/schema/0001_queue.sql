-- Times are Unix milliseconds of the wall clock, for people; *_boot_ms are of
-- the boot clock named beside them. Ids and digests are their texts.

CREATE TABLE self (
	one           INTEGER PRIMARY KEY CHECK (one = 1),
	store         TEXT NOT NULL,
	inc           INTEGER NOT NULL,
	boot          TEXT NOT NULL,
	term_ring     INTEGER NOT NULL,
	term_counter  INTEGER NOT NULL,
	coordinator   TEXT NOT NULL,    -- the store of the streams down, '' before the first
	named         INTEGER NOT NULL, -- whether the term has named that store
	accept_seq    INTEGER NOT NULL,
	buried        INTEGER NOT NULL, -- number of the newest tombstone
	evidence      BLOB NOT NULL,
	checkpoint    BLOB NOT NULL     -- newest of the coordinator's audit log
) STRICT;

-- Streams down: what was taken in. Streams up: what was sent, what was freed. The
-- audit log: how far its chain was followed, how far its records were forgotten.
CREATE TABLE streams (
	stream   TEXT PRIMARY KEY,
	n        INTEGER NOT NULL,
	h        TEXT NOT NULL,
	freed_n  INTEGER NOT NULL,
	freed_h  TEXT NOT NULL
) STRICT;

CREATE TABLE outbox (
	stream  TEXT NOT NULL,
	n       INTEGER NOT NULL,
	h       TEXT NOT NULL,
	item    BLOB NOT NULL,
	PRIMARY KEY (stream, n)
) STRICT, WITHOUT ROWID;

-- Items that could not be read: taken in so that they block nothing.
CREATE TABLE rejected (
	id      INTEGER PRIMARY KEY AUTOINCREMENT,
	stream  TEXT NOT NULL,
	store   TEXT NOT NULL,
	n       INTEGER NOT NULL,
	code    TEXT NOT NULL,
	at_ms   INTEGER NOT NULL
) STRICT;

CREATE TABLE actions (
	id              TEXT PRIMARY KEY,
	accept_seq      INTEGER NOT NULL UNIQUE,
	digest          TEXT NOT NULL,
	spec            BLOB NOT NULL,
	requester       TEXT NOT NULL,
	local           INTEGER NOT NULL,
	state           TEXT NOT NULL,
	event           TEXT NOT NULL,
	reason          TEXT NOT NULL,
	detail          TEXT NOT NULL,
	attempt         INTEGER NOT NULL,
	cancelling      INTEGER NOT NULL,
	budget_ms       INTEGER NOT NULL,
	boot            TEXT NOT NULL,
	accept_boot_ms  INTEGER NOT NULL,
	created_ms      INTEGER NOT NULL,
	accepted_ms     INTEGER NOT NULL,
	started_ms      INTEGER NOT NULL,
	ended_ms        INTEGER NOT NULL,
	result          BLOB NOT NULL,    -- exit and output as JSON
	report_n        INTEGER NOT NULL  -- its newest report
) STRICT;

CREATE INDEX actions_by_state ON actions (state, accept_seq);

CREATE TABLE tombstones (
	id          TEXT PRIMARY KEY,
	number      INTEGER NOT NULL UNIQUE,
	accept_seq  INTEGER NOT NULL, -- 0 if it never was accepted
	digest      TEXT NOT NULL,    -- '' if it was never seen
	state       TEXT NOT NULL,
	event       TEXT NOT NULL,
	reason      TEXT NOT NULL
) STRICT;

CREATE TABLE containers (
	ctid           TEXT PRIMARY KEY,
	name           TEXT NOT NULL UNIQUE,
	runtime        TEXT NOT NULL,
	class          TEXT NOT NULL,
	epoch_ring     INTEGER NOT NULL,
	epoch_term     INTEGER NOT NULL,
	epoch_counter  INTEGER NOT NULL,
	intended       TEXT NOT NULL,
	offline        TEXT NOT NULL,
	labels         TEXT NOT NULL,
	template       TEXT NOT NULL,
	address        TEXT NOT NULL,
	mac            TEXT NOT NULL,
	made           INTEGER NOT NULL,
	failures       INTEGER NOT NULL,
	broken         TEXT NOT NULL
) STRICT;

-- The host's audit log: records as package audit encodes them.
CREATE TABLE audit (
	n       INTEGER PRIMARY KEY,
	record  BLOB NOT NULL
) STRICT;

-- Alerts that are raised, and changes that found no room in the outbox.
CREATE TABLE alerts (
	id        TEXT PRIMARY KEY,
	severity  TEXT NOT NULL,
	text      TEXT NOT NULL,
	since_ms  INTEGER NOT NULL,
	raised    INTEGER NOT NULL,
	waits     INTEGER NOT NULL
) STRICT;
