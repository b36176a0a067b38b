package auditlog

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/certs"
	"github.com/hostler-io/hostler/internal/cli/conn"
	"github.com/hostler-io/hostler/internal/cli/show"
	"github.com/hostler-io/hostler/internal/cli/term"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/audit"
)

// auditVerdict is what was found out about an audit log.
type auditVerdict struct {
	OK          bool         `json:"ok"`
	Log         string       `json:"log,omitempty"`
	From        uint64       `json:"from,omitempty"` // number of the first record that was verified
	To          uint64       `json:"to,omitempty"`
	Records     int          `json:"records"`
	Checkpoints int          `json:"checkpoints"`
	SealedAt    *time.Time   `json:"sealed_at,omitempty"`
	Key         string       `json:"key,omitempty"` // that signed the newest checkpoint
	Ring        uint64       `json:"ring,omitempty"`
	Term        string       `json:"term,omitempty"`
	Known       int          `json:"known"` // checkpoints from elsewhere that it leads to
	RecoveredAt *time.Time   `json:"recovered_at,omitempty"`
	Faults      []auditFault `json:"faults"`

	note string // what is to be said besides
}

// auditFault is one thing that is wrong with it.
type auditFault struct {
	Kind   string `json:"kind"`
	From   uint64 `json:"from,omitempty"`
	To     uint64 `json:"to,omitempty"`
	Line   int    `json:"line,omitempty"`
	Detail string `json:"detail"`
}

func auditVerdictNoun() show.Noun[auditVerdict] {
	return show.NounOf("log", "log whole from to records checkpoints known sealed_at key ring term recovered_at faults", show.Cells[auditVerdict]{
		"whole": func(v auditVerdict) any {
			if v.OK {
				return "yes"
			}
			return "NO"
		},
		"ring": func(v auditVerdict) any { return blank(v.Ring) },
		"faults": func(v auditVerdict) any {
			var all show.Sentences
			for _, f := range v.Faults {
				all = append(all, f.Detail)
			}
			return all
		},
	})
}

func verdictOf(r audit.Result) auditVerdict {
	v := auditVerdict{
		OK: len(r.Faults) == 0, Log: string(r.Log), To: r.Newest.N, Records: r.Records, Checkpoints: r.Checkpoints, Known: r.Known,
		Faults: []auditFault{},
	}
	if r.Newest.N > 0 {
		at := time.UnixMilli(r.Newest.AtMS).UTC()
		v.From, v.SealedAt, v.Key, v.Ring = r.After+1, &at, r.Key.String(), r.Newest.Ring
		if r.Log == protocol.Coordinator {
			v.Term = r.Newest.Term.String()
		}
	}
	for _, f := range r.Faults {
		v.Faults = append(v.Faults, auditFault{string(f.Kind), f.From, f.To, f.Line, f.Detail})
	}
	return v
}

func (a *commands) auditVerifyCommand() *cobra.Command {
	var roster string
	var known []string
	cmd := &cobra.Command{
		Use: "verify [FILE]", Short: "Prove that the audit log is whole, or name what is wrong with it", Args: term.AtMost(1),
		Long: `Verifies the coordinator's audit log, or an exported one from a file or (-) from
standard input, with nothing but the fleet's rings. No record may be missing, changed
or moved, and an authorised key must have signed each checkpoint. The log of a host
also needs the signed list of hosts: it comes from the coordinator, or from the file
of --roster.

Only a checkpoint from elsewhere can show that the end of the log was cut off, or that
the whole log was rolled back. This machine keeps the newest checkpoint that it has
verified, and hosts send theirs with every hello. --checkpoint adds more, from
exports, receipts or captured hellos. After a recovery of the coordinator from a
backup, its hosts tell how far the log went; an exported log does not show that.

With --watch the coordinator's log is verified again whenever it has grown, until
something is wrong.

The exit code is 1 if something is wrong.`,
		Example: `  hostler audit verify
  hostler audit verify --watch
  hostler audit verify audit.jsonl --fleet lab
  hostler audit export --host edge-07 | hostler audit verify -
  hostler audit verify audit.jsonl --checkpoint captured-hello -o json`,
	}
	fleet, v := a.FleetFlag(cmd), show.ShowFlags(cmd)
	cmd.Flags().StringArrayVar(&known, "checkpoint", nil, "a file with checkpoints of the log from elsewhere (repeatable)")
	cmd.Flags().StringVar(&roster, "roster", "", "the signed list of hosts, from a file instead of the coordinator")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if v.Watch && len(args) > 0 {
			return term.Usage("hostler audit verify --watch", "--watch is for the log of the coordinator, which grows, and not for a file")
		}
		verify := func(ctx context.Context) (auditVerdict, error) { return a.verified(ctx, *fleet, roster, args, known) }
		if v.Watch {
			verify = a.whenGrown(verify)
		}
		verdict := auditVerdict{OK: true}
		err := show.Item(cmd.Context(), a.UI, v, auditVerdictNoun(), func(ctx context.Context) (auditVerdict, error) {
			if !verdict.OK { // it was printed
				return verdict, faulty(a.UI, verdict)
			}
			var err error
			verdict, err = verify(ctx)
			return verdict, err
		})
		if err != nil {
			return err
		}
		if verdict.note != "" {
			a.Say("%s", verdict.note)
		}
		return faulty(a.UI, verdict)
	}
	return cmd
}

