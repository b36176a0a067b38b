-- Tombstones go by age as well, which is uptime of this host: no date says it. What
-- is there already counts from here on.
ALTER TABLE self ADD COLUMN up_ms INTEGER NOT NULL DEFAULT 0;      -- uptime that is known of
ALTER TABLE self ADD COLUMN up_boot TEXT NOT NULL DEFAULT '';      -- the boot that it was noted in,
ALTER TABLE self ADD COLUMN up_boot_ms INTEGER NOT NULL DEFAULT 0; -- and when, on its clock
ALTER TABLE tombstones ADD COLUMN up_ms INTEGER NOT NULL DEFAULT 0; -- the uptime when it was written
