package web_test

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/coordinator/access"
	"github.com/hostler-io/hostler/coordinator/actions"
	"github.com/hostler-io/hostler/coordinator/coordtest"
	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/protocol"
)

// names reads a list page by page, each element by a member of it.
func names(t *testing.T, s *site, path string, query url.Values, member string) (all []string) {
	t.Helper()
	for {
		r := s.call(core.RoleAdmin, http.MethodGet, path+"?"+query.Encode(), nil)
		for _, e := range as[[]map[string]any](t, r, http.StatusOK) {
			all = append(all, fmt.Sprint(e[member]))
		}
		next := r.Header.Get("Hostler-Next-Cursor")
		if next == "" {
			return all
		}
		query.Set("cursor", next)
	}
}

// TestListsAreAlike: each list comes in pages of any length, and by label, state and
// time.
func TestListsAreAlike(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		var ids []string
		var half time.Time
		for i := range 5 {
			if i == 3 {
				half = time.Now().UTC()
			}
			host := protocol.HostID(fmt.Sprintf("lab-%d", i))
			h := s.f.AddHost(host)
			h.Connect()
			h.Set(func(f *coordtest.Facts) {
				f.Containers = []protocol.Container{{Name: fmt.Sprintf("web-%d", i), Runtime: "lxc", State: "running", Labels: []string{fmt.Sprintf("n=%d", i)}}}
			})
			h.Heartbeat()
			if err := s.f.Coordinator().Members().Relabel(t.Context(), s.f.Admin(), host, []string{"site=lab", fmt.Sprintf("n=%d", i%2)}, nil, ""); err != nil {
				t.Fatal(err)
			}
			if _, _, err := s.f.Coordinator().Access().CreateToken(t.Context(), s.f.Admin(), access.Wish{Name: fmt.Sprintf("bob-%d", i), Role: core.RoleViewer, Life: time.Duration(i+1) * time.Hour}); err != nil {
				t.Fatal(err)
			}
			if _, err := s.f.Coordinator().Access().CreateViewer(t.Context(), s.f.Admin(), fmt.Sprintf("screen-%d", i)); err != nil {
				t.Fatal(err)
			}
			if _, _, err := s.f.Coordinator().Members().Invite(t.Context(), s.f.Admin(), time.Hour, []string{fmt.Sprintf("n=%d", i)}); err != nil {
				t.Fatal(err)
			}
			s.f.Join(protocol.HostID(fmt.Sprintf("new-%d", i)))
			a, err := s.f.Coordinator().Actions().Propose(t.Context(), s.f.Admin(), actions.Request{Host: host, Spec: coordtest.RunSpec("true")})
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, a.ID.String())
			wait(time.Second)
		}
		slices.Reverse(ids) // the newest come first
		since := half.Format(time.RFC3339Nano)
		for _, c := range []struct {
			path, query, member, want string
		}{
			{"hosts", "", "id", "edge-07 lab-0 lab-1 lab-2 lab-3 lab-4"},
			{"hosts", "label=n=1,site=lab", "id", "lab-1 lab-3"},
			{"hosts", "label=site!=lab", "id", "edge-07"},
			{"hosts", "state=offline,revoked", "id", ""},
			{"hosts", "state=online&label=n=0", "id", "lab-0 lab-2 lab-4"},
			{"containers", "", "name", "web-0 web-1 web-2 web-3 web-4"},
			{"containers", "label=n=3&state=running", "name", "web-3"},
			{"containers", "state=frozen", "name", ""},
			{"actions", "", "id", strings.Join(ids, " ")},
			{"actions", "label=n=1", "id", ids[1] + " " + ids[3]},
			{"actions", "since=" + since, "id", ids[0] + " " + ids[1]},
			{"actions", "until=" + since + "&state=PENDING_SCHEDULE", "id", strings.Join(ids[2:], " ")},
			{"tokens", "since=" + since, "name", "bob-3 bob-4"},
			{"viewers", "state=active", "name", "screen-0 screen-1 screen-2 screen-3 screen-4"},
			{"invites", "label=n=2", "labels", "[n=2]"},
			{"hosts/lab-3/containers", "label=n=3&state=running", "name", "web-3"},
			{"hosts/lab-3/containers", "state=frozen", "name", ""},
			{"kinds", "fields=kind", "kind", strings.Join(sortedKinds(), " ")},
			{"keys", "fields=person", "key", strings.TrimSuffix(strings.Repeat("<nil> ", len(s.f.Coordinator().Keys())), " ")},
			{"enrolments", "state=pending&until=" + since, "host", "new-0 new-1 new-2"},
		} {
			for _, limit := range []string{"1", "2", "100"} {
				query, err := url.ParseQuery(c.query + "&limit=" + limit)
				if err != nil {
					t.Fatal(err)
				}
				if got := strings.Join(names(t, s, "/v1/"+c.path, query, c.member), " "); got != c.want {
					t.Errorf("%s?%s by %s: %s, want %s", c.path, c.query, limit, got, c.want)
				}
			}
		}
		wait(2 * time.Hour)
		if got := names(t, s, "/v1/tokens", url.Values{"state": {"expired"}}, "name"); !slices.Equal(got, []string{"bob-0", "bob-1"}) {
			t.Errorf("expired are %s", got)
		}
		for _, path := range []string{"hosts?fields=id,nosuch", "keys?label=a=b", "kinds?state=on", "hosts/edge-07/events?cursor=x", "batches?cursor=x", "hosts?after=a", "hosts?state=sad", "actions?state=sad", "tokens?label=a=b", "hosts?label=a", "actions?cursor=x", "audit?cursor=x", "hosts?since=today"} {
			wantProblem(t, s.call(core.RoleAdmin, http.MethodGet, "/v1/"+path, nil), api.CodeInvalid)
		}
	})
}

