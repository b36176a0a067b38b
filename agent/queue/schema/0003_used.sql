-- Approvals of an action that is remembered no more may have been used by it, and
-- are shut out by their date. What ended before this was there has none.
ALTER TABLE actions ADD COLUMN approved_ms INTEGER NOT NULL DEFAULT 0;    -- no approval of it is dated later; 0 without any
ALTER TABLE tombstones ADD COLUMN approved_ms INTEGER NOT NULL DEFAULT 0;
ALTER TABLE self ADD COLUMN used_ms INTEGER NOT NULL DEFAULT 0;           -- the latest among tombstones that are gone
