package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/hostler-io/hostler/internal/failpoint"
	"github.com/hostler-io/hostler/internal/sqldb"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/audit"
)

// Apply changes containers and alerts outside of any action.
//
// An alert that is raised or cleared goes up as an item. When too many of them
// wait, the newest state of each id waits in their stead: what was between is
// merged, what holds in the end is told.
func (q *Queue) Apply(ctx context.Context, c Change, now Now) error {
	return q.commit(ctx, failpoint.ContainersKept, "recording containers", func(tx txn) error {
		tx.whatHappened()
		return change(tx, c, now)
	})
}

func change(tx txn, c Change, now Now) error {
	for _, id := range c.Delete {
		if _, err := tx.Exec(`DELETE FROM containers WHERE ctid = $1`, id.String()); err != nil {
			return err
		}
		if err := note(tx, audit.Record{AtMS: now.WallMS, Actor: "host", Verb: "container.forget", Object: id.String()}); err != nil {
			return err
		}
	}
	for _, e := range c.Ended {
		ends, err := json.Marshal(e.Ends[max(0, len(e.Ends)-MaxEnds):])
		if err != nil {
			return err
		}
		if _, err := tx.Exec(`UPDATE containers SET ends = $1 WHERE ctid = $2`, string(ends), e.CTID.String()); err != nil {
			return err
		}
	}
	for _, a := range c.Asked {
		if err := asked(tx, a); err != nil {
			return err
		}
	}
	if c.Networks != nil {
		if err := keepNetworks(tx, *c.Networks); err != nil {
			return err
		}
	}
	for i := range c.Put {
		if err := put(tx, &c.Put[i]); err != nil {
			return err
		}
		if err := note(tx, containerRecord(&c.Put[i], now)); err != nil {
			return err
		}
	}
	for _, a := range c.Alerts {
		if err := alert(tx, a); err != nil {
			return err
		}
	}
	return nil
}

// asked notes when the schedules of a container were followed.
func asked(tx txn, a AskedOf) error {
	backed, err := json.Marshal(a.Backed)
	if err != nil {
		return err
	}
	snapped, err := json.Marshal(a.Snapped)
	if err != nil {
		return err
	}
	_, err = tx.Exec(`UPDATE containers SET settings = json_set(settings, '$.backed', json($1), '$.snapped', json($2)) WHERE ctid = $3`,
		string(backed), string(snapped), a.CTID.String())
	return err
}

// containerRecord says what a container is meant to be from now on.
func containerRecord(c *Container, now Now) audit.Record {
	detail := map[string]any{"name": string(c.Name), "runtime": c.Runtime, "class": c.Class, "intended": c.Intended, "made": c.Made}
	if c.Failures > 0 {
		detail["failures"] = c.Failures
	}
	if c.Broken != "" {
		detail["broken"] = c.Broken
	}
	return audit.Record{AtMS: now.WallMS, Actor: "host", Verb: "container.keep", Object: c.CTID.String(), Detail: detail}
}

func put(tx txn, c *Container) error {
	labels, err := json.Marshal(c.Labels)
	if err != nil {
		return err
	}
	former, err := json.Marshal(slices.Concat([]protocol.ContainerName{}, c.Former))
	if err != nil {
		return err
	}
	ends, err := json.Marshal(slices.Concat([]End{}, c.Ends[max(0, len(c.Ends)-MaxEnds):]))
	if err != nil {
		return err
	}
	settings, err := json.Marshal(c.Settings)
	if err != nil {
		return err
	}
	_, err = tx.Exec(`INSERT INTO containers (ctid, name, runtime, class, epoch_ring, epoch_term, epoch_counter, intended,
		offline, labels, template, address, mac, made, failures, broken, former, ends, settings)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19)
		ON CONFLICT (ctid) DO UPDATE SET name = excluded.name, runtime = excluded.runtime, class = excluded.class,
		template = excluded.template, epoch_ring = excluded.epoch_ring, epoch_term = excluded.epoch_term,
		epoch_counter = excluded.epoch_counter, intended = excluded.intended, offline = excluded.offline, labels = excluded.labels,
		address = excluded.address, mac = excluded.mac, made = excluded.made, failures = excluded.failures, broken = excluded.broken,
		former = excluded.former, settings = json_set(excluded.settings, '$.backed', json(coalesce(settings -> '$.backed', '{}')),
			'$.snapped', json(coalesce(settings -> '$.snapped', '{}')))`,
		c.CTID.String(), string(c.Name), c.Runtime, c.Class, c.Epoch.Term.Ring, c.Epoch.Term.Counter, c.Epoch.Counter, c.Intended,
		c.Offline, string(labels), c.Template, c.Address, c.MAC, c.Made, c.Failures, clean(c.Broken), string(former), string(ends), string(settings))
	if errors.Is(err, sqldb.ErrUnique) {
		return fmt.Errorf("container %q: %w", c.Name, ErrExists)
	}
	return err
}

