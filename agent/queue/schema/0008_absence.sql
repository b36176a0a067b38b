-- For how long the host was cut off from its coordinator. Of the time before this, nothing is known.
ALTER TABLE self ADD COLUMN absence TEXT NOT NULL DEFAULT '{}'; -- as JSON
