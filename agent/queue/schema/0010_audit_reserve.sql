-- Records that the audit log has refused, of what was done all the same. They go into the
-- log, in this order, as soon as it takes records again.
CREATE TABLE audit_reserve (
	n       INTEGER PRIMARY KEY,
	record  BLOB NOT NULL
) STRICT;
