package hosts

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/hostler-io/hostler/client"
	"github.com/hostler-io/hostler/internal/cli/conn"
	"github.com/hostler-io/hostler/internal/cli/term"
)

// TestStatusCountsAlerts: the one screen says how many alerts there are, how grave, and which
// command lists them.
func TestStatusCountsAlerts(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/status", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"fleet":"lab","pending":1}`) })
	mux.HandleFunc("GET /v1/alerts", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `[{"severity":"warning"},{"severity":"critical"},{"severity":"warning"}]`)
	})
	server := httptest.NewTLSServer(mux)
	defer server.Close()
	c, err := client.New(client.Config{Address: server.URL, CA: server.Certificate().Raw})
	if err != nil {
		t.Fatal(err)
	}
	s, err := readStatus(t.Context(), &conn.Remote{Client: c})
	if err != nil || s.Fleet != "lab" || counts(s.Alerts) != "3 (1 critical, 2 warning)" {
		t.Errorf("%+v, %v", s, err)
	}
	var said bytes.Buffer
	a := &commands{&conn.Env{UI: &term.UI{Err: &said}}}
	a.sayNeeds(s)
	if want := "1 host(s) wait for approval: hostler host pending\n3 alert(s) are raised: hostler alert ls\n"; said.String() != want {
		t.Errorf("said %q, want %q", said.String(), want)
	}
}