func sortedKinds() (all []string) {
	for _, k := range protocol.Kinds() {
		all = append(all, string(k))
	}
	slices.Sort(all)
	return all
}

// TestBatchesAreListed: each once, the newest first, among actions of none.
func TestBatchesAreListed(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		var want []string
		for i := range 5 {
			id := protocol.NewBatchID(time.Now().UnixMilli(), [10]byte{byte(i)})
			want = append([]string{id.String()}, want...)
			s.f.AddHost(protocol.HostID(fmt.Sprintf("lab-%d", i)))
			for _, hosts := range [][]protocol.HostID{{"edge-07"}, {"lab-0"}} { // each is asked for in two requests
				if _, _, err := s.f.Coordinator().Actions().ProposeMany(t.Context(), s.f.Admin(), actions.BatchRequest{ID: id, Hosts: hosts, Spec: coordtest.RunSpec("true")}); err != nil {
					t.Fatal(err)
				}
				if _, err := s.f.Coordinator().Actions().Propose(t.Context(), s.f.Admin(), actions.Request{Host: "lab-0", Spec: coordtest.RunSpec("true")}); err != nil {
					t.Fatal(err)
				}
				wait(time.Second)
			}
		}
		for _, limit := range []string{"1", "2", "100"} {
			if got := names(t, s, "/v1/batches", url.Values{"limit": {limit}}, "id"); !slices.Equal(got, want) {
				t.Errorf("by %s: %s, want %s", limit, got, want)
			}
		}
		one := as[[]api.BatchEntry](t, s.call(core.RoleViewer, http.MethodGet, "/v1/batches?limit=1", nil), http.StatusOK)[0]
		if one.Kind != "host.run" || one.Requester == "" || one.At.IsZero() {
			t.Errorf("it is listed as %+v", one)
		}
	})
}

