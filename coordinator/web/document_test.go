package web_test

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/coordinator/access"
	"github.com/hostler-io/hostler/coordinator/actions"
	"github.com/hostler-io/hostler/coordinator/alerting"
	"github.com/hostler-io/hostler/coordinator/coordtest"
	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/coordinator/fencing"
	"github.com/hostler-io/hostler/coordinator/members"
	"github.com/hostler-io/hostler/coordinator/relay"
	"github.com/hostler-io/hostler/fence"
	"github.com/hostler-io/hostler/internal/attach"
	"github.com/hostler-io/hostler/protocol"
)

// exercise is one request of an operation that goes well for whoever has the
// role.
type exercise struct {
	op     string
	need   core.TokenRole // least role; none for what is open
	method string
	path   string
	body   any
	status int
}

// exercises prepares a site so that every operation can be asked once, and
// returns how.
func exercises(s *site) []exercise {
	s.t.Helper()
	const (
		none, viewer, operator = "", core.RoleViewer, core.RoleOperator
		approver, admin        = core.RoleApprover, core.RoleAdmin
		get, post, put, del    = http.MethodGet, http.MethodPost, http.MethodPut, http.MethodDelete
	)
	s.host.Set(func(f *coordtest.Facts) {
		f.Containers = []protocol.Container{{Name: "web", Runtime: "lxc", State: "running", Labels: []string{"tier=web"}}}
	})
	s.host.Heartbeat()
	s.host.Alert(protocol.Alert{AlertInfo: protocol.AlertInfo{ID: "disk/full", Severity: "warning", Text: "the disk is full", SinceMS: 1}, Raised: true})
	key := coordtest.NewKey("quarantined")
	s.f.Put(core.Host{ID: "edge-08", State: core.HostApproved, Key: key.Key(), PublicKey: key.Certificate(), Quarantined: "two processes speak for it"})
	s.f.AddHost("edge-09")
	whole, open := protocol.NewBatchID(1, [10]byte{1}), protocol.NewBatchID(1, [10]byte{2})
	for _, r := range []actions.BatchRequest{{ID: whole, Hosts: []protocol.HostID{"edge-07", "nobody"}}, {ID: open, Hosts: []protocol.HostID{"edge-07"}}} {
		if r.ID == whole {
			s.host.Auto(coordtest.Succeed("hello\n"))
		} else {
			s.host.Auto(func(h *coordtest.Host, o coordtest.Order) { h.Report(o.Started(h)) })
		}
		r.Spec = coordtest.RunSpec("true")
		if _, _, err := s.f.Coordinator().Actions().ProposeMany(s.t.Context(), s.f.Admin(), r); err != nil {
			s.t.Fatal(err)
		}
		synctest.Wait()
	}
	done := s.ended("hello\n")
	s.host.Auto(func(h *coordtest.Host, o coordtest.Order) { h.Report(o.Started(h)) })
	a, err := s.f.Coordinator().Actions().Propose(s.t.Context(), s.f.Admin(), actions.Request{Host: "edge-07", Spec: coordtest.RunSpec("sleep", "9")})
	if err != nil {
		s.t.Fatal(err)
	}
	synctest.Wait()
	s.host.Auto(coordtest.Succeed(""))
	if _, err := s.f.Coordinator().Actions().Propose(s.t.Context(), s.f.Admin(), actions.Request{
		Host: "edge-07", Spec: coordtest.Spec(protocol.Spec{Kind: protocol.KindCreate, Target: protocol.CTID(protocol.NewActionID(1, [10]byte{9: 77})), Name: "db", Args: &protocol.CreateArgs{Template: "busybox", Class: "unique", Data: "none"}}),
	}); err != nil {
		s.t.Fatal(err)
	}
	target := s.f.AddHost("edge-06")
	target.Lie(func(h *protocol.Hello) { h.SelfFence, h.Features = "guard", []string{"lxc", "lxc.unique"} })
	target.Connect()
	synctest.Wait()
	s.f.Coordinator().Workloads().Tick(s.t.Context()) // db is there
	s.host.Auto(func(h *coordtest.Host, o coordtest.Order) { h.Report(o.Started(h)) })
	torn, err := s.f.Coordinator().Actions().Propose(s.t.Context(), s.f.Admin(), actions.Request{Host: "edge-07", Spec: coordtest.RunSpec("sleep", "8")})
	if err != nil {
		s.t.Fatal(err)
	}
	synctest.Wait()
	theirs := coordtest.RunSpec("sleep", "7")
	s.host.Report(protocol.Report{Action: torn.ID, Digest: protocol.Sum(theirs), Spec: theirs, Event: protocol.EventRetry, State: protocol.StateRunning, Attempt: 2})
	shell, err := s.f.Coordinator().Actions().Propose(s.t.Context(), s.f.Admin(), actions.Request{
		Host: "edge-07", Spec: coordtest.Spec(protocol.Spec{Kind: protocol.KindAttach, Args: &protocol.SessionArgs{TTY: &protocol.TTY{Rows: 24, Cols: 80}}}),
	})
	if err != nil {
		s.t.Fatal(err)
	}
	_, token, err := s.f.Coordinator().Access().CreateToken(s.t.Context(), s.f.Admin(), access.Wish{Name: "bob", Role: viewer, Life: time.Hour})
	if err != nil {
		s.t.Fatal(err)
	}
	invite, _, err := s.f.Coordinator().Members().Invite(s.t.Context(), s.f.Admin(), time.Hour, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	if _, err := s.f.Coordinator().Access().CreateViewer(s.t.Context(), s.f.Admin(), "eyes"); err != nil {
		s.t.Fatal(err)
	}
	if _, err := s.f.Coordinator().Alerts().SetRule(s.t.Context(), s.f.Admin(), alerting.RuleSet{Name: "disks", Of: "host", Rules: []string{"disk=90%"}}, ""); err != nil {
		s.t.Fatal(err)
	}
	if _, err := s.f.Coordinator().Alerts().Mute(s.t.Context(), s.f.Admin(), alerting.Mute{Alert: "disk."}, time.Hour); err != nil {
		s.t.Fatal(err)
	}
	s.host.Alert(protocol.Alert{Raised: true, AlertInfo: protocol.AlertInfo{ID: "disk.low/root", Severity: "warning", Text: "full", SinceMS: 4}})
	synctest.Wait()
	first, second, third := s.waiting(1), s.waiting(2), s.waiting(3)
	ann := s.f.Trust.AddPerson("ann", "ann")
	both := []protocol.Target{{Host: first.Host, Action: first.ID}, {Host: second.Host, Action: second.ID}}
	forBoth := api.NewApproval{Approval: s.f.Approval(ann, first.Spec, time.Hour, nil, both...), Targets: []api.Target{
		{Host: string(first.Host), Action: first.ID.String()}, {Host: string(second.Host), Action: second.ID.String()},
	}}
	forOne := api.NewApproval{Approval: s.f.Approval(s.f.Trust.AddPerson("bob", "bob"), first.Spec, time.Hour, nil, both[0])}
	welcome, unwelcome := s.f.Join("edge-10"), s.f.Join("edge-11")
	text := strings.Repeat("what a command reads\n", 10_000) // more than other bodies may have
	var paid relay.Payload
	for _, role := range []core.TokenRole{operator, core.RoleApprover, core.RoleAdmin} { // tokens here are called as their roles
		if paid, err = s.f.Coordinator().Relay().Payloads.Put(s.t.Context(), core.Actor{Name: string(role), Role: role}, protocol.Digest{}, -1, 0, strings.NewReader("read me")); err != nil {
			s.t.Fatal(err)
		}
	}
	if _, err := s.f.Coordinator().Members().Auto().Set(s.t.Context(), s.f.Admin(), members.AutoRule{Name: "racks", Selector: "rack=7", Count: 1}, time.Hour, ""); err != nil {
		s.t.Fatal(err)
	}
	room := s.f.Coordinator().Fencing()
	if _, err := room.SetDevice(s.t.Context(), s.f.Admin(), fence.Device{Name: "pdu", Agent: "fence_blind", Targets: []fence.Target{{Host: "edge-08"}}}, ""); err != nil {
		s.t.Fatal(err)
	}
	fenced, err := room.Fence(s.t.Context(), s.f.Admin(), fencing.Request{Host: "edge-08", Action: fence.ActionOff})
	if err != nil {
		s.t.Fatal(err)
	}
	silence, _, err := room.Case("edge-12")
	if err != nil {
		s.t.Fatal(err)
	}
	word, err := protocol.NewFenced(s.f.ID, s.f.Trust.Ring(), "edge-12", silence, "unplugged it", time.Now())
	if err != nil {
		s.t.Fatal(err)
	}
	signed, err := word.Seal(ann)
	if err != nil {
		s.t.Fatal(err)
	}
	synctest.Wait()
	return []exercise{
		{"get-payload", operator, get, "/v1/payloads/" + paid.SHA256.String(), nil, 200},
		{"put-payload", operator, put, fmt.Sprintf("/v1/payloads/%s?bytes=%d", protocol.Sum([]byte(text)), len(text)), text, 200},
		{"create-payload", operator, post, "/v1/payloads", "read me too", 201},
		{"list-hosts", viewer, get, "/v1/hosts", nil, 200},
		{"get-host", viewer, get, "/v1/hosts/edge-07", nil, 200},
		{"revoke-host", admin, post, "/v1/hosts/edge-09/revoke", api.Reason{Reason: "stolen"}, 200},
		{"replace-host", admin, post, "/v1/hosts/edge-09/replace", api.Replace{TTL: "1h", Reason: "it burned"}, 200},
		{"readmit-host", admin, post, "/v1/hosts/edge-08/readmit", nil, 200},
		{"label-host", approver, post, "/v1/hosts/edge-07/label", api.Relabel{Set: []string{"site=lab"}}, 200},
		{"list-host-events", viewer, get, "/v1/hosts/edge-07/events?limit=10", nil, 200},
		{"get-labels", viewer, get, "/v1/hosts/edge-07/labels", nil, 200},
		{"set-labels", approver, put, "/v1/hosts/edge-07/labels", api.Labels{Labels: []string{"site=lab"}}, 200},
		{"list-alerts", viewer, get, "/v1/alerts?label=site=lab&state=warning", nil, 200},
		{"acknowledge-alert", operator, post, "/v1/hosts/edge-07/alerts/ack", api.NewAck{Alert: "disk.low", Note: "ordered"}, 200},
		{"create-mute", operator, post, "/v1/alert-mutes", api.NewMute{Host: "edge-07", For: "2h"}, 201},
		{"list-mutes", viewer, get, "/v1/alert-mutes", nil, 200},
		{"end-mute", operator, del, "/v1/alert-mutes/mute-1", nil, 204},
		{"set-alert-rule", operator, put, "/v1/alert-rules/memory", api.NewAlertRule{Selector: "site=lab", Rules: []string{"ram=80%/60s"}}, 200},
		{"get-alert-rule", viewer, get, "/v1/alert-rules/disks", nil, 200},
		{"list-alert-rules", viewer, get, "/v1/alert-rules", nil, 200},
		{"list-leases", viewer, get, "/v1/leases", nil, 200},
		{"list-fence-devices", viewer, get, "/v1/fence-devices", nil, 200},
		{"get-fence-device", viewer, get, "/v1/fence-devices/pdu", nil, 200},
		{"set-fence-device", admin, put, "/v1/fence-devices/bmc", api.NewFenceDevice{Agent: "fence_blind", Secrets: map[string]string{"password": "bmc"}, Delay: "5s", Hosts: []api.NewFenceTarget{{Host: "edge-07", Level: 2}}}, 200},
		{"test-fence-device", operator, post, "/v1/fence-devices/pdu/test", nil, 200},
		{"list-fences", viewer, get, "/v1/fences?state=done", nil, 200},
		{"get-fence", viewer, get, "/v1/fences/" + fenced.ID, nil, 200},
		{"get-fence-case", viewer, get, "/v1/hosts/edge-12/fence-case", nil, 200},
		{"confirm-fenced", approver, post, "/v1/hosts/edge-12/confirm-fenced", api.NewFenceConfirmation{Signed: signed}, 200},
		{"fence-host", admin, post, "/v1/hosts/edge-08/fence", api.NewFence{Action: "off", Reason: "it hangs"}, 202},
		{"unfence-host", admin, post, "/v1/hosts/edge-08/unfence", api.NewUnfence{Reason: "mended"}, 202},
		{"remove-fence-device", admin, del, "/v1/fence-devices/pdu", nil, 204},
		{"move-container", operator, post, "/v1/placement/db/move", api.AskMove{Host: "edge-06", Reason: "new disks"}, 202},
		{"set-availability", operator, post, "/v1/hosts/edge-07/availability", api.SetAvailability{State: "maintenance", Reason: "new disks", For: "2h"}, 200},
		{"plan-placement", viewer, post, "/v1/placement/plan", api.WhatIf{Lose: []string{"edge-07"}, Add: []api.HostPlan{{Name: "edge-99", Labels: []string{"site=lab"}, CPUs: 4, Memory: 1 << 33}}}, 200},
		{"set-placement", operator, put, "/v1/placement/db", api.Wishes{Selector: "site=lab,tier!=db", Prefer: []string{"disk=ssd:50"}, Apart: []string{"web"}, Discover: []string{"never:rack=7"}, Priority: 3}, 200},
		{"get-placement", viewer, get, "/v1/placement/db", nil, 200},
		{"remove-alert-rule", operator, del, "/v1/alert-rules/disks", nil, 204},
		{"list-host-containers", viewer, get, "/v1/hosts/edge-07/containers", nil, 200},
		{"offline-preview", viewer, get, "/v1/hosts/edge-07/offline-preview?for=2h&reboot=true", nil, 200},
		{"list-containers", viewer, get, "/v1/containers", nil, 200},
		{"get-capabilities", viewer, get, "/v1/capabilities", nil, 200},
		{"get-check", viewer, get, "/v1/check", nil, 200},
		{"get-document", none, get, "/v1/openapi.json", nil, 200},
		{"get-health", none, get, "/healthz", nil, 200},
		{"get-readiness", none, get, "/readyz", nil, 200},
		{"get-metrics", viewer, get, "/metrics", nil, 200},
		{"get-fleet-metrics", viewer, get, "/metrics/fleet?label=site=lab", nil, 200},
		{"list-kinds", viewer, get, "/v1/kinds", nil, 200},
		{"list-actions", viewer, get, "/v1/actions?host=edge-07&state=DONE,RUNNING&limit=5", nil, 200},
		{"get-action", viewer, get, "/v1/actions/" + done, nil, 200},
		{"create-action", operator, post, "/v1/actions", run("true"), 202},
		{"cancel-action", operator, post, "/v1/actions/" + a.ID.String() + "/cancel", nil, 202},
		{"reissue-action", operator, post, "/v1/actions/" + torn.ID.String() + "/reissue", api.Reissue{}, 202},
		{"create-batch", operator, post, "/v1/batches", api.NewBatch{Hosts: []string{"edge-07", "nobody"}, Spec: coordtest.RunSpec("true")}, 202},
		{"list-batches", viewer, get, "/v1/batches?limit=5", nil, 200},
		{"get-batch", viewer, get, "/v1/batches/" + whole.String(), nil, 200},
		{"follow-batch", viewer, get, "/v1/batches/" + whole.String() + "/events?output=true", nil, 200},
		{"cancel-batch", operator, post, "/v1/batches/" + open.String() + "/cancel", nil, 202},
		{"give-approval", approver, post, "/v1/approvals", forBoth, 200},
		{"approve-action", approver, post, "/v1/actions/" + first.ID.String() + "/approve", forOne, 200},
		{"deny-action", approver, post, "/v1/actions/" + third.ID.String() + "/deny", api.Reason{Reason: "not today"}, 200},
		{"nudge-action", operator, post, "/v1/actions/" + second.ID.String() + "/nudge", nil, 200},
		{"list-keys", viewer, get, "/v1/keys", nil, 200},
		{"get-action-output", viewer, get, "/v1/actions/" + done + "/output", nil, 200},
		{"attach-action", viewer, get, "/v1/actions/" + shell.ID.String() + "/attach?peer=0011223344556677&read_only=true", nil, 101},
		{"put-rings", admin, post, "/v1/rings", api.Rings{Rings: s.f.Trust.NextRing(true)}, 200},
		{"create-token", admin, post, "/v1/tokens", api.NewToken{Name: "eve", Role: "viewer", TTL: "7d"}, 201},
		{"list-tokens", admin, get, "/v1/tokens", nil, 200},
		{"revoke-token", admin, del, "/v1/tokens/" + token.ID, nil, 204},
		{"create-viewer", admin, post, "/v1/viewers", api.NewViewer{Name: "screen"}, 201},
		{"list-viewers", admin, get, "/v1/viewers", nil, 200},
		{"revoke-viewer", admin, del, "/v1/viewers/eyes", nil, 204},
		{"create-invite", approver, post, "/v1/invites", api.NewInvite{TTL: "1h", Labels: []string{"site=lab"}}, 201},
		{"list-invites", viewer, get, "/v1/invites", nil, 200},
		{"set-auto-approve-rule", admin, put, "/v1/auto-approve-rules/lab", api.NewAutoRule{Selector: "site=lab", Subnets: []string{"10.1.0.0/16"}, Count: 3, TTL: "1h"}, 200},
		{"list-auto-approve-rules", viewer, get, "/v1/auto-approve-rules", nil, 200},
		{"get-auto-approve-rule", viewer, get, "/v1/auto-approve-rules/racks", nil, 200},
		{"remove-auto-approve-rule", admin, del, "/v1/auto-approve-rules/lab", nil, 204},
		{"end-invite", approver, del, "/v1/invites/" + invite.ID, nil, 204},
		{"list-enrolments", viewer, get, "/v1/enrolments?state=pending", nil, 200},
		{"approve-enrolment", approver, post, "/v1/enrolments/edge-10/approve", api.Decision{Words: welcome.Words}, 200},
		{"deny-enrolment", approver, post, "/v1/enrolments/" + unwelcome.ID + "/deny", api.Decision{Reason: "not ours"}, 200},
		{"get-status", viewer, get, "/v1/status", nil, 200},
		{"list-audit", viewer, get, "/v1/audit?limit=5&since=2020-01-01T00:00:00Z&actor=token:admin", nil, 200},
		{"export-audit", viewer, get, "/v1/audit/export?since=2020-01-01T00:00:00Z", nil, 200},
		{"get-checkpoint", viewer, get, "/v1/audit/checkpoint", nil, 200},
		{"get-rings", none, get, "/v1/rings", nil, 200},
		{"get-roster", viewer, get, "/v1/roster", nil, 200},
		{"follow-events", viewer, get, "/v1/events?after=0", nil, 200},
	}
}

// waiting puts an action of host edge-12 there that waits for two approvals.
func (s *site) waiting(n byte) core.Action {
	s.t.Helper()
	if n == 1 {
		s.f.AddHost("edge-12")
	}
	spec := coordtest.RunSpec("reboot")
	a := core.Action{
		ID: protocol.NewActionID(time.Now().UnixMilli(), [10]byte{n}), Host: "edge-12", Kind: protocol.KindRun, Spec: spec, Digest: protocol.Sum(spec),
		State: protocol.StatePendingApprove, Requester: "operator", ExpiresMS: time.Now().Add(time.Hour).UnixMilli(),
		Needs: []core.Need{{Persons: 2, Why: "a test"}},
	}
	if err := s.f.Store().Update(s.t.Context(), func(tx core.Tx) error { return tx.Actions.Insert(a) }); err != nil {
		s.t.Fatal(err)
	}
	return a
}

// perform asks one exercise. Of a stream it reads what is there.
func (s *site) perform(role core.TokenRole, e exercise) reply {
	s.t.Helper()
	req := s.request(role, e.method, e.path, e.body)
	if e.method == http.MethodPut || e.method == http.MethodDelete {
		req.Header.Set("If-Match", "*")
	}
	if e.op == "attach-action" {
		upgrade(req)
		resp, err := s.client.Do(req)
		if err != nil {
			s.t.Fatal(err)
		}
		defer resp.Body.Close()
		var b []byte
		if resp.StatusCode != http.StatusSwitchingProtocols {
			b, err = io.ReadAll(resp.Body)
		}
		if err != nil {
			s.t.Fatal(err)
		}
		return reply{resp, b}
	}
	if e.op != "follow-events" {
		return s.do(req)
	}
	resp, err := s.client.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	b := make([]byte, 64<<10)
	n := 0
	for !strings.Contains(string(b[:n]), "data: ") && resp.StatusCode == http.StatusOK {
		m, err := resp.Body.Read(b[n:])
		if err != nil {
			s.t.Fatal(err)
		}
		n += m
	}
	if resp.StatusCode != http.StatusOK {
		n, _ = resp.Body.Read(b)
	}
	return reply{resp, b[:n]}
}

// upgrade makes a request one for a websocket.
func upgrade(req *http.Request) {
	for name, value := range map[string]string{
		"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
		"Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Protocol": attach.Protocol,
	} {
		req.Header.Set(name, value)
	}
}

// TestPagesOfOthers cannot type in anybody's session, nor can what is no websocket.
func TestPagesOfOthers(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		spec := coordtest.Spec(protocol.Spec{Kind: protocol.KindAttach, Args: &protocol.SessionArgs{TTY: &protocol.TTY{Rows: 24, Cols: 80}}})
		a, err := s.f.Coordinator().Actions().Propose(t.Context(), s.f.Admin(), actions.Request{Host: "edge-07", Spec: spec})
		if err != nil {
			t.Fatal(err)
		}
		path := "/v1/actions/" + a.ID.String() + "/attach"
		for query, want := range map[string]int{
			"?peer=0011223344556677": http.StatusForbidden, "?peer=00": http.StatusBadRequest, "": http.StatusBadRequest,
			"?peer=0011223344556677&offset=-9999999": http.StatusBadRequest, "?peer=0011223344556677&read_only=perhaps": http.StatusBadRequest,
		} {
			req := s.request(core.RoleAdmin, http.MethodGet, path+query, nil)
			upgrade(req)
			req.Header.Set("Origin", "https://elsewhere.example")
			if r := s.do(req); r.StatusCode != want {
				t.Errorf("%q from another page: status %d, want %d: %s", query, r.StatusCode, want, r.body)
			}
		}
		wantProblem(t, s.call(core.RoleAdmin, http.MethodGet, path+"?peer=0011223344556677", nil), api.CodeInvalid)
	})
}

