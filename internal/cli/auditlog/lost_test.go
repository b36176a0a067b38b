package auditlog

import (
	"strings"
	"testing"

	"github.com/hostler-io/hostler/api"
)

// TestLostByRecovery: who never verified a log before its coordinator was recovered is
// told what was lost, once, and what nobody can know.
func TestLostByRecovery(t *testing.T) {
	lost := func(from, to uint64) auditFault { return auditFault{Kind: "lost", From: from, To: to} }
	for _, c := range []struct {
		name   string
		faults []auditFault
		r      *api.Recovered
		want   []auditFault
		note   string
	}{
		{"no recovery", nil, nil, nil, ""},
		{"hosts have seen more", nil, &api.Recovered{Hosts: 2, Answered: 1, LostFrom: 5, LostTo: 9}, []auditFault{lost(5, 9)}, ""},
		{"they are not asked yet", nil, &api.Recovered{Hosts: 2, Answered: 1}, nil, "1 of its 2 hosts have not told yet"},
		{"they have seen nothing more", nil, &api.Recovered{Hosts: 2, Answered: 2}, nil, "No host has seen"},
		{"this machine knows it", []auditFault{lost(5, 9)}, &api.Recovered{LostFrom: 5, LostTo: 9}, []auditFault{lost(5, 9)}, ""},
		{"this machine knows more", []auditFault{lost(5, 12)}, &api.Recovered{LostFrom: 5, LostTo: 9}, []auditFault{lost(5, 12)}, ""},
		{"hosts know more", []auditFault{{Kind: "changed"}, lost(5, 7)}, &api.Recovered{LostFrom: 5, LostTo: 9}, []auditFault{{Kind: "changed"}, lost(5, 9)}, ""},
		{"of before what is kept", nil, &api.Recovered{LostFrom: 1, LostTo: 2}, nil, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := auditVerdict{OK: len(c.faults) == 0, From: 3, To: 20, Faults: c.faults}
			note := v.lostByRecovery(c.r)
			if !strings.Contains(note, c.note) || (note == "") != (c.note == "") {
				t.Errorf("it says %q, want %q", note, c.note)
			}
			if v.OK != (len(c.want) == 0) || len(v.Faults) != len(c.want) {
				t.Fatalf("whole: %v, faults %+v, want %+v", v.OK, v.Faults, c.want)
			}
			for i, f := range v.Faults {
				if f.Kind != c.want[i].Kind || f.From != c.want[i].From || f.To != c.want[i].To {
					t.Errorf("fault %+v, want %+v", f, c.want[i])
				}
			}
		})
	}
}
