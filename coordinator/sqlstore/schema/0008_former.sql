-- An action whose order was, or may have been, numbered by the store before a recovery.
-- Until this release the largest integer stood for it as the number of its order.
ALTER TABLE action ADD COLUMN former INTEGER NOT NULL DEFAULT 0;
UPDATE action SET former = 1, n = 0 WHERE n = 9007199254740991;
DROP INDEX action_unsent;
CREATE INDEX action_unsent ON action (host, asked, id) WHERE n = 0 AND former = 0 AND state = 'PENDING_SCHEDULE';
DROP INDEX action_by_expiry;
CREATE INDEX action_by_expiry ON action (n, expires_ms, id)
	WHERE n = 0 AND former = 0 AND state IN ('PENDING_APPROVE', 'PENDING_SCHEDULE');
