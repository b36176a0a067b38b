// Package wishes reads and writes on which hosts a container may be, as the API has it.
package wishes

import (
	"fmt"
	"strings"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/placement"
)

// Read reads on which hosts a container may be.
func Read(p *api.Wishes) (w placement.Wants, err error) {
	var terms api.Selector
	if p.Selector != "" {
		if err := terms.Set(p.Selector); err != nil {
			return w, fmt.Errorf("place.selector: %w", err)
		}
	}
	for _, t := range terms.Terms {
		r := placement.Term(t.Key, t.Value, 0)
		if r.Must = !t.Not; t.Not {
			r.Score = -placement.Infinity
		}
		w.Rules = append(w.Rules, r)
	}
	for _, part := range []struct {
		name string
		all  []string
		sign int
	}{{"prefer", p.Prefer, 1}, {"avoid", p.Avoid, -1}} {
		for _, text := range part.all {
			r, err := placement.ParseRule(text)
			if err != nil {
				return w, fmt.Errorf("place.%s: %w", part.name, err)
			}
			r.Score *= part.sign
			w.Rules = append(w.Rules, r)
		}
	}
	for _, part := range []struct {
		name string
		all  []string
		sign int
	}{{"near", p.Near, 1}, {"apart", p.Apart, -1}} {
		for _, text := range part.all {
			n, err := placement.ParseNear(text)
			if err != nil {
				return w, fmt.Errorf("place.%s: %w", part.name, err)
			}
			n.Score *= part.sign
			w.Near = append(w.Near, n)
		}
	}
	for _, text := range p.Discover {
		d, err := placement.ParseDiscovery(text)
		if err != nil {
			return w, fmt.Errorf("place.discover: %w", err)
		}
		w.Discovery = append(w.Discovery, d)
	}
	w.Priority, w.After = p.Priority, p.After
	if err := w.Check(); err != nil {
		return w, fmt.Errorf("place: %w", err)
	}
	return w, nil
}

// Text writes wishes as they can be read again.
func Text(w placement.Wants) (p api.Wishes) {
	var terms []string
	for _, r := range w.Rules {
		text := "host=" + r.Host
		for k, v := range r.Labels {
			text = k + "=" + v
		}
		switch {
		case r.Must:
			terms = append(terms, text)
		case r.Score <= -placement.Infinity:
			terms = append(terms, strings.Replace(text, "=", "!=", 1))
		case r.Score < 0:
			p.Avoid = append(p.Avoid, fmt.Sprintf("%s:%d", text, -r.Score))
		default:
			p.Prefer = append(p.Prefer, fmt.Sprintf("%s:%d", text, r.Score))
		}
	}
	for _, n := range w.Near {
		text, to := n.Workload, &p.Near
		if n.Score < 0 {
			to = &p.Apart
		}
		if score := max(n.Score, -n.Score); score < placement.Infinity {
			text = fmt.Sprintf("%s:%d", text, score)
		}
		*to = append(*to, text)
	}
	for _, d := range w.Discovery {
		p.Discover = append(p.Discover, d.String())
	}
	p.Selector, p.Priority, p.After = strings.Join(terms, ","), w.Priority, w.After
	return p
}