// faulty is the end of a command that has found faults.
func faulty(ui *term.UI, v auditVerdict) error {
	if v.OK {
		return nil
	}
	ui.Say("hostler: %d fault(s) in the audit log", len(v.Faults))
	return term.Exit(term.ExitFailed)
}

// whenGrown verifies the coordinator's log again when it has a new record, and not each time
// that is asked.
func (a *commands) whenGrown(verify func(context.Context) (auditVerdict, error)) func(context.Context) (auditVerdict, error) {
	var last auditVerdict
	var newest uint64
	return func(ctx context.Context) (auditVerdict, error) {
		r, err := a.Coordinator()
		if err != nil {
			return last, err
		}
		var page api.AuditPage
		if err := r.Get(ctx, "/v1/audit", url.Values{"limit": {"1"}}, &page); err != nil {
			return last, term.Cannot("ask for the newest record", err)
		}
		if n := len(page.Records); n > 0 && page.Records[n-1].N == newest {
			return last, nil
		} else if n > 0 {
			newest = page.Records[n-1].N
		}
		last, err = verify(ctx)
		return last, err
	}
}

// verified verifies a log, and keeps its newest checkpoint on this machine if it is whole.
func (a *commands) verified(ctx context.Context, fleet, roster string, args, known []string) (verdict auditVerdict, err error) {
	f, chain, log, err := a.openAudit(ctx, fleet, args)
	if err != nil {
		return verdict, err
	}
	defer log.Close()
	lines := bufio.NewReaderSize(log, conn.MaxFile)
	first, err := lines.ReadSlice('\n')
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, bufio.ErrBufferFull) {
		return verdict, term.Cannot("read the audit log", err)
	}
	first = bytes.Clone(first)
	keys := certs.NewKeys(chain)
	if roster != "" || ofHost(first) {
		if keys, err = a.VerifyKeys(ctx, fleet, roster); err != nil {
			return verdict, term.Cannot("find the keys to verify with", err)
		}
	}
	witnesses, err := a.witnesses(f, keys, known)
	if err != nil {
		return verdict, term.Cannot("read the known checkpoints", err)
	}
	tick := a.Tick("verifying the audit log", "")
	result, err := audit.Verify(io.MultiReader(bytes.NewReader(first), lines), audit.Config{Fleet: keys.Chain().Ring().Fleet, Keys: keys.Past(), Known: witnesses})
	tick.End()
	if err != nil {
		return verdict, term.Cannot("verify the audit log", err)
	}
	if result.Records == 0 && result.Checkpoints == 0 && !bytes.HasPrefix(first, []byte(`{"v":`)) {
		return verdict, &term.Failure{Code: term.ExitFailed, What: "cannot verify " + cmp.Or(strings.Join(args, ""), "the audit log"),
			Why: "it is not an audit log: it has no record and no first checkpoint", Next: "hostler audit export FILE"}
	}
	verdict = verdictOf(result)
	if len(args) == 0 {
		recovered, err := a.askRecovered(ctx)
		if err != nil {
			return verdict, term.Cannot("ask whether records were lost", err)
		}
		verdict.note = verdict.lostByRecovery(recovered)
	}
	if verdict.OK && result.Log == protocol.Coordinator && newerThan(result.Newest, f, keys) {
		return verdict, term.Cannot("keep the newest checkpoint", f.KeepCheckpoint(bytes.TrimRight(first, "\r\n")))
	}
	return verdict, nil
}

