package main

import (
	"strings"
	"testing"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/coordinator/coordtest"
	"github.com/hostler-io/hostler/protocol"
)

// shownOf is what an approver is shown of a spec.
func shownOf(t *testing.T, s *site, spec protocol.Spec, hosts ...string) string {
	t.Helper()
	c := newTerminal(t, s, false, "")
	c.app.caFile = c.ca
	b := bundle{spec: coordtest.Spec(spec), decoded: spec}
	for _, h := range hosts {
		b.actions = append(b.actions, api.Action{Host: h, ID: protocol.ActionID{1}.String(), Requester: "ann"})
	}
	r := must[*remote](t)(c.app.coordinator())
	bundles := []bundle{b}
	if err := r.callContainers(t.Context(), bundles); err != nil {
		t.Fatal(err)
	}
	c.app.showBundle(bundles[0])
	return c.shown()
}

// TestApproverSeesWhichContainer: by the name that its host gives it. The name in the
// request, which whoever asks has chosen, is never shown as if it were that.
func TestApproverSeesWhichContainer(t *testing.T) {
	s := newSite(t)
	web := protocol.NewCTID(1, [10]byte{1}) // as edge-01 calls it
	for _, x := range []struct {
		host string
		spec protocol.Spec
		want string
	}{
		{"edge-01", protocol.Spec{Kind: protocol.KindDestroy, Target: web, Name: "web"}, "container: web " + web.String() + "\n"},
		{"edge-01", protocol.Spec{Kind: protocol.KindDestroy, Target: web}, "container: web " + web.String() + "\n"},
		{"edge-01", protocol.Spec{Kind: protocol.KindDestroy, Target: web, Name: "scratch"}, "container: web " + web.String() + ` on host edge-01; NOT "scratch", as who asks calls it`},
		{"edge-02", protocol.Spec{Kind: protocol.KindDestroy, Target: web, Name: "scratch"}, "container: " + web.String() + `, of which host edge-02 has told nothing; who asks calls it "scratch", which nobody has verified`},
		{"edge-02", protocol.Spec{Kind: protocol.KindCreate, Target: web, Name: "scratch", Template: "busybox"}, "container: a new one, scratch " + web.String() + "\n"},
	} {
		if got := shownOf(t, s, x.spec, x.host); !strings.Contains(got, x.want) {
			t.Errorf("%s of %q on %s is shown as\n%s\nwant %q", x.spec.Kind, x.spec.Name, x.host, got, x.want)
		}
	}
}
