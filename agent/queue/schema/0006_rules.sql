-- The rules of alerts that the coordinator has for this host, and its store that sent them.
ALTER TABLE self ADD COLUMN rules TEXT NOT NULL DEFAULT '';        -- JSON; '' before any came
ALTER TABLE self ADD COLUMN rules_store TEXT NOT NULL DEFAULT '';
