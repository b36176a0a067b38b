package batch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/internal/cli/dispatch"
	"github.com/hostler-io/hostler/internal/cli/show"
	"github.com/hostler-io/hostler/internal/cli/term"
	"github.com/hostler-io/hostler/protocol"
)

// status is what is going on, in a few lines.
func (b *batchRun) status() []string {
	counts := b.counts()
	rows := []string{fmt.Sprintf("%d of %d done: %s", b.ended(), len(b.outcomes), countsText(counts))}
	for _, p := range b.outcomes {
		if p.final || p.refused != nil || !p.asked {
			continue
		}
		if len(rows) > 10 {
			rows = append(rows, "…")
			break
		}
		row := p.Label + "  " + p.shown()
		if p.isAway() {
			row = p.Label + "  " + p.act.Waits.Text
		}
		rows = append(rows, term.Printable(row))
	}
	return rows
}

func (b *batchRun) ended() (n int) {
	for _, p := range b.outcomes {
		if p.final || p.refused != nil {
			n++
		}
	}
	return n
}

// counts says how many parts stand where, by a word.
func (b *batchRun) counts() map[string]int {
	counts := make(map[string]int)
	for _, p := range b.outcomes {
		counts[p.word()]++
	}
	return counts
}

// word is where a part stands.
func (p *outcome) word() string {
	switch {
	case p.refused != nil:
		return "refused"
	case !p.asked:
		return "not begun"
	case p.unkept != nil:
		return "not kept"
	case p.final && p.act.State == string(protocol.StateDone):
		return "done"
	case p.final && p.act.Exit != nil && p.act.Exit.Code != 0:
		return fmt.Sprintf("failed with exit code %d", p.act.Exit.Code)
	case p.final:
		return strings.TrimSpace(strings.ToLower(p.act.State) + " " + p.act.Reason)
	case p.isAway():
		return "waiting for their hosts"
	case p.act.Waits != nil && p.act.Waits.For == "approval":
		return "waiting for approval"
	case p.named && p.isSilent():
		return "not acknowledged"
	}
	return p.shown()
}

// shown is the state of a part that has not ended; nobody has told of it yet when
// it was just asked for.
func (p *outcome) shown() string { return cmp.Or(p.act.Shown, p.act.State, "asked") }

func countsText(counts map[string]int) string {
	var all []string
	for _, word := range slices.Sorted(maps.Keys(counts)) {
		all = append(all, fmt.Sprintf("%d %s", counts[word], word))
	}
	return strings.Join(all, ", ")
}

func (b *batchRun) sayRefused() {
	for _, p := range b.outcomes {
		if p.refused != nil {
			b.Batcher.Say("hostler: %s: cannot %s: %s", p.Label, b.m.Verb, term.Printable(p.refused.Detail))
		}
	}
}

// summary tells what became of everything, and turns it into the exit code.
func (b *batchRun) summary(ctx context.Context, err error) error {
	known := []error{errWaited, errLeftAway, errNoOutput, nil}
	interrupted := ctx.Err() != nil
	if !interrupted && !slices.ContainsFunc(known, func(k error) bool { return errors.Is(err, k) }) {
		b.sayLeft()
		return err
	}
	if b.m.View.Format.Word != "table" {
		if err := b.print(); err != nil {
			return err
		}
	}
	b.sayRefused()
	named := 0
	for _, p := range b.outcomes {
		if named == namedFailures {
			b.Batcher.Say("hostler: … and others: hostler action ls --batch %s", b.id)
			break
		}
		switch e := p.act.Exit; {
		case !p.final || p.act.State == string(protocol.StateDone):
			continue
		case b.m.Own && e != nil && e.Code != 0:
			b.Batcher.SayExit(e) // its code is ours
		case e != nil && e.Code != 0:
			b.Batcher.Say("hostler: %s: exit code %d", p.Label, e.Code)
		default:
			b.Batcher.Say("hostler: %s: %s: %s", p.Label, strings.ToLower(p.act.State), term.Printable(cmp.Or(p.act.Detail, p.act.Reason)))
		}
		named++
	}
	for _, p := range b.outcomes {
		if p.stdout.missing+p.stderr.missing > 0 {
			b.Batcher.Say("hostler: %s: %d bytes of its output were left out", p.Label, p.stdout.missing+p.stderr.missing)
		}
	}
	if errors.Is(err, errNoOutput) {
		b.Batcher.Say("hostler: no more output has arrived for %v; later: hostler action logs ID --follow", b.Batcher.Tail)
	}
	if len(b.outcomes) > 1 || !b.allFinal() || !b.m.Output {
		places := "places"
		if len(b.outcomes) == 1 {
			places = "place"
		}
		b.Batcher.Say("hostler: %d %s: %s", len(b.outcomes), places, countsText(b.counts()))
	}
	if !b.allFinal() {
		b.sayLeft()
	}
	if interrupted {
		return term.ErrInterrupted
	}
	return b.code(err)
}

