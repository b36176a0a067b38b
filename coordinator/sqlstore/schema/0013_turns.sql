-- How many actions of its batch may be under way while this one begins. Batches of
-- earlier releases have no such limit.
ALTER TABLE action ADD COLUMN at_once INTEGER NOT NULL DEFAULT 0;
