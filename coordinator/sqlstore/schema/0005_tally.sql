-- How many there are of what is asked for all the time: actions by their state,
-- and containers of approved hosts by the state that was last told. Triggers keep
-- it, so that no writer can forget to.
CREATE TABLE tally (
	what TEXT NOT NULL,
	word TEXT NOT NULL,
	n    INTEGER NOT NULL,
	PRIMARY KEY (what, word)
) STRICT, WITHOUT ROWID;

CREATE INDEX host_by_state ON host (state, id);

-- How many containers a host told of, by state: what the tally is made from, so that
-- an inventory without news of that costs nothing.
ALTER TABLE host ADD COLUMN told TEXT NOT NULL DEFAULT '{}';
UPDATE host SET told = (SELECT json_group_object(word, n) FROM (
	SELECT json_extract(c.value, '$.state') AS word, COUNT(*) AS n
	FROM json_each(CAST(host.inventory AS TEXT), '$.containers') AS c
	WHERE c.type = 'object' GROUP BY word));

INSERT INTO tally (what, word, n) SELECT 'action', state, COUNT(*) FROM action GROUP BY state;
INSERT INTO tally (what, word, n) SELECT 'container', c.key, SUM(c.value)
	FROM host, json_each(host.told) AS c WHERE host.state = 'approved' GROUP BY c.key;

CREATE TRIGGER action_comes AFTER INSERT ON action BEGIN
	INSERT INTO tally (what, word, n) VALUES ('action', NEW.state, 1) ON CONFLICT (what, word) DO UPDATE SET n = n + 1;
END;
CREATE TRIGGER action_goes AFTER DELETE ON action BEGIN
	UPDATE tally SET n = n - 1 WHERE what = 'action' AND word = OLD.state;
END;
CREATE TRIGGER action_moves AFTER UPDATE OF state ON action WHEN OLD.state <> NEW.state BEGIN
	UPDATE tally SET n = n - 1 WHERE what = 'action' AND word = OLD.state;
	INSERT INTO tally (what, word, n) VALUES ('action', NEW.state, 1) ON CONFLICT (what, word) DO UPDATE SET n = n + 1;
END;

CREATE TRIGGER host_comes AFTER INSERT ON host WHEN NEW.state = 'approved' BEGIN
	INSERT INTO tally (what, word, n) SELECT 'container', key, value FROM json_each(NEW.told) WHERE true
		ON CONFLICT (what, word) DO UPDATE SET n = n + excluded.n;
END;
CREATE TRIGGER host_goes AFTER DELETE ON host WHEN OLD.state = 'approved' BEGIN
	INSERT INTO tally (what, word, n) SELECT 'container', key, -value FROM json_each(OLD.told) WHERE true
		ON CONFLICT (what, word) DO UPDATE SET n = n + excluded.n;
END;
CREATE TRIGGER host_tells AFTER UPDATE OF state, told ON host WHEN OLD.state <> NEW.state OR OLD.told <> NEW.told BEGIN
	INSERT INTO tally (what, word, n) SELECT 'container', key, -value FROM json_each(OLD.told) WHERE OLD.state = 'approved'
		ON CONFLICT (what, word) DO UPDATE SET n = n + excluded.n;
	INSERT INTO tally (what, word, n) SELECT 'container', key, value FROM json_each(NEW.told) WHERE NEW.state = 'approved'
		ON CONFLICT (what, word) DO UPDATE SET n = n + excluded.n;
END;

-- Words are the hosts' own: one that nobody says any more goes.
CREATE TRIGGER tally_empties AFTER UPDATE ON tally WHEN NEW.n = 0 BEGIN
	DELETE FROM tally WHERE what = NEW.what AND word = NEW.word;
END;
