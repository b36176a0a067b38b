package auditlog

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base32"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/hostler-io/hostler/certs"
	"github.com/hostler-io/hostler/internal/cli/conn"
	"github.com/hostler-io/hostler/internal/cli/show"
	"github.com/hostler-io/hostler/internal/cli/term"
	"github.com/hostler-io/hostler/mqtt"
	"github.com/hostler-io/hostler/protocol"
)

// What is said of the signature of a message that was watched.
const (
	signatureGood      = "good"
	signatureBad       = "bad"
	signatureUnsigned  = "unsigned"
	signatureUnchecked = "unchecked" // --verify was not given
)

// watched is a message as it came from the broker.
type watched struct {
	At        time.Time `json:"at"` // when it came, by the clock of this machine
	Topic     string    `json:"topic"`
	Signature string    `json:"signature"`
	Code      string    `json:"code,omitempty"` // why it is bad
	Detail    string    `json:"detail,omitempty"`
	Key       string    `json:"key,omitempty"`
	Signer    string    `json:"signer,omitempty"`
	Type      string    `json:"type,omitempty"`
	From      string    `json:"from,omitempty"`
	To        string    `json:"to,omitempty"`
	Text      string    `json:"text"` // what it says, for people
	Body      any       `json:"body,omitempty"`
	Item      any       `json:"item,omitempty"`

	short string // the topic without what all topics of the fleet have
}

func watchedNoun() show.Noun[watched] {
	return show.NounOf[watched]("topic", "at topic signature signer+ text~", show.Cells[watched]{
		"topic": func(w watched) any { return w.short },
		"signature": func(w watched) any {
			if w.Signature == signatureBad {
				return "BAD " + w.Code
			}
			return w.Signature
		},
	})
}

// arrival is a message that waits to be printed.
type arrival struct {
	at      time.Time
	topic   string
	payload []byte
}

// maxArrivals is how many messages may wait to be printed. What comes beyond is left
// out and counted: a slow terminal must not end the connection.
const maxArrivals = 4096

// refetch is how often the list of hosts is fetched anew because of a key that is
// not on it.
const refetch = 10 * time.Second

func (a *commands) watchCommand() *cobra.Command {
	var opt watchOptions
	cmd := &cobra.Command{
		Use: "watch [FILTER…]", Short: "Print the messages of the broker as they come", Args: cobra.ArbitraryArgs,
		Long: `Subscribes to the broker and prints a line for each message, until Ctrl-C or
--limit. A filter is one of MQTT below the topics of the fleet, as
host/edge-07/report or host/+/alert; without one it is #, all of them. A filter
that begins with hostler/ is taken as it is. See doc/mqtt.md for the topics.

It needs a viewer's certificate: that in --viewer DIR, as hostler viewer create
--out writes it, or the one that hostler viewer create --keep has kept on this
machine.

With --verify each message is checked as hostler verify does: by the rings that
this machine keeps, and the list of hosts that the coordinator signs. One that is
bad is shown all the same, with the code of the check that it fails. Then the
command exits with 1 at the end. Messages of the plain mirror are not signed, and
are shown as unsigned. Without --verify nothing is checked: the broker may invent
whatever is shown.`,
		Example: `  hostler watch 'host/+/alert' --verify
  hostler watch host/edge-07/# -o json
  hostler watch 'host/+/lease' --viewer monitor --broker broker:8883`,
	}
	opt.fleet = a.FleetFlag(cmd)
	v := show.FormatFlags(cmd)
	v.One, v.Watch = false, true
	cmd.Flags().BoolVar(&opt.verify, "verify", false, "check each message by the rings and the list of hosts")
	cmd.Flags().StringVar(&opt.roster, "roster", "", "the signed list of hosts, from a file instead of the coordinator")
	cmd.Flags().StringVar(&opt.viewer, "viewer", "", "the directory of the viewer's certificate (default: the one that this machine keeps)")
	cmd.Flags().StringSliceVar(&opt.brokers, "broker", nil, "HOST:PORT of the broker (default: as the viewer's directory says)")
	cmd.Flags().Var(term.Count(&v.Limit), "limit", "end after this many messages (0: never)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return a.watch(cmd.Context(), opt, v, args)
	}
	return cmd
}

