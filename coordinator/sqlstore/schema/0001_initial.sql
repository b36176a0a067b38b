-- The coordinator's store. Times are Unix milliseconds, 0 for never; ids are
-- their texts, '' for none; lists and structures that are never searched are JSON.
-- Tables are without foreign keys: rows of different tables may come in any order
-- and outlive each other, as the records of a removed host do.

-- Makes the id of this database together with the database.
CREATE TABLE store (
	one INTEGER PRIMARY KEY CHECK (one = 1),
	id  TEXT NOT NULL CHECK (length(id) = 32)
) STRICT;
INSERT INTO store (one, id) VALUES (1, lower(hex(randomblob(16))));

CREATE TABLE host (
	id          TEXT PRIMARY KEY,
	state       TEXT NOT NULL,
	key_id      TEXT NOT NULL UNIQUE,
	approved_ms INTEGER NOT NULL,
	approved_by TEXT NOT NULL,
	revoked_ms  INTEGER NOT NULL,
	reason      TEXT NOT NULL,
	quarantined TEXT NOT NULL,
	store       TEXT NOT NULL,
	accept_seq  INTEGER NOT NULL,
	adopted_inc  INTEGER NOT NULL,
	adopted_conn INTEGER NOT NULL,
	adopted_k    INTEGER NOT NULL,
	labels      BLOB,
	public_key  BLOB,
	inventory   BLOB NOT NULL
) STRICT;

CREATE TABLE invite (
	id         TEXT PRIMARY KEY,
	secret     BLOB,
	labels     BLOB,
	created_ms INTEGER NOT NULL,
	created_by TEXT NOT NULL,
	expires_ms INTEGER NOT NULL,
	wrong      INTEGER NOT NULL,
	bound_key  TEXT NOT NULL,
	revoked_ms INTEGER NOT NULL
) STRICT;

CREATE TABLE enrolment (
	id          TEXT PRIMARY KEY,
	invite      TEXT NOT NULL,
	host        TEXT NOT NULL,
	key_id      TEXT NOT NULL,
	words       TEXT NOT NULL,
	state       TEXT NOT NULL,
	reason      TEXT NOT NULL,
	created_ms  INTEGER NOT NULL,
	decided_ms  INTEGER NOT NULL,
	decided_by  TEXT NOT NULL,
	labels      BLOB,
	public_key  BLOB,
	csr         BLOB,
	offer       BLOB,
	certificate BLOB
) STRICT;
CREATE INDEX enrolment_by_age ON enrolment (created_ms, id);
CREATE INDEX enrolment_by_state ON enrolment (state, created_ms, id);
CREATE INDEX enrolment_by_key ON enrolment (key_id, created_ms, id);

-- Ids are UUIDs of version 7, so their order is that of creation.
CREATE TABLE action (
	id         TEXT PRIMARY KEY,
	host       TEXT NOT NULL,
	kind       TEXT NOT NULL,
	target     TEXT NOT NULL,
	name       TEXT NOT NULL,
	digest     TEXT NOT NULL,
	state      TEXT NOT NULL,
	reason     TEXT NOT NULL,
	detail     TEXT NOT NULL,
	requester  TEXT NOT NULL,
	created_ms INTEGER NOT NULL,
	updated_ms INTEGER NOT NULL,
	ended_ms   INTEGER NOT NULL,
	expires_ms INTEGER NOT NULL,
	n          INTEGER NOT NULL,
	accept_seq INTEGER NOT NULL,
	attempt    INTEGER NOT NULL,
	cancelling INTEGER NOT NULL,
	cancel_by  TEXT NOT NULL,
	corrected  INTEGER NOT NULL,
	exit       BLOB,
	output     BLOB,
	conflict   BLOB,
	spec       BLOB
) STRICT;
CREATE INDEX action_by_host ON action (host, id);
CREATE INDEX action_by_host_state ON action (host, state, id);
CREATE INDEX action_by_state ON action (state, id);
CREATE INDEX action_by_target ON action (target, id) WHERE target <> '';
CREATE INDEX action_by_expiry ON action (n, expires_ms, id)
	WHERE n = 0 AND state IN ('PENDING_APPROVE', 'PENDING_SCHEDULE');

CREATE TABLE stream (
	host        TEXT NOT NULL,
	stream      TEXT NOT NULL,
	store       TEXT NOT NULL,
	n           INTEGER NOT NULL,
	h           TEXT NOT NULL,
	freed_store TEXT NOT NULL,
	freed_n     INTEGER NOT NULL,
	freed_h     TEXT NOT NULL,
	PRIMARY KEY (host, stream)
) STRICT, WITHOUT ROWID;

CREATE TABLE item (
	host   TEXT NOT NULL,
	stream TEXT NOT NULL,
	n      INTEGER NOT NULL,
	h      TEXT NOT NULL,
	action TEXT NOT NULL,
	item   BLOB,
	PRIMARY KEY (host, stream, n)
) STRICT;

CREATE TABLE output (
	action    TEXT NOT NULL,
	attempt   INTEGER NOT NULL,
	fd        TEXT NOT NULL,
	have      INTEGER NOT NULL,
	tail_from INTEGER NOT NULL,
	tail_to   INTEGER NOT NULL,
	PRIMARY KEY (action, attempt, fd)
) STRICT, WITHOUT ROWID;

CREATE TABLE token (
	id         TEXT PRIMARY KEY,
	name       TEXT NOT NULL,
	role       TEXT NOT NULL,
	hash       TEXT NOT NULL UNIQUE,
	created_ms INTEGER NOT NULL,
	created_by TEXT NOT NULL,
	expires_ms INTEGER NOT NULL,
	revoked_ms INTEGER NOT NULL
) STRICT;

CREATE TABLE viewer (
	name       TEXT PRIMARY KEY,
	serial     TEXT NOT NULL,
	created_ms INTEGER NOT NULL,
	created_by TEXT NOT NULL,
	revoked_ms INTEGER NOT NULL
) STRICT;

-- The newest numbers of the journal, which go on when its rows are trimmed.
CREATE TABLE counter (
	name TEXT PRIMARY KEY,
	last INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO counter (name, last) VALUES ('event', 0);

CREATE TABLE event (
	id     INTEGER PRIMARY KEY,
	at_ms  INTEGER NOT NULL,
	type   TEXT NOT NULL,
	host   TEXT NOT NULL,
	object TEXT NOT NULL,
	data   BLOB
) STRICT;

-- Records are as package audit encodes them; seals chain and sign them.
CREATE TABLE audit (
	n      INTEGER PRIMARY KEY,
	record BLOB NOT NULL
) STRICT;

CREATE TABLE seal (
	n          INTEGER PRIMARY KEY,
	h          TEXT NOT NULL,
	at_ms      INTEGER NOT NULL,
	leaves     BLOB NOT NULL,
	checkpoint BLOB NOT NULL
) STRICT;

CREATE TABLE value (
	name  TEXT PRIMARY KEY,
	value BLOB
) STRICT;
