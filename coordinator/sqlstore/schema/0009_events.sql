-- The newest event tells how far events have come; the counter only says behind which
-- id they go on when none is left. Its name is another one, so that a release which
-- counts each event there does not take it for that.
UPDATE counter SET name = 'events before' WHERE name = 'event';
