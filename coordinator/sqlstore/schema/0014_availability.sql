-- Whether workloads may be placed on a host, as people have decided. JSON.
ALTER TABLE host ADD COLUMN availability BLOB NOT NULL DEFAULT x'7B7D';
