package web_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/coordinator/coordtest"
	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/coordinator/sqlstore"
	"github.com/hostler-io/hostler/coordinator/web"
	"github.com/hostler-io/hostler/protocol"
)

// large is a fleet of the size that one coordinator serves, in a real database.
type large struct {
	api   http.Handler
	token string
	open  protocol.ActionID // an action that has not ended
}

const (
	fleetHosts   = 10_000
	fleetActions = 200_000
)

func newLarge(b *testing.B) *large {
	store, err := sqlstore.Create(b.Context(), sqlstore.Config{Path: filepath.Join(b.TempDir(), "store.db")})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := store.Close(); err != nil {
			b.Error(err)
		}
	})
	l := &large{}
	name := func(i int) protocol.HostID { return protocol.HostID(fmt.Sprintf("edge-%05d", i%fleetHosts)) }
	now := time.Now().UnixMilli()
	states := protocol.States()[1:]
	spec := coordtest.RunSpec("sh", "-c", "exec /usr/local/bin/refresh --all")
	// put stores n records, a thousand in a transaction.
	put := func(n int, one func(tx core.Tx, i int) error) {
		for from := 0; from < n; from += 1000 {
			err := store.Update(b.Context(), func(tx core.Tx) error {
				for i := from; i < min(from+1000, n); i++ {
					if err := one(tx, i); err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				b.Fatal(err)
			}
		}
	}
	put(fleetHosts, func(tx core.Tx, i int) error {
		key := coordtest.NewKey("host " + string(name(i)))
		h := core.Host{ID: name(i), State: core.HostApproved, Key: key.Key(), PublicKey: key.Certificate(), Labels: []string{"site=lab", "tier=web"}, ApprovedMS: now}
		h.Inventory.AtMS = now
		h.Inventory.Host = protocol.HostInfo{Hostname: string(h.ID), Arch: "amd64", Version: "0.1.0", Interfaces: []protocol.Interface{{Name: "eth0", MAC: "02:00:00:00:00:01", Up: true, Addresses: []string{"192.0.2.7/24"}}}}
		for c := range 10 {
			h.Inventory.Containers = append(h.Inventory.Containers, protocol.Container{Name: fmt.Sprint("web-", c), Runtime: "lxc", State: "running",
				Intended: "running", Class: "pinned", Offline: "keep", Addresses: []string{"10.0.3.7/24"}})
		}
		return tx.Hosts.Put(h)
	})
	put(fleetActions, func(tx core.Tx, i int) error {
		a := core.Action{ID: protocol.NewActionID(now+int64(i), [10]byte{}), Host: name(i), Kind: protocol.KindRun, Spec: spec, Digest: protocol.Sum(spec), State: states[i%len(states)], Requester: "admin", CreatedMS: now, UpdatedMS: now}
		if a.State.Final() {
			a.EndedMS = now
		} else {
			l.open = a.ID
		}
		return tx.Actions.Insert(a)
	})
	f := coordtest.NewOn(b, store)
	l.token = f.Token(core.RoleViewer)
	if l.api, err = web.New(web.Config{Coordinator: f.Coordinator(), Version: "0.1.0"}); err != nil {
		b.Fatal(err)
	}
	return l
}

// BenchmarkReads reads what people and their tools ask for all the time.
func BenchmarkReads(b *testing.B) {
	l := newLarge(b)
	for _, path := range []string{
		"/v1/status", "/metrics", "/v1/hosts", "/v1/hosts?limit=100", "/v1/containers", "/v1/hosts/edge-04711", "/v1/actions", "/v1/actions?limit=1000",
		"/v1/actions?host=edge-04711", "/v1/actions?state=RUNNING,NEW", "/v1/actions/" + l.open.String(), "/v1/actions/" + l.open.String() + "?why=true",
	} {
		b.Run(path, func(b *testing.B) {
			for b.Loop() {
				w := httptest.NewRecorder()
				r := httptest.NewRequestWithContext(b.Context(), http.MethodGet, path, nil)
				r.Header.Set("Authorization", "Bearer "+l.token)
				if l.api.ServeHTTP(w, r); w.Code != http.StatusOK {
					b.Fatalf("%d: %s", w.Code, w.Body)
				}
			}
		})
	}
}

// TestListsByHostInPages: pages are in order, end with whole hosts, and together are
// everything.
func TestListsByHostInPages(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		var hosts, containers []string
		for i := range 7 {
			key := coordtest.NewKey(fmt.Sprint("host edge-1", i))
			h := core.Host{ID: protocol.HostID(fmt.Sprint("edge-1", i)), State: core.HostApproved, Key: key.Key(), PublicKey: key.Certificate()}
			hosts = append(hosts, string(h.ID))
			for c := range i % 3 {
				name := fmt.Sprint("web-", c)
				h.Inventory.Containers = append(h.Inventory.Containers, protocol.Container{Name: name, Runtime: "lxc", State: "running"})
				containers = append(containers, string(h.ID)+"/"+name)
			}
			s.f.Put(h)
		}
		for limit := 1; limit < 12; limit++ {
			var gotHosts, gotContainers []string
			for after := "edge-07"; ; {
				page := as[[]api.Host](t, s.call(core.RoleViewer, http.MethodGet, fmt.Sprintf("/v1/hosts?limit=%d&cursor=%s", limit, after), nil), http.StatusOK)
				for _, h := range page {
					gotHosts, after = append(gotHosts, h.ID), h.ID
				}
				if len(page) < limit {
					break
				}
			}
			for after := ""; ; {
				page := as[[]api.Container](t, s.call(core.RoleViewer, http.MethodGet, fmt.Sprintf("/v1/containers?limit=%d&cursor=%s", limit, after), nil), http.StatusOK)
				for _, c := range page {
					gotContainers, after = append(gotContainers, c.Host+"/"+c.Name), c.Host
				}
				if len(page) < limit {
					break
				}
			}
			if !slices.Equal(gotHosts, hosts) || !slices.Equal(gotContainers, containers) {
				t.Fatalf("in pages of %d there are %v and %v, want %v and %v", limit, gotHosts, gotContainers, hosts, containers)
			}
		}
		sum := as[api.Status](t, s.call(core.RoleViewer, http.MethodGet, "/v1/status", nil), http.StatusOK)
		if sum.Containers["running"] != len(containers) || sum.Hosts["unknown"] != len(hosts) {
			t.Errorf("the summary has %v and %v", sum.Hosts, sum.Containers)
		}
	})
}