type watchOptions struct {
	fleet          *string
	verify         bool
	roster, viewer string
	brokers        []string
}

func (a *commands) watch(ctx context.Context, opt watchOptions, v *show.View, filters []string) error {
	files, chain, err := a.ChooseFleet(*opt.fleet)
	if err != nil {
		return err
	}
	cfg, err := a.viewerConfig(files, opt)
	if err != nil {
		return err
	}
	root := "hostler/v1/" + string(chain.Ring().Name) + "/"
	w := &watcher{
		a: a, v: v, opt: opt, root: root, arrived: make(chan arrival, maxArrivals),
		filters: filtersBelow(root, filters),
		table:   &show.Table[watched]{UI: a.UI, Noun: watchedNoun(), Widths: []int{20, 28, 9, 0}},
	}
	one := *v
	one.Limit = 0
	if w.table.View = &one; v.Format.Word != "table" {
		w.table.Widths = nil
	}
	if opt.verify {
		if w.keys, err = a.VerifyKeys(ctx, *opt.fleet, opt.roster); err != nil {
			return term.Cannot("find the keys to verify with", err)
		}
		w.fetched = a.Now()
	}
	return w.run(ctx, cfg)
}

// filtersBelow completes filters to whole ones.
func filtersBelow(root string, filters []string) []string {
	if len(filters) == 0 {
		filters = []string{"#"}
	}
	all := make([]string, 0, len(filters))
	for _, f := range filters {
		if !strings.HasPrefix(f, "hostler/") {
			f = root + f
		}
		all = append(all, f)
	}
	return all
}

