-- Unique workloads: where each stands, and what makes it anew elsewhere.
CREATE TABLE workload (
	ctid    TEXT PRIMARY KEY,
	record  BLOB NOT NULL -- JSON
) STRICT;
