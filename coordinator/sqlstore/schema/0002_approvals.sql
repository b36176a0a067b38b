-- What an action needs before it is sent, and who has approved it. Actions from
-- before this release need nothing: the default is the JSON text null.
ALTER TABLE action ADD COLUMN needs BLOB NOT NULL DEFAULT x'6e756c6c';
ALTER TABLE action ADD COLUMN approvals BLOB NOT NULL DEFAULT x'6e756c6c';