// TestHostEventPages: what happened to a host comes in pages, back from the newest.
func TestHostEventPages(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		for i := range 7 {
			if err := s.f.Coordinator().Members().Relabel(t.Context(), s.f.Admin(), "edge-07", []string{fmt.Sprintf("n=%d", i)}, nil, ""); err != nil {
				t.Fatal(err)
			}
			wait(time.Second)
		}
		read := func(query string) ([]api.HostEvent, string) {
			r := s.call(core.RoleViewer, http.MethodGet, "/v1/hosts/edge-07/events?"+query, nil)
			return as[[]api.HostEvent](t, r, http.StatusOK), r.Header.Get(api.NextCursor)
		}
		all, next := read("limit=1000")
		if next != "" || len(all) < 7 {
			t.Fatalf("%d events, next %q", len(all), next)
		}
		var got []api.HostEvent
		for cursor := ""; ; {
			page, next := read("limit=3" + cursor)
			got = append(page, got...)
			if next == "" {
				break
			}
			cursor = "&cursor=" + next
		}
		if fmt.Sprint(got) != fmt.Sprint(all) {
			t.Errorf("in pages %v, at once %v", got, all)
		}
		if before, _ := read("until=" + all[3].At.Format(time.RFC3339Nano)); len(before) == 0 || !before[len(before)-1].At.Before(all[3].At) {
			t.Errorf("until %s: %v", all[3].At, before)
		}
	})
}

// TestAuditPages: the audit log comes in pages in both directions.
func TestAuditPages(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		for i := range 7 {
			if err := s.f.Coordinator().Members().Relabel(t.Context(), s.f.Admin(), "edge-07", []string{fmt.Sprintf("n=%d", i)}, nil, ""); err != nil {
				t.Fatal(err)
			}
		}
		all := as[api.AuditPage](t, s.call(core.RoleViewer, http.MethodGet, "/v1/audit?limit=1000", nil), http.StatusOK).Records
		for _, from := range []string{"", "after=1&"} {
			var got []uint64
			for cursor := ""; ; {
				r := s.call(core.RoleViewer, http.MethodGet, "/v1/audit?limit=2&"+from+cursor, nil)
				for _, rec := range as[api.AuditPage](t, r, http.StatusOK).Records {
					got = append(got, rec.N)
				}
				next := r.Header.Get("Hostler-Next-Cursor")
				if next == "" {
					break
				}
				cursor = "cursor=" + url.QueryEscape(next)
			}
			slices.Sort(got)
			want := len(all)
			if from != "" {
				want--
			}
			if len(got) != want || len(slices.Compact(got)) != want {
				t.Errorf("%q: %d records, want %d of %d", from, got, want, len(all))
			}
		}
	})
}

// TestOperationsTakeTheSame: each list takes the same parameters, each change takes a key by
// which it takes effect once, and each answer in JSON may be asked for again by its tag.
func TestOperationsTakeTheSame(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		type operation struct {
			OperationID string
			Parameters  []struct{ Name, In string }
			Responses   map[string]struct {
				Content map[string]any
			}
		}
		doc := as[struct {
			Paths map[string]map[string]operation
		}](t, s.call("", http.MethodGet, "/v1/openapi.json", nil), http.StatusOK)
		wants := []string{"query cursor", "query limit", "query label", "query state", "query since", "query until", "query fields"}
		lists, changes := 0, 0
		for path, methods := range doc.Paths {
			for method, op := range methods {
				var want []string
				_, json := op.Responses["200"].Content["application/json"]
				switch list := strings.HasPrefix(op.OperationID, "list-"); {
				case op.OperationID == "list-audit": // its answer is an object, and it has filters of its own
					want = []string{"query cursor", "query limit", "query since", "query until"}
				case list:
					want = wants
					lists++
				case method != "get" && !strings.HasPrefix(path, "/v1/payloads"):
					want = []string{"header Idempotency-Key"}
					changes++
				}
				for _, w := range want {
					in, name, _ := strings.Cut(w, " ")
					if !slices.ContainsFunc(op.Parameters, func(p struct{ Name, In string }) bool { return p.Name == name && p.In == in }) {
						t.Errorf("%s takes no %s", op.OperationID, name)
					}
				}
				if _, unchanged := op.Responses["304"]; method == "get" && json && !unchanged && op.OperationID != "get-document" {
					t.Errorf("%s cannot be asked for again by its tag", op.OperationID)
				}
			}
		}
		if lists < 15 || changes < 30 {
			t.Errorf("%d lists and %d changes are found", lists, changes)
		}
	})
}
