package actions

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/client"
	"github.com/hostler-io/hostler/coordinator/coordtest"
	"github.com/hostler-io/hostler/internal/cli/conn"
	"github.com/hostler-io/hostler/internal/cli/dispatch"
	"github.com/hostler-io/hostler/internal/cli/term"
	"github.com/hostler-io/hostler/protocol"
)

// shownOf is what an approver is shown of a spec.
func shownOf(t *testing.T, spec protocol.Spec, hosts ...string) string {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/hosts/edge-01/containers", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `[{"host":"edge-01","name":"web","ctid":%q}]`, protocol.NewCTID(1, [10]byte{1}))
	})
	mux.HandleFunc("GET /v1/hosts/edge-02/containers", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "[]") })
	server := httptest.NewTLSServer(mux)
	defer server.Close()
	c, err := client.New(client.Config{Address: server.URL, CA: server.Certificate().Raw})
	if err != nil {
		t.Fatal(err)
	}
	var shown bytes.Buffer
	ui := &term.UI{Out: &shown, Err: &shown, Getenv: func(string) string { return "" }, Now: time.Now}
	a := &commands{Dispatcher: dispatch.New(&conn.Env{UI: ui})}
	b := bundle{spec: coordtest.Spec(spec), decoded: spec}
	for _, h := range hosts {
		b.actions = append(b.actions, api.Action{Host: h, ID: protocol.ActionID{1}.String(), Requester: "ann"})
	}
	r := &conn.Remote{Client: c}
	bundles := []bundle{b}
	if err := callContainers(t.Context(), r, bundles); err != nil {
		t.Fatal(err)
	}
	a.showBundle(bundles[0])
	return shown.String()
}

// TestApproverSeesWhichContainer: by the name that its host gives it. The name in the
// request, which whoever asks has chosen, is never shown as if it were that.
func TestApproverSeesWhichContainer(t *testing.T) {
	web := protocol.NewCTID(1, [10]byte{1}) // as edge-01 calls it
	for _, x := range []struct {
		host string
		spec protocol.Spec
		want string
	}{
		{"edge-01", protocol.Spec{Kind: protocol.KindDestroy, Target: web, Name: "web"}, "container: web " + web.String() + "\n"},
		{"edge-01", protocol.Spec{Kind: protocol.KindDestroy, Target: web}, "container: web " + web.String() + "\n"},
		{"edge-01", protocol.Spec{Kind: protocol.KindDestroy, Target: web, Name: "scratch"}, "container: web " + web.String() + ` on host edge-01; NOT "scratch", as the requester calls it`},
		{"edge-02", protocol.Spec{Kind: protocol.KindDestroy, Target: web, Name: "scratch"}, "container: " + web.String() + `, which host edge-02 has not reported; the requester calls it "scratch", which is not verified`},
		{"edge-02", protocol.Spec{Kind: protocol.KindCreate, Target: web, Name: "scratch", Args: &protocol.CreateArgs{Template: "busybox"}}, "container: a new one, scratch " + web.String() + "\n"},
		{"edge-02", protocol.Spec{Kind: protocol.KindCreate, Target: web, Name: "scratch", Args: &protocol.CreateArgs{Template: "busybox", Privileged: true}}, "container: a new privileged one (root in it is root of the host), scratch " + web.String() + "\n"},
	} {
		if got := shownOf(t, x.spec, x.host); !strings.Contains(got, x.want) {
			t.Errorf("%s of %q on %s is shown as\n%s\nwant %q", x.spec.Kind, x.spec.Name, x.host, got, x.want)
		}
	}
}

// TestApproverSeesWhatMakesTheCommand: the same command is another one with other
// variables, so who signs sees their values, or that nobody can.
func TestApproverSeesWhatMakesTheCommand(t *testing.T) {
	sealed := func(names ...string) protocol.Spec {
		return protocol.Spec{Kind: protocol.KindRun, Args: &protocol.CommandArgs{
			Process: protocol.Process{Argv: []string{"sh", "-c", "true\nrm /x"}, Env: []string{"A=b", "BASH_ENV=/tmp/it is", "C=\u202ed"}},
			Input:   protocol.Input{StdinBytes: 12, StdinSHA256: protocol.Digest{0xab}},
			Secrets: protocol.Secrets{SecretEnv: &protocol.Sealed{Sealed: []byte("x"), Names: names}},
		}}
	}
	session := protocol.Spec{Kind: protocol.KindAttach, Args: &protocol.SessionArgs{Process: protocol.Process{User: "1000:1000", Env: []string{"ENV=/tmp/x"}}, TTY: &protocol.TTY{Rows: 24, Cols: 80}}}
	for _, x := range []struct {
		spec protocol.Spec
		want []string
	}{
		{sealed("LD_PRELOAD", "TOKEN"), []string{
			`command:   sh -c "true\nrm /x"`, `variables: A=b 'BASH_ENV=/tmp/it is' "C=\u202ed"`,
			"secret:    LD_PRELOAD TOKEN, whose values only the host can read", "stdin:     12 bytes, SHA-256 ab00", ", which cannot be shown here",
		}},
		{sealed(), []string{"secret:    variables that only the host can read"}},
		{session, []string{"user:      1000:1000", "variables: ENV=/tmp/x"}},
	} {
		got := shownOf(t, x.spec, "edge-01")
		for _, want := range x.want {
			if !strings.Contains(got, want) {
				t.Errorf("%q is not in\n%s", want, got)
			}
		}
	}
}
