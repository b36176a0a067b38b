-- A host whose machine was replaced by another: the keys of its machines before, the
-- request by which the certificates of the present one are known, and the code by
-- which one is awaited; of codes, the host for whose new machine they are. Nothing
-- of it was there before this release (the JSON text null).
ALTER TABLE host ADD COLUMN former BLOB NOT NULL DEFAULT x'6e756c6c';
ALTER TABLE host ADD COLUMN csr BLOB;
ALTER TABLE host ADD COLUMN awaits TEXT NOT NULL DEFAULT '';
ALTER TABLE invite ADD COLUMN host TEXT NOT NULL DEFAULT '';