func TestAnswersAreAsDocumented(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		var doc document
		if err := json.Unmarshal(s.call(core.RoleViewer, http.MethodGet, "/v1/openapi.json", nil).body, &doc); err != nil {
			t.Fatal(err)
		}
		if doc.OpenAPI != "3.1.0" {
			t.Errorf("the document is of OpenAPI %q, want 3.1.0", doc.OpenAPI)
		}
		ops := doc.operations()
		for _, e := range exercises(s) {
			op, ok := ops[e.op]
			delete(ops, e.op)
			if !ok || !strings.EqualFold(op.method, e.method) || !op.matches(e.path) {
				t.Errorf("%s: %s %s is not in the document", e.op, e.method, e.path)
				continue
			}
			if e.need != "" {
				doc.check(t, op, e.op+" without a token", s.call("", e.method, e.path, e.body))
			}
			r := s.perform(core.RoleAdmin, e)
			if r.StatusCode != e.status {
				t.Errorf("%s: status %d, want %d: %s", e.op, r.StatusCode, e.status, r.body)
			}
			doc.check(t, op, e.op, r)
		}
		for _, id := range slices.Sorted(maps.Keys(ops)) {
			t.Errorf("operation %s is documented and was not exercised", id)
		}
	})
}

func TestRoles(t *testing.T) {
	roles := []core.TokenRole{"", core.RoleViewer, core.RoleOperator, core.RoleApprover, core.RoleAdmin}
	for i, role := range roles {
		t.Run("role="+string(role), func(t *testing.T) {
			onSite(t, func(t *testing.T, s *site) {
				for _, e := range exercises(s) {
					r := s.perform(role, e)
					switch enough := slices.Index(roles, e.need) <= i; {
					case enough && r.StatusCode != e.status:
						t.Errorf("%s: status %d, want %d: %s", e.op, r.StatusCode, e.status, r.body)
					case !enough && role == "":
						wantProblem(t, r, api.CodeUnauthentic)
					case !enough:
						wantProblem(t, r, api.CodeRole)
					}
				}
			})
		})
	}
}

