-- Whose approvals do not count for what is asked for with a token. Tokens of earlier
-- releases are bound to no person.
ALTER TABLE token ADD COLUMN person TEXT NOT NULL DEFAULT '';
