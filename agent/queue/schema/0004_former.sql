-- What a container was called before: a request that was made meanwhile names it so.
-- Of renames before this, nothing is known.
ALTER TABLE containers ADD COLUMN former TEXT NOT NULL DEFAULT '[]'; -- names as JSON, the newest last
