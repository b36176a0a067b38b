-- The networks for containers that were made beside the first one.
ALTER TABLE self ADD COLUMN networks TEXT NOT NULL DEFAULT '[]'; -- as JSON
