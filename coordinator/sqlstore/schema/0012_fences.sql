-- Fences: each operation that switched a host off or on, and what came of it.
CREATE TABLE fence (
	id      TEXT PRIMARY KEY, -- in the order of their beginnings
	record  BLOB NOT NULL     -- JSON
) STRICT;
