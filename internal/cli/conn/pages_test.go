package conn

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/client"
)

// TestPages: lists by host are read to their end, whatever the server says about
// how many there are at a time.
func TestPages(t *testing.T) {
	const all, limit = 2003, 1000
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var page []map[string]string
		for i := range all {
			id := fmt.Sprintf("edge-%05d", i)
			if id > r.URL.Query().Get("cursor") && len(page) < limit {
				w.Header().Set(api.NextCursor, id)
				page = append(page, map[string]string{"id": id, "host": id})
			}
		}
		if len(page) < limit {
			w.Header().Del(api.NextCursor)
		}
		if err := json.NewEncoder(w).Encode(page); err != nil {
			t.Error(err)
		}
	}))
	defer server.Close()
	c, err := client.New(client.Config{Address: server.URL, CA: server.Certificate().Raw})
	if err != nil {
		t.Fatal(err)
	}
	r := &Remote{Client: c}
	hosts, err := r.Hosts(t.Context())
	if err != nil || len(hosts) != all || hosts[all-1].ID != fmt.Sprintf("edge-%05d", all-1) {
		t.Errorf("%d hosts, want %d: %v", len(hosts), all, err)
	}
	var containers []api.Container
	if containers, err = r.Containers(t.Context(), ""); err != nil || len(containers) != all {
		t.Errorf("%d containers, want %d: %v", len(containers), all, err)
	}
}
