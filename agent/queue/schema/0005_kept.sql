-- Whether output of an action may be on this host alone: its row stays as long as that.
-- Of actions that ended before this, nothing is known.
ALTER TABLE actions ADD COLUMN kept INTEGER NOT NULL DEFAULT 0;