// document is an OpenAPI document as far as answers are concerned.
type document struct {
	OpenAPI string `json:"openapi"`
	Paths   map[string]map[string]struct {
		OperationID string `json:"operationId"`
		Responses   map[string]struct {
			Content map[string]struct {
				Schema schema `json:"schema"`
			} `json:"content"`
		} `json:"responses"`
	} `json:"paths"`
	Components struct {
		Schemas map[string]schema `json:"schemas"`
	} `json:"components"`
}

// schema is a JSON schema as far as the document uses it.
type schema map[string]any

type documented struct {
	method, path string
	responses    map[string]map[string]schema // by status, by media type
}

func (d *document) operations() map[string]documented {
	all := make(map[string]documented)
	for path, methods := range d.Paths {
		for method, op := range methods {
			o := documented{method, path, make(map[string]map[string]schema)}
			for status, r := range op.Responses {
				o.responses[status] = make(map[string]schema)
				for media, c := range r.Content {
					o.responses[status][media] = c.Schema
				}
			}
			all[op.OperationID] = o
		}
	}
	return all
}

func (o documented) matches(path string) bool {
	path, _, _ = strings.Cut(path, "?")
	want, got := strings.Split(o.path, "/"), strings.Split(path, "/")
	return slices.EqualFunc(want, got, func(w, g string) bool { return w == g || strings.HasPrefix(w, "{") })
}

