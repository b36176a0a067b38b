-- How a container ended, the last ten times. Of ends before this, nothing is known.
ALTER TABLE containers ADD COLUMN ends TEXT NOT NULL DEFAULT '[]'; -- as JSON, the newest last
-- What it is limited to, and how it is kept.
ALTER TABLE containers ADD COLUMN settings TEXT NOT NULL DEFAULT '{}'; -- as JSON