// viewerConfig prepares the connection with the certificate of a viewer.
func (a *commands) viewerConfig(files conn.FleetFiles, opt watchOptions) (mqtt.Config, error) {
	dir := cmp.Or(opt.viewer, files.Viewer())
	var parts [3][]byte
	for i, name := range []string{"viewer.crt", "viewer.key", "ca.crt"} {
		b, err := conn.ReadSmall(filepath.Join(dir, name))
		if errors.Is(err, fs.ErrNotExist) {
			return mqtt.Config{}, &term.Failure{
				Code: term.ExitNotFound, What: "cannot watch", Why: "there is no viewer's certificate in " + dir,
				Next: "hostler viewer create NAME --keep", Err: err,
			}
		}
		if err != nil {
			return mqtt.Config{}, term.Cannot("read the viewer's certificate", err)
		}
		parts[i] = b
	}
	cert, err := tls.X509KeyPair(parts[0], parts[1])
	if err != nil {
		return mqtt.Config{}, term.Cannot("read the viewer's certificate in "+dir, err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(parts[2]) {
		return mqtt.Config{}, term.Usage("", "%s holds no certificate of the fleet's authority", filepath.Join(dir, "ca.crt"))
	}
	brokers := opt.brokers
	if len(brokers) == 0 {
		b, err := conn.ReadSmall(filepath.Join(dir, "brokers"))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return mqtt.Config{}, term.Cannot("read the addresses of the brokers", err)
		}
		brokers = strings.Fields(string(b))
	}
	if len(brokers) == 0 {
		return mqtt.Config{}, term.Usage("add --broker HOST:PORT", "%s does not say where the broker is", dir)
	}
	var id [10]byte
	a.Random(id[:])
	secure := certs.ClientTLS{Certificate: func() *tls.Certificate { return &cert }, Roots: func() *x509.CertPool { return roots }}
	return mqtt.Config{
		Addresses: brokers, TLS: secure.Config(), MaxReceive: protocol.MaxChunk,
		ClientID: "watch-" + strings.ToLower(base32.StdEncoding.EncodeToString(id[:])),
	}, nil
}

// watcher prints what comes. Its fields belong to the goroutine of run, but for those
// that say otherwise.
type watcher struct {
	a       *commands
	v       *show.View
	opt     watchOptions
	root    string // of all topics of the fleet
	filters []string
	table   *show.Table[watched]
	keys    *certs.Keys // nil: nothing is verified
	fetched time.Time   // when the keys were

	arrived chan arrival  // the connection puts in
	leftOut atomic.Uint64 // messages for which there was no room
	printed int
	bad     int
}

// run prints messages until there are enough or the user ends it.
func (w *watcher) run(ctx context.Context, cfg mqtt.Config) error {
	client, dialled, err := w.client(cfg)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancelCause(ctx)
	ended := make(chan error, 1)
	go func() { ended <- client.Run(ctx, w.session(dialled)) }()
	err = w.print(ctx, ended, dialled)
	stop(errWatched)
	if err == nil { // there were enough: the connection is to end
		<-ended
	}
	if n := w.leftOut.Load(); n > 0 {
		w.a.Say("hostler: %d message(s) were left out: they came faster than they could be printed", n)
	}
	if err == nil && w.bad > 0 {
		w.a.Say("hostler: %d of %d message(s) are bad", w.bad, w.printed)
		return term.Exit(term.ExitFailed)
	}
	return err
}

var errWatched = errors.New("enough was watched")

// errNoBroker ends the first attempt that leads to no connection: a user who typed a
// wrong address is to know at once.
var errNoBroker = errors.New("no connection to the broker")

// dialled is what became of the newest attempt.
type dialled struct {
	up  atomic.Bool           // a connection was there
	err atomic.Pointer[error] // of the newest dial
}

// client returns one that remembers why it was not let in.
func (w *watcher) client(cfg mqtt.Config) (*mqtt.Client, *dialled, error) {
	d := &dialled{}
	dialer := &tls.Dialer{NetDialer: mqtt.Dialer(), Config: cfg.TLS}
	cfg.Dial = func(ctx context.Context, address string) (net.Conn, error) {
		c, err := dialer.DialContext(ctx, "tcp", address)
		d.err.Store(&err)
		return c, err
	}
	client, err := mqtt.New(cfg)
	return client, d, term.Cannot("watch", err)
}

// session prepares each connection.
func (w *watcher) session(d *dialled) func(uint64) (mqtt.Opening, error) {
	return func(n uint64) (mqtt.Opening, error) {
		switch {
		case n > 1 && !d.up.Load():
			return mqtt.Opening{}, errNoBroker
		case n > 1:
			w.a.Say("hostler: the connection to the broker was lost, trying again; what comes meanwhile is not shown")
		}
		return mqtt.Opening{
			Filters: w.filters,
			Up:      func(func(string, []byte, bool) error) { d.up.Store(true) },
			Handle: func(topic string, payload []byte) {
				select {
				case w.arrived <- arrival{w.a.Now(), topic, payload}:
				default:
					w.leftOut.Add(1)
				}
			},
		}, nil
	}
}

// print prints what arrives. It returns nil when there was enough.
func (w *watcher) print(ctx context.Context, ended <-chan error, d *dialled) error {
	for {
		select {
		case <-ctx.Done():
			<-ended
			return term.ErrInterrupted
		case err := <-ended:
			return d.failure(ctx, err)
		case in := <-w.arrived:
			it := w.look(ctx, in)
			if err := w.table.Print(w.a.Out, []watched{it}); err != nil {
				return err
			}
			if it.Signature == signatureBad {
				w.bad++
			}
			if w.printed++; w.printed == w.v.Limit {
				return nil
			}
		}
	}
}

// failure says why there is no connection.
func (d *dialled) failure(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return term.ErrInterrupted
	}
	if errors.Is(err, errNoBroker) {
		err = errors.New("the broker ended the connection at once: it knows no valid viewer of this certificate, or the filter is wrong")
		if e := d.err.Load(); e != nil && *e != nil {
			err = *e
		}
	}
	return &term.Failure{
		Code: term.ExitUnreachable, What: "cannot watch", Why: err.Error(), Err: err,
		Next: "hostler viewer ls shows whether the viewer is revoked; --broker HOST:PORT names another address",
	}
}

