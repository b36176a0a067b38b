package upgrade

import (
	"fmt"
	"testing"

	"github.com/hostler-io/hostler/api"
)

func TestPlanWaves(t *testing.T) {
	host := func(id, version, connectivity string) api.Host {
		return api.Host{ID: id, Version: version, Connectivity: connectivity}
	}
	var hosts []api.Host
	for i := range 10 {
		hosts = append(hosts, host(fmt.Sprintf("h%d", i), "0.1.0", "online"))
	}
	hosts[3].Version, hosts[4].Version = "0.2.0", "0.3.0"
	hosts[5].Connectivity, hosts[6].Version = "offline", ""
	for _, c := range []struct {
		batch    string
		canaries []string
		want     string
	}{
		{"100%", nil, "[h0 h1 h2 h6 h7 h8 h9] | [h5] | [h3 h4]"},
		{"50%", nil, "[h0 h1 h2] [h6 h7 h8] [h9] | [h5] | [h3 h4]"},
		{"1%", []string{"h7", "h0"}, "[h0 h7] [h1] [h2] [h6] [h8] [h9] | [h5] | [h3 h4]"},
		{"4", []string{"h9"}, "[h9] [h0 h1 h2 h6] [h7 h8] | [h5] | [h3 h4]"},
		{"4", []string{"h5"}, "[h0 h1 h2 h6] [h7 h8 h9] | [h5] | [h3 h4]"},
	} {
		s, err := parseSize(c.batch)
		if err != nil {
			t.Fatal(err)
		}
		p := planWaves(hosts, "0.2.0", c.canaries, s)
		got := ""
		ids := func(all []api.Host) string {
			var ids []string
			for _, h := range all {
				ids = append(ids, h.ID)
			}
			return fmt.Sprint(ids)
		}
		for _, w := range p.waves {
			got += ids(w) + " "
		}
		if got += "| " + ids(p.away) + " | " + ids(p.have); got != c.want {
			t.Errorf("%s, %v: %s, want %s", c.batch, c.canaries, got, c.want)
		}
	}
	if p := planWaves(hosts[3:6], "0.2.0", nil, size{n: 1}); len(p.waves) != 0 || len(p.away) != 1 || p.together != 1 {
		t.Errorf("no host is here to be upgraded, and there are waves %v, and %d at a time of %d", p.waves, p.together, len(p.away))
	}
	for i := range hosts {
		hosts[i].Version, hosts[i].Connectivity = "0.1.0", "offline"
	}
	if p := planWaves(hosts, "0.2.0", nil, size{n: 30, percent: true}); p.together != 3 {
		t.Errorf("30%% of 10 hosts that are away are %d at a time", p.together)
	}
	for _, bad := range []string{"", "0", "0%", "101%", "-1", "ten", "1.5", "5 %"} {
		if s, err := parseSize(bad); err == nil {
			t.Errorf("%q is %v", bad, s)
		}
	}
}