// newerThan reports whether a checkpoint goes beyond the one that is kept.
func newerThan(c protocol.Checkpoint, f conn.FleetFiles, keys *certs.Keys) bool {
	b, err := f.KeptCheckpoint()
	if err != nil {
		return false
	}
	kept, _, err := protocol.OpenCheckpoint(b, c.Fleet, keys.Past())
	return err != nil || kept.Store != c.Store || c.N > kept.N
}

// ofHost reports whether a log says that it is a host's. Nothing is verified here:
// it only tells which keys to look for.
func ofHost(first []byte) bool {
	var c protocol.Checkpoint
	env, err := protocol.Split(bytes.TrimRight(first, "\r\n"))
	if err != nil || protocol.DecodeJSON(env.Body, &c, true) != nil {
		return false
	}
	_, host := c.Log.Host()
	return host
}

// openAudit opens the log that is meant and finds the rings to verify it with: of
// a file those that this machine keeps, so that no network is needed.
func (a *commands) openAudit(ctx context.Context, fleet string, args []string) (conn.FleetFiles, *certs.Chain, io.ReadCloser, error) {
	if len(args) == 0 {
		r, err := a.Coordinator()
		if err != nil {
			return conn.FleetFiles{}, nil, nil, err
		}
		f, chain, err := a.FetchRings(ctx, r, fleet)
		if err != nil {
			return f, nil, nil, term.Cannot("fetch the rings", err)
		}
		return f, chain, export(ctx, r), nil
	}
	f, chain, err := a.ChooseFleet(fleet)
	if err != nil {
		return f, nil, nil, err
	}
	if args[0] == "-" {
		return f, chain, io.NopCloser(a.In), nil
	}
	file, err := os.Open(args[0])
	return f, chain, file, term.Cannot("open the audit log", err)
}

// export reads the coordinator's log as it comes.
func export(ctx context.Context, r *conn.Remote) io.ReadCloser {
	ctx, stop := context.WithCancelCause(ctx)
	pr, pw := io.Pipe()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		pw.CloseWithError(r.Lines(ctx, "/v1/audit/export", nil, pw))
	}()
	return &exporting{pr, func() { stop(errors.New("the log was read")); <-ended }}
}

// exporting is an export that ends when its reader has gone.
type exporting struct {
	*io.PipeReader
	stop func()
}

func (e *exporting) Close() error {
	err := e.PipeReader.Close()
	e.stop()
	return err
}

// witnesses are the checkpoints that the log is held against: the one that this
// machine keeps, and those of the files.
func (a *commands) witnesses(f conn.FleetFiles, keys *certs.Keys, files []string) ([]protocol.Checkpoint, error) {
	kept, err := f.KeptCheckpoint()
	if err != nil {
		return nil, err
	}
	all := findCheckpoints(kept, keys)
	for _, path := range files {
		b, err := conn.ReadSmall(path)
		if err != nil {
			return nil, err
		}
		found := findCheckpoints(b, keys)
		if len(found) == 0 {
			return nil, term.Usage("", "there is no checkpoint in %s that this fleet has signed", path)
		}
		all = append(all, found...)
	}
	return all, nil
}

// findCheckpoints returns every checkpoint in what was captured: by itself, or
// carried by a receipt or a hello. Its signature counts, and not how it came.
func findCheckpoints(b []byte, keys *certs.Keys) []protocol.Checkpoint {
	fleet := keys.Chain().Ring().Fleet
	var all []protocol.Checkpoint
	for line := range bytes.Lines(b) {
		line = bytes.TrimRight(line, "\r\n")
		if topic, rest, ok := bytes.Cut(line, []byte(" ")); ok {
			if _, err := protocol.ParseTopic(string(topic)); err == nil {
				line = rest
			}
		}
		envelope := line
		if env, err := protocol.Split(line); err == nil {
			var carrier struct {
				Checkpoint []byte `json:"checkpoint"`
				Hello      struct {
					Checkpoint []byte `json:"checkpoint"`
				} `json:"hello"`
			}
			if protocol.DecodeJSON(env.Body, &carrier, true) == nil {
				if inner := append(carrier.Checkpoint, carrier.Hello.Checkpoint...); len(inner) > 0 {
					envelope = inner
				}
			}
		}
		if c, _, err := protocol.OpenCheckpoint(envelope, fleet, keys.Past()); err == nil {
			all = append(all, c)
		}
	}
	return all
}