// look reads a message, and judges it if that is wanted.
func (w *watcher) look(ctx context.Context, in arrival) watched {
	short, _ := strings.CutPrefix(in.topic, w.root)
	it := watched{At: in.at.UTC(), Topic: in.topic, short: short, Signature: signatureUnchecked}
	if isPlain(short) {
		it.Signature = signatureUnsigned
		it.Text, it.Body = plainText(in.payload)
		return it
	}
	if len(in.payload) == 0 {
		it.Signature, it.Text = signatureUnsigned, "empty: it removes a retained message"
		return it
	}
	verdicts := w.verdicts(in)
	v := verdicts[0]
	if w.keys != nil && v.Code == string(protocol.ErrUnknownKey) && w.refetch(ctx) {
		verdicts = w.verdicts(in)
		v = verdicts[0]
	}
	for _, other := range verdicts[1:] {
		if v.OK && !other.OK {
			v = other
		}
	}
	it.Key, it.Type, it.From, it.To, it.Body, it.Item = v.Key, v.Type, v.From, v.To, v.Body, v.Item
	if w.keys != nil {
		it.Signature, it.Code, it.Detail, it.Signer = signatureGood, v.Code, v.Detail, v.Signer
		if !v.OK {
			it.Signature = signatureBad
		}
	}
	it.Text = tell(v, len(verdicts))
	return it
}

// verdicts judges a message, of a document of several lines each of them.
func (w *watcher) verdicts(in arrival) []verdict {
	parts := [][]byte{in.payload}
	if t, err := protocol.ParseTopic(in.topic); err == nil && protocol.ClassOf(typeOn(t.Channel)) == protocol.ClassDocument {
		parts = bytes.Split(bytes.TrimRight(in.payload, "\n"), []byte("\n"))
	}
	all := make([]verdict, 0, len(parts))
	for _, raw := range parts {
		c := captured{in.topic, raw}
		if w.keys != nil {
			all = append(all, c.judge(w.keys))
			continue
		}
		all = append(all, c.read())
	}
	return all
}

// typeOn is the type that travels on a channel, of that of the rings too.
func typeOn(c protocol.Channel) protocol.Type {
	if c == protocol.ChannelRing {
		return protocol.TypeRing
	}
	t, _ := protocol.TypeOf(c)
	return t
}

// read takes the header of a message as it stands. Nothing of it is proven.
func (c captured) read() verdict {
	v := verdict{Topic: c.topic}
	env, err := protocol.Split(c.raw)
	if err != nil {
		return v.bad(err)
	}
	v.Key = env.Key.String()
	var h protocol.Header
	if err := protocol.DecodeJSON(env.Body, &h, true); err != nil {
		return v.bad(err)
	}
	v.header(&h, env.Body)
	return v
}

// refetch fetches the list of hosts anew, but not too often: one may have joined.
func (w *watcher) refetch(ctx context.Context) bool {
	if w.opt.roster != "" || w.a.Now().Sub(w.fetched) < refetch {
		return false
	}
	w.fetched = w.a.Now()
	keys, err := w.a.VerifyKeys(ctx, *w.opt.fleet, "")
	if err != nil {
		w.a.Say("hostler: cannot fetch the list of hosts anew: %s", err)
		return false
	}
	w.keys = keys
	return true
}

// isPlain reports whether a topic, as it stands below the fleet, is of the plain
// mirror, which is not signed.
func isPlain(short string) bool { return strings.HasPrefix(short, "plain/") }

// plainText reads a message of the plain mirror.
func plainText(payload []byte) (string, any) {
	if len(payload) == 0 {
		return "empty: it removes a retained message", nil
	}
	var body any
	if err := protocol.DecodeJSON(payload, &body, true); err != nil {
		return fmt.Sprintf("%d bytes that are no JSON of Hostler", len(payload)), nil
	}
	return string(payload), body
}
