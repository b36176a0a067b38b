-- What has ended is forgotten in the order in which it ended.
CREATE INDEX enrolment_by_decision ON enrolment (decided_ms, id) WHERE decided_ms > 0;
CREATE INDEX invite_by_end ON invite (expires_ms, id) WHERE expires_ms > 0;