// check holds an answer against what its operation promises.
func (d *document) check(t *testing.T, op documented, name string, r reply) {
	t.Helper()
	media, ok := op.responses[fmt.Sprint(r.StatusCode)]
	if !ok {
		media, ok = op.responses["default"]
	}
	if !ok {
		t.Errorf("%s: status %d is not documented", name, r.StatusCode)
		return
	}
	if len(media) == 0 {
		if len(r.body) > 0 {
			t.Errorf("%s: an answer without content holds %q", name, r.body)
		}
		return
	}
	sch, ok := media[r.Header.Get("Content-Type")]
	if !ok {
		t.Errorf("%s: content type %q is not documented for status %d", name, r.Header.Get("Content-Type"), r.StatusCode)
		return
	}
	var v any = string(r.body)
	if strings.HasSuffix(r.Header.Get("Content-Type"), "json") && !strings.HasSuffix(r.Header.Get("Content-Type"), "ndjson") {
		if err := json.Unmarshal(r.body, &v); err != nil {
			t.Errorf("%s: %v in %s", name, err, r.body)
			return
		}
	}
	for _, wrong := range d.validate(sch, v, "body") {
		t.Errorf("%s: %s", name, wrong)
	}
}

// validate returns what is wrong with a value.
func (d *document) validate(s schema, v any, at string) (wrong []string) {
	if ref, ok := s["$ref"].(string); ok {
		target, ok := d.Components.Schemas[strings.TrimPrefix(ref, "#/components/schemas/")]
		if !ok {
			return []string{at + ": " + ref + " does not exist"}
		}
		return d.validate(target, v, at)
	}
	if len(s) == 0 {
		return nil // it takes anything
	}
	if !hasType(s, v) {
		return []string{fmt.Sprintf("%s: %v is not of type %v", at, v, s["type"])}
	}
	switch v := v.(type) {
	case map[string]any:
		return d.validateObject(s, v, at)
	case []any:
		items, _ := s["items"].(map[string]any)
		for i, e := range v {
			wrong = append(wrong, d.validate(items, e, fmt.Sprintf("%s[%d]", at, i))...)
		}
	case string:
		if s["format"] == "date-time" {
			if at2, err := time.Parse(time.RFC3339, v); err != nil || at2.Location() != time.UTC {
				wrong = append(wrong, fmt.Sprintf("%s: %q is no time in UTC", at, v))
			}
		}
	}
	return wrong
}