// sayLeft tells how to go on with what has not ended.
func (b *batchRun) sayLeft() {
	if !slices.ContainsFunc(b.outcomes, func(p *outcome) bool { return p.asked && p.refused == nil && !p.final }) {
		return
	}
	for _, p := range b.outcomes {
		if p.named && p.isSilent() {
			b.Batcher.Say("hostler: %s: has not acknowledged its order; it runs there when the host is back", term.Printable(p.Label))
		}
		if p.isAway() && !p.final {
			b.Batcher.Say("hostler: %s: %s; it runs there when the host is back", p.Label, term.Printable(p.act.Waits.Text))
		}
	}
	b.Batcher.Say("The batch continues. To follow it: hostler batch follow %s\nTo cancel it: hostler batch cancel %s", b.id, b.id)
}

// code is 0 if all went well, 1 if anything failed, 5 if the time to wait was over
// before, and 6 if hosts that are away were left.
func (b *batchRun) code(err error) error {
	failed := slices.ContainsFunc(b.outcomes, func(p *outcome) bool {
		return p.refused != nil || p.final && p.act.State != string(protocol.StateDone)
	})
	switch {
	case failed && b.m.Own && b.m.Output:
		if e := b.outcomes[0].act.Exit; e != nil && e.Code != 0 {
			return term.Exit(e.Code)
		}
		return term.Exit(term.ExitHostler)
	case failed:
		return term.Exit(term.ExitFailed)
	case errors.Is(err, errWaited):
		return term.Exit(term.ExitTimeout)
	case errors.Is(err, errLeftAway), errors.Is(err, errNoOutput) && !b.allFinal():
		return term.Exit(term.ExitUnreachable)
	}
	return nil
}

// result is what -o json and the like print of a part.
type result struct {
	Target  string     `json:"target"`
	Host    string     `json:"host"`
	Action  string     `json:"action,omitempty"`
	Batch   string     `json:"batch"`
	State   string     `json:"state"` // as of the action, or refused, not_begun, not_kept
	Reason  string     `json:"reason,omitempty"`
	Detail  string     `json:"detail,omitempty"`
	Exit    *api.Exit  `json:"exit,omitempty"`
	Bytes   *int64     `json:"bytes,omitempty"` // that were copied
	Waits   *api.Waits `json:"waits,omitempty"`
	Stdout  string     `json:"stdout,omitempty"` // its first 64 KiB
	Stderr  string     `json:"stderr,omitempty"`
	Missing int64      `json:"missing,omitempty"` // bytes of output that are not here
}

func resultNoun() show.Noun[result] {
	return show.NounOf("action", "target state reason exit bytes action detail~", show.Cells[result]{
		"state": func(r result) any {
			return show.Words{Machine: r.State, People: strings.ReplaceAll(strings.ToLower(r.State), "_", " ")}
		},
		"exit":  func(r result) any { return dispatch.ExitWord(r.Exit) },
		"bytes": func(r result) any { return bytesWord(r.Bytes) },
	})
}

func bytesWord(n *int64) string {
	if n == nil {
		return ""
	}
	return strconv.FormatInt(*n, 10)
}

func (b *batchRun) print() error {
	results := make([]result, 0, len(b.outcomes))
	for _, p := range b.outcomes {
		r := result{Target: p.Label, Host: string(p.Host), Batch: b.id.String()}
		switch {
		case p.refused != nil:
			r.State, r.Reason, r.Detail = "refused", p.refused.Code, p.refused.Detail
		case !p.asked:
			r.State = "not_begun"
		default:
			r.Action, r.State, r.Reason, r.Detail, r.Exit, r.Waits = p.action, p.act.State, p.act.Reason, p.act.Detail, p.act.Exit, p.act.Waits
			r.Bytes = p.bytes
			if p.unkept != nil {
				r.State, r.Detail = "not_kept", p.unkept.Error()
			}
		}
		r.Stdout, r.Stderr = strings.ToValidUTF8(string(p.stdout.kept), "\uFFFD"), strings.ToValidUTF8(string(p.stderr.kept), "\uFFFD")
		r.Missing = p.stdout.missing + p.stderr.missing
		results = append(results, r)
	}
	v := *b.m.View
	v.One = false
	return show.Print(b.Batcher.UI, &v, resultNoun(), results)
}
