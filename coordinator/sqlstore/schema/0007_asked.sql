-- Actions are sent in the order in which they were asked for. Ids do not tell it: those
-- of a batch follow from its names, and people draw theirs by their own clocks. What
-- was asked for before this release is sent first, in the order of ids.
ALTER TABLE action ADD COLUMN asked INTEGER NOT NULL DEFAULT 0;
CREATE INDEX action_unsent ON action (host, asked, id) WHERE n = 0 AND state = 'PENDING_SCHEDULE';
INSERT INTO counter (name, last) VALUES ('action', 0);