func (d *document) validateObject(s schema, v map[string]any, at string) (wrong []string) {
	properties, _ := s["properties"].(map[string]any)
	if required, ok := s["required"].([]any); ok {
		for _, name := range required {
			if _, ok := v[name.(string)]; !ok {
				wrong = append(wrong, fmt.Sprintf("%s: %v is missing", at, name))
			}
		}
	}
	for name, e := range v {
		p, ok := properties[name].(map[string]any)
		more, free := s["additionalProperties"].(map[string]any)
		switch {
		case ok:
			wrong = append(wrong, d.validate(p, e, at+"."+name)...)
		case free:
			wrong = append(wrong, d.validate(more, e, at+"."+name)...)
		default:
			wrong = append(wrong, fmt.Sprintf("%s: %s is not documented", at, name))
		}
	}
	return wrong
}

// hasType reports whether a value has the type of a schema, or one of them.
func hasType(s schema, v any) bool {
	var types []any
	switch t := s["type"].(type) {
	case nil:
		return true
	case []any:
		types = t
	default:
		types = []any{t}
	}
	return slices.ContainsFunc(types, func(t any) bool {
		switch v := v.(type) {
		case nil:
			return t == "null"
		case bool:
			return t == "boolean"
		case float64:
			return t == "number" || t == "integer" && v == float64(int64(v))
		case string:
			return t == "string"
		case []any:
			return t == "array"
		}
		return t == "object"
	})
}