// Containers returns what is remembered of all containers, by name.
func (q *Queue) Containers(ctx context.Context) ([]Container, error) {
	return view(ctx, q, "reading containers", func(tx txn) ([]Container, error) {
		return sqldb.All(tx.Tx, scanContainer, `SELECT ctid, name, runtime, class, epoch_ring, epoch_term, epoch_counter, intended,
			offline, labels, template, address, mac, made, failures, broken, former, ends, settings FROM containers ORDER BY name`)
	})
}

func scanContainer(r sqldb.Row) (c Container, err error) {
	var ctid, labels, former, ends, settings string
	err = r.Scan(&ctid, (*string)(&c.Name), &c.Runtime, &c.Class, &c.Epoch.Term.Ring, &c.Epoch.Term.Counter, &c.Epoch.Counter,
		&c.Intended, &c.Offline, &labels, &c.Template, &c.Address, &c.MAC, &c.Made, &c.Failures, &c.Broken, &former, &ends, &settings)
	if err != nil {
		return c, err
	}
	if c.CTID, err = protocol.ParseCTID(ctid); err != nil {
		return c, err
	}
	if err := errors.Join(json.Unmarshal([]byte(labels), &c.Labels), json.Unmarshal([]byte(former), &c.Former),
		json.Unmarshal([]byte(ends), &c.Ends), json.Unmarshal([]byte(settings), &c.Settings)); err != nil {
		return c, fmt.Errorf("what is remembered of container %q: %w", c.Name, err)
	}
	return c, nil
}

// Alerts returns those that are raised, by id.
func (q *Queue) Alerts(ctx context.Context) ([]protocol.AlertInfo, error) {
	return view(ctx, q, "reading alerts", func(tx txn) ([]protocol.AlertInfo, error) {
		return sqldb.All(tx.Tx, func(r sqldb.Row) (a protocol.AlertInfo, err error) {
			return a, r.Scan(&a.ID, &a.Severity, &a.Text, &a.SinceMS)
		}, `SELECT id, severity, text, since_ms FROM alerts WHERE raised = 1 ORDER BY id`)
	})
}

// alert makes a change of an alert durable and puts it into the outbox, or lets
// it wait for room there.
func alert(tx txn, a protocol.Alert) error {
	a.Text = clean(a.Text)
	full, err := waiting(tx, protocol.StreamAlert)
	if err != nil {
		return err
	}
	_, err = tx.Exec(`INSERT INTO alerts (id, severity, text, since_ms, raised, waits) VALUES ($1, $2, $3, $4, $5, $6)
		ON CONFLICT (id) DO UPDATE SET severity = excluded.severity, text = excluded.text, since_ms = excluded.since_ms,
		raised = excluded.raised, waits = excluded.waits`, a.ID, a.Severity, a.Text, a.SinceMS, a.Raised, full >= MaxAlerts)
	if err != nil || full >= MaxAlerts {
		return err
	}
	if _, err := push(tx, protocol.StreamAlert, a); err != nil {
		return err
	}
	return dropCleared(tx)
}

// pushWaiting puts alerts that waited into the outbox, as far as there is room.
func pushWaiting(tx txn) error {
	full, err := waiting(tx, protocol.StreamAlert)
	if err != nil || full >= MaxAlerts {
		return err
	}
	due, err := sqldb.All(tx.Tx, func(r sqldb.Row) (a protocol.Alert, err error) {
		return a, r.Scan(&a.ID, &a.Severity, &a.Text, &a.SinceMS, &a.Raised)
	}, `SELECT id, severity, text, since_ms, raised FROM alerts WHERE waits = 1 ORDER BY since_ms, id LIMIT $1`, MaxAlerts-full)
	if err != nil {
		return err
	}
	for _, a := range due {
		if _, err := push(tx, protocol.StreamAlert, a); err != nil {
			return err
		}
		if _, err := tx.Exec(`UPDATE alerts SET waits = 0 WHERE id = $1`, a.ID); err != nil {
			return err
		}
	}
	return dropCleared(tx)
}

func dropCleared(tx txn) error {
	_, err := tx.Exec(`DELETE FROM alerts WHERE raised = 0 AND waits = 0`)
	return err
}
