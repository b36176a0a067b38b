package policy

import "github.com/hostler-io/hostler/protocol"

// GivesRoot reports whether a kind is in the table of powers.
func GivesRoot(k protocol.Kind) bool { return narrows[k] != 0 }

// Requests are the kinds that not everybody may request.
func (p *Policy) Requests() (all []string) {
	for _, q := range p.file.Requests {
		all = append(all, q.Kinds...)
	}
	return all
}

// Covers tells of two needs.
func (n Need) Covers(m Need) bool { return n.covers(m) }