// TestWordsAreExplained holds the document to the tables: each member is described,
// and each word that has a meaning says it.
func TestWordsAreExplained(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		var doc struct {
			Components struct {
				Schemas map[string]struct {
					Properties map[string]struct {
						Enum        []string
						Description string
						Ref         string `json:"$ref"`
					}
				}
			}
		}
		if err := json.Unmarshal(s.call("", http.MethodGet, "/v1/openapi.json", nil).body, &doc); err != nil {
			t.Fatal(err)
		}
		for name, schema := range doc.Components.Schemas {
			for member, p := range schema.Properties {
				if p.Description == "" && p.Ref == "" {
					t.Errorf("%s.%s is not described", name, member)
				}
			}
		}
		holds := func(schema, member, word, meaning string) {
			p := doc.Components.Schemas[schema].Properties[member]
			if !slices.Contains(p.Enum, word) || !strings.Contains(p.Description, "`"+word+"`") || !strings.Contains(p.Description, meaning) {
				t.Errorf("%s.%s does not explain %s: %q, %s", schema, member, word, p.Enum, p.Description)
			}
		}
		for _, c := range api.Codes() {
			holds("Problem", "code", c.Name, c.Meaning)
		}
		for _, state := range protocol.States() {
			holds("Action", "state", string(state), state.Meaning())
		}
		for reason, meaning := range protocol.Reasons() {
			holds("Action", "reason", string(reason), meaning)
		}
		for _, k := range protocol.Kinds() {
			i, _ := protocol.KindOf(k)
			holds("NewAction", "kind", string(k), i.Doc)
		}
	})
}
