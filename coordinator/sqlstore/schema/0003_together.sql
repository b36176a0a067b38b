-- What an action was asked for together with, when its order went on each part of
-- its way, and what is gone of its output. Of actions from before this release
-- none of it is known: no batch, the time 0, and of output nothing but what its
-- row said anyhow (the JSON text null).
ALTER TABLE action ADD COLUMN batch TEXT NOT NULL DEFAULT '';
ALTER TABLE action ADD COLUMN sent_ms INTEGER NOT NULL DEFAULT 0;
ALTER TABLE action ADD COLUMN receipted_ms INTEGER NOT NULL DEFAULT 0;
ALTER TABLE action ADD COLUMN accepted_ms INTEGER NOT NULL DEFAULT 0;
ALTER TABLE action ADD COLUMN started_ms INTEGER NOT NULL DEFAULT 0;
ALTER TABLE action ADD COLUMN finished_ms INTEGER NOT NULL DEFAULT 0;
CREATE INDEX action_by_batch ON action (batch, id) WHERE batch <> '';
CREATE INDEX action_by_end ON action (ended_ms, id) WHERE ended_ms > 0;

ALTER TABLE output ADD COLUMN gone BLOB NOT NULL DEFAULT x'6e756c6c';
ALTER TABLE output ADD COLUMN removed_ms INTEGER NOT NULL DEFAULT 0;
