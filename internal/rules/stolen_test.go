package rules

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// What a row of doc/stolen-keys.md begins with, by a table of a store or a kind of action
// that it is about. Where the row is empty, no stolen key makes the other side keep anything.
var (
	onHosts = map[string]string{
		"actions": "actions, queued and ended", "alerts": "rules of alerts", "audit": "audit log of the host", "audit_reserve": "audit log of the host",
		"containers": "containers", "outbox": "reports that were freed by forged receipts", "rejected": "items that the host could not read",
		"self": "term and store of the coordinator", "streams": "positions of orders and controls", "tombstones": "actions, queued and ended",
	}
	onCoordinator = map[string]string{
		"action": "reports, output", "audit": "presence, and the timeline of the host", "counter": "presence, and the timeline of the host", "enrolment": "enrolments that wait",
		"event": "presence, and the timeline of the host", "fence": "outcome of a fence device", "host": "inventory, alerts", "invite": "", "item": "reports, output",
		"output": "reports, output", "seal": "", "store": "recovery", "stream": "accepted number, positions, audit head of a host", "tally": "inventory, alerts",
		"token": "", "value": "its own term", "viewer": "", "workload": "copies of unique containers",
	}
	byKind = map[string]string{
		"container.adopt": "containers", "container.backup": "backups on the host", "container.clone": "containers", "container.create": "containers",
		"container.demote": "containers", "container.destroy": "containers", "container.exec": "what commands and files change", "container.expose": "exposed ports", "container.freeze": "containers", "container.unfreeze": "containers",
		"container.attach": "what commands and files change", "container.limit": "labels, limits and settings", "container.promote": "containers",
		"container.pull": "output, payloads, pulled files", "container.push": "what commands and files change", "container.rename": "containers",
		"container.reset": "containers", "container.restart": "containers", "container.restore": "containers", "container.rollback": "snapshots of a container",
		"container.set": "labels, limits and settings", "container.snapshot": "snapshots of a container", "container.snapshot-prune": "snapshots of a container",
		"container.snapshot-remove": "snapshots of a container", "container.start": "containers", "container.stop": "containers", "container.stop-now": "containers",
		"container.unexpose": "exposed ports", "container.upgrade": "containers",
		"host.attach": "what commands and files change", "host.backup-export": "output, payloads, pulled files", "host.backup-import": "backups on the host",
		"host.backup-remove": "backups on the host", "host.drill": "faults of a drill", "host.fence": "an off or on by a fence device",
		"host.pull": "output, payloads, pulled files", "host.push": "what commands and files change", "host.run": "what commands and files change", "host.upgrade": "the agent itself",
		"image.export": "output, payloads, pulled files", "image.import": "images", "image.import-unsigned": "images", "image.prune": "images", "image.pull": "images", "image.remove": "images",
		"network.cleanup": "networks of containers", "network.create": "networks of containers", "network.remove": "networks of containers",
		"policy.set": "policy", "volume.remove": "volumes",
		// These tell, and change nothing but their own action.
		"container.config": "", "container.inspect": "", "container.logs": "", "host.audit": "", "host.backup-list": "",
		"host.backup-verify": "", "host.check": "", "host.metrics": "", "host.ping": "", "image.list": "", "network.list": "", "volume.list": "",
	}
)

// TestStolenKeysPage: whatever either side keeps, and whatever an order can change, has a row
// in the page on stolen keys, with its limit and what undoes it.
func TestStolenKeysPage(t *testing.T) {
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(root, "doc/stolen-keys.md"))
	if err != nil {
		t.Fatal(err)
	}
	table := regexp.MustCompile(`(?m)^CREATE TABLE ([a-z_]+)`)
	kind := regexp.MustCompile(`(?m)^(?:const|\t)\s*Kind[A-Za-z]+\s+Kind = "([a-z.-]+)"`)
	for _, of := range []struct {
		files string
		names *regexp.Regexp
		rows  map[string]string
	}{
		{"agent/queue/schema/*.sql", table, onHosts},
		{"coordinator/sqlstore/schema/*.sql", table, onCoordinator},
		{"protocol/kind_*.go", kind, byKind},
	} {
		files, err := filepath.Glob(filepath.Join(root, of.files))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v", of.files, err)
		}
		found := make(map[string]bool)
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range of.names.FindAllStringSubmatch(string(text), -1) {
				found[m[1]] = true
			}
		}
		for name := range found {
			row, known := of.rows[name]
			if !known {
				t.Errorf("%s: what a stolen key can make of %s is not said: give it a row in doc/stolen-keys.md", of.files, name)
			} else if row != "" && !strings.Contains(string(page), "\n| "+row) {
				t.Errorf("doc/stolen-keys.md has no row %q, which is about %s", row, name)
			}
		}
		for name := range of.rows {
			if !found[name] {
				t.Errorf("%s has no %s", of.files, name)
			}
		}
	}
}
