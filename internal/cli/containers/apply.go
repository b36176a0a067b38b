package containers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/internal/cli/batch"
	"github.com/hostler-io/hostler/internal/cli/conn"
	"github.com/hostler-io/hostler/internal/cli/dispatch"
	"github.com/hostler-io/hostler/internal/cli/show"
	"github.com/hostler-io/hostler/internal/cli/term"
	"github.com/hostler-io/hostler/internal/manifest"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/contract"
	"github.com/hostler-io/hostler/protocol/limit"
	"github.com/hostler-io/hostler/protocol/mount"
	"github.com/hostler-io/hostler/protocol/port"
	"github.com/hostler-io/hostler/protocol/setting"
)

// What a plan says of a container.
const (
	planCreate    = "create"
	planChange    = "change"
	planRecreate  = "recreate needed"
	planUnchanged = "unchanged"
)

// planned is what a manifest means for a container.
type planned struct {
	Host    string                     `json:"host"`
	Name    string                     `json:"name"`
	Plan    string                     `json:"plan"`
	Details []string                   `json:"details"` // the settings that differ
	todo    []protocol.Spec            // one after the other
	inputs  map[protocol.Digest]string // of those
}

func (p *planned) where() string { return p.Host + "/" + p.Name }

func planNoun() show.Noun[planned] {
	n := show.NounOf("name", "host name plan details~~", show.Cells[planned]{
		"details": func(p planned) any { return strings.Join(p.Details, ", ") },
	})
	n.Name = func(p planned) string { return p.where() }
	return n
}

func (a *commands) ctApplyCommand() *cobra.Command {
	var file string
	var yes, dry bool
	cmd := &cobra.Command{
		Use: "apply -f FILE", Short: "Make and change containers until they are as a file says", Args: term.Exactly(0),
		Long: `Reads a manifest, asks the hosts how its containers are, shows what is to be done, and
does it when you agree: containers that are missing are made, labels, limits, ports,
checks, contracts and files are changed, containers are started and stopped. Doing it again
changes nothing.

  version: 1
  profiles:
    small: {limits: {memory: 64MiB, pids: 100}}
  containers:
    - host: edge-01
      name: web
      image: registry.example/web:3
      profiles: [small]      # others are files of the configuration's profiles/
      labels: {app: web}
      env: {PORT: 8080}
      ports: [8080:80/tcp]   # of the host, that lead to it
      volumes: [data:/srv]   # kept when the container goes
      mounts: ["/etc/ssl/certs:/etc/ssl/certs:ro"]
      files:                 # or content: TEXT in place of a source
        - {path: /etc/web.conf, source: web.conf, mode: "0640", owner: "0:0"}
      health: {http: ":80/ready", interval: 10s, retries: 3}
      start: true            # false: it is to be stopped

More keys are runtime, class, offline, hostname, command, limits and privileged. A check
has one of cmd, tcp and http, and timeout, start and action; off: true takes it away. A
host name is changed while the container is stopped. What a manifest does not say of a
container that is there is left as it is, and so is a container that the manifest does
not name. Where the command, the variables or another fixed setting differ, the container must be
made anew, and where the image differs, be upgraded (hostler ct upgrade): then nothing at
all is done, and you decide.

Files are there before a new container starts. Later, those whose content, mode or owner
differ in the container are written anew, and the container is not restarted for that.

On a host itself, with --local, a manifest of that host alone is applied.

With --dry-run only the plan is shown; the exit code is 10 if there is anything to do.`,
		Example: "  hostler ct apply -f web.yaml --dry-run\n  hostler ct apply -f web.yaml --yes",
	}
	cmd.Flags().StringVarP(&file, "file", "f", "", "manifest, or - for standard input")
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	cmd.Flags().BoolVar(&dry, "dry-run", false, "show the plan, and change nothing")
	v := show.FormatFlags(cmd)
	v.One = false
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if file == "" {
			return term.Usage("hostler ct apply -f FILE", "no file is named: use -f FILE")
		}
		wanted, err := a.readManifest(file)
		if err != nil {
			return err
		}
		r, err := a.Connect()
		if err == nil && r.Local {
			err = onlyOf(cmd.Context(), r, wanted)
		}
		if err != nil {
			return err
		}
		plan, err := a.plan(cmd.Context(), r, wanted)
		if err != nil {
			return err
		}
		if dry {
			if err := show.Print(a.UI, v, planNoun(), plan); err != nil {
				return err
			}
			if slices.ContainsFunc(plan, func(p planned) bool { return p.Plan != planUnchanged }) {
				return term.Exit(term.ExitChanges)
			}
			return nil
		}
		return a.apply(cmd.Context(), r, v, plan, yes)
	}
	return cmd
}

// readManifest reads a manifest and the profiles that it names.
func (a *commands) readManifest(path string) ([]manifest.Container, error) {
	raw, err := a.readSome(path)
	if err != nil {
		return nil, term.Cannot("read "+path, err)
	}
	all, err := manifest.Parse(raw, a.profile)
	if err != nil {
		lines := strings.Split(err.Error(), "\n")
		return nil, &term.Failure{Code: term.ExitUsage, What: "cannot read " + path, Why: lines[0], More: lines[1:], Next: "hostler ct apply --help"}
	}
	for _, c := range all {
		s := protocol.Spec{Kind: protocol.KindCreate, Target: protocol.NewCTID(1, [10]byte{1}), Name: protocol.ContainerName(c.Name), Args: new(c.Create())}
		if _, err := dispatch.EncodeSpec(s); err != nil {
			return nil, &term.Failure{Code: term.ExitUsage, What: "cannot read " + path, Why: c.Where() + ": " + err.Error(), Next: "hostler ct apply --help"}
		}
		if err := conn.CheckLabels(manifest.Pairs(c.Labels)); err != nil {
			return nil, term.Usage("", "%s: %s", c.Where(), err)
		}
	}
	if err := readSources(filepath.Dir(path), all); err != nil {
		return nil, &term.Failure{Code: term.ExitUsage, What: "cannot read " + path, Why: err.Error(), Next: "hostler ct apply --help"}
	}
	return all, nil
}

// readSome reads a file, or standard input, and not more of it than a manifest may have.
func (a *commands) readSome(path string) ([]byte, error) {
	in := a.In
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		in = f
	}
	return io.ReadAll(io.LimitReader(in, manifest.MaxBytes+1))
}

// profile reads a profile of the configuration.
func (a *commands) profile(name string) ([]byte, error) {
	home, err := a.Home()
	if err != nil {
		return nil, err
	}
	if _, err := protocol.ParseContainerName(name); err != nil {
		return nil, fmt.Errorf("%.80q is no name of a profile: use 1 to 63 of a-z, 0-9 and inner hyphens", name)
	}
	path := filepath.Join(home, "profiles", name+".yaml")
	raw, err := a.readSome(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("there is no profile %q: write %s", name, path)
	}
	return raw, err
}

// plan compares a manifest with what is there.
func (a *commands) plan(ctx context.Context, r *conn.Remote, wanted []manifest.Container) ([]planned, error) {
	there, err := r.Containers(ctx, "")
	if err != nil {
		return nil, term.Cannot("list the containers", err)
	}
	var plan []planned
	for _, w := range wanted {
		i := slices.IndexFunc(there, func(c api.Container) bool { return c.Host == w.Host && c.Name == w.Name })
		p := planned{Host: w.Host, Name: w.Name, Details: []string{}}
		switch {
		case i < 0:
			p.create(w.Shape, newCTID(a))
		case there[i].CTID == "":
			return nil, &term.Failure{Code: term.ExitFailed, What: "cannot plan " + w.Where(), Why: "the container is foreign: Hostler leaves it alone", Next: "hostler ct adopt " + w.Where()}
		default:
			d, err := a.details(ctx, refOf(r, w.Host, w.Name).String())
			if err == nil {
				err = p.compare(w.Shape, there[i], d, func(id protocol.CTID) ([]manifest.File, error) {
					return filesDiffer(ctx, a, r, refOf(r, w.Host, w.Name), id, w.Files)
				})
			}
			if err != nil {
				return nil, err
			}
		}
		plan = append(plan, p)
	}
	return plan, nil
}

// compare finds what differs in a container that is there. What is not wanted otherwise is
// left as it is. differ tells which of its files do.
func (p *planned) compare(w manifest.Shape, c api.Container, d api.ContainerDetails, differ func(protocol.CTID) ([]manifest.File, error)) error {
	p.Plan = planUnchanged
	id, err := protocol.ParseCTID(c.CTID)
	if err != nil {
		return fmt.Errorf("id of %s: %w", p.where(), err)
	}
	if p.Details = fixedDiffers(w, d); len(p.Details) > 0 {
		p.Plan = planRecreate
		return nil
	}
	set, err := changesTo(w, d)
	if err != nil {
		return err
	}
	if w.Hostname != "" && w.Hostname != cmp.Or(d.Hostname, d.Name) {
		set = append(set, "hostname="+w.Hostname)
	}
	if len(set) > setting.MaxChanges {
		return &term.Failure{Code: term.ExitUsage, What: "cannot plan " + p.where(), Why: fmt.Sprintf("%d settings differ, at most %d are changed at once", len(set), setting.MaxChanges)}
	}
	p.Details = append([]string{}, set...)
	add := func(k protocol.Kind, args protocol.Args, details ...string) {
		p.Plan, p.Details = planChange, append(p.Details, details...)
		p.todo = append(p.todo, protocol.Spec{Kind: k, Target: id, Name: protocol.ContainerName(p.Name), Args: args})
	}
	if len(set) > 0 {
		add(protocol.KindConfig, &protocol.ConfigArgs{Set: set})
	}
	if change, details := keptOtherwise(w, d); len(details) > 0 {
		add(protocol.KindSet, &protocol.SetArgs{Change: change}, details...)
	}
	opened, closed := portsTo(w, d)
	if len(closed) > 0 { // first, for a port may lead elsewhere then
		add(protocol.KindUnexpose, &protocol.PortArgs{Ports: closed}, "unexpose="+strings.Join(closed, ","))
	}
	if len(opened) > 0 {
		add(protocol.KindExpose, &protocol.PortArgs{Ports: opened}, "expose="+strings.Join(opened, ","))
	}
	if err := w.CheckPlaces(d.Volumes, d.Mounts); err != nil {
		return &term.Failure{Code: term.ExitUsage, What: "cannot plan " + p.where(), Why: err.Error()}
	}
	files, err := differ(id)
	if err != nil {
		return err
	}
	if len(files) > 0 { // before it is started
		p.Plan = planChange
		p.write(id, files)
	}
	if running := c.Intended == "running"; w.Start != nil && *w.Start != running {
		kind := protocol.KindStart
		if running {
			kind = protocol.KindStop
		}
		add(kind, nil, strings.TrimPrefix(string(kind), "container."))
	}
	return nil
}

// keptOtherwise is what is to change of how a container is kept.
func keptOtherwise(w manifest.Shape, d api.ContainerDetails) (c contract.Change, details []string) {
	if w.Class != "" && w.Class != d.Class {
		c.Class, details = w.Class, append(details, "class="+w.Class)
	}
	if w.Offline != "" && normal(w.Offline) != normal(d.Offline) {
		c.Offline, details = w.Offline, append(details, "offline="+normal(w.Offline))
	}
	if want := w.Health.Check(); want != nil && !reflect.DeepEqual(want, cmp.Or(d.Health, &contract.Check{Off: true})) {
		c.Health, details = want, append(details, "health")
	}
	wanted, has := w.Schedules(), d.Schedules
	for name, m := range map[string]struct{ to, want, has **contract.Schedule }{
		"backup": {&c.Backup, &wanted.Backup, &has.Backup}, "snapshot": {&c.Snapshot, &wanted.Snapshot, &has.Snapshot},
	} {
		if *m.want != nil && **m.want != *cmp.Or(*m.has, &contract.Schedule{Off: true}) {
			*m.to, details = *m.want, append(details, name)
		}
	}
	slices.Sort(details)
	return c, details
}

// portsTo are the ports of the host that are to lead to a container, and those that are
// not to any more.
func portsTo(w manifest.Shape, d api.ContainerDetails) (opened, closed []string) {
	if w.Ports == nil {
		return nil, nil
	}
	wanted, _ := port.ParseAll(w.Ports) // they were checked as those of a new container
	for _, m := range wanted {
		if !slices.Contains(d.Ports, m.String()) {
			opened = append(opened, m.String())
		}
	}
	for _, text := range d.Ports {
		if m, err := port.Parse(text); err == nil && !slices.Contains(wanted, m) {
			closed = append(closed, m.Outer())
		}
	}
	return opened, closed
}

// remedy is the command after which a manifest can be applied whose fixed settings differ
// of this container.
func (p *planned) remedy(of conn.Ref) string {
	if image, ok := strings.CutPrefix(p.Details[0], "image="); ok && len(p.Details) == 1 {
		return "hostler ct upgrade " + of.String() + " " + image + "    # keeps its volumes and settings"
	}
	return "hostler ct rm " + of.String() + "    # destroys what is in it"
}

// fixedDiffers lists what can only be changed by making a container anew, or of its image
// by an upgrade.
func fixedDiffers(w manifest.Shape, d api.ContainerDetails) []string {
	differs := []string{}
	for _, s := range []struct{ key, want, has string }{
		{"image", w.Image, d.Image}, {"runtime", w.Runtime, d.Runtime}, {"network", w.Network, d.Network},
	} {
		if s.want != "" && s.want != s.has {
			differs = append(differs, s.key+"="+s.want)
		}
	}
	if w.Privileged != nil && *w.Privileged != d.Privileged {
		differs = append(differs, fmt.Sprintf("privileged=%t", *w.Privileged))
	}
	if len(w.Command) > 0 && !slices.Equal(w.Command, d.Command) {
		differs = append(differs, "command")
	}
	if w.Volumes != nil || w.Mounts != nil {
		has, _ := mount.Parse(d.Volumes, d.Mounts)
		volumes, hosts := d.Volumes, d.Mounts
		if w.Volumes != nil {
			volumes = w.Volumes
		}
		if w.Mounts != nil {
			hosts = w.Mounts
		}
		if want, err := mount.Parse(volumes, hosts); err == nil && !slices.Equal(want, has) { // they were checked as those of a new container
			differs = append(differs, "volumes and mounts")
		}
	}
	if w.Env != nil && !slices.Equal(manifest.Pairs(w.Env), d.Env) {
		differs = append(differs, "env") // whose values are not for every screen
	}
	return differs
}

// normal is the one form of an offline contract.
func normal(text string) string {
	if o, err := contract.Parse(text); err == nil && text != "" {
		return o.String()
	}
	return text
}

// changesTo are the changes of labels and limits that make a container as wanted.
func changesTo(w manifest.Shape, d api.ContainerDetails) ([]string, error) {
	var set []string
	differ := func(first string, want, has map[string]string) {
		for name, value := range want {
			if now, ok := has[name]; !ok || now != value {
				set = append(set, first+name+"="+value)
			}
		}
		for name := range has {
			if _, ok := want[name]; !ok {
				set = append(set, first+name)
			}
		}
	}
	if w.Labels != nil {
		has := make(map[string]string)
		for _, l := range d.Labels {
			name, value, _ := strings.Cut(l, "=")
			has[name] = value
		}
		differ("label.", w.Labels, has)
	}
	if w.Limits != nil {
		limits, err := limit.Parse(manifest.Pairs(w.Limits))
		if err != nil {
			return nil, err
		}
		want, has := make(map[string]string), make(map[string]string)
		for r, v := range limit.Limits(nil).With(limits) {
			want[string(r)] = v
		}
		for _, l := range d.Limits {
			if l.Set != "" {
				has[l.Resource] = l.Set
			}
		}
		differ("limit.", want, has)
	}
	slices.Sort(set)
	return set, nil
}

// apply does what a plan says.
func (a *commands) apply(ctx context.Context, r *conn.Remote, v *show.View, plan []planned, yes bool) error {
	var anew []string
	next := ""
	todo, steps := 0, 0
	for _, p := range plan {
		line := p.where() + ": " + p.Plan
		if len(p.Details) > 0 {
			line += " (" + strings.Join(p.Details, ", ") + ")"
		}
		a.Say("%s", term.Printable(line))
		switch {
		case p.Plan == planRecreate:
			anew = append(anew, p.where())
			next = cmp.Or(next, p.remedy(refOf(r, p.Host, p.Name)))
		case len(p.todo) > 0:
			todo++
			steps = max(steps, len(p.todo))
		}
	}
	if len(anew) > 0 {
		return &term.Failure{
			Code: term.ExitFailed, What: "cannot apply the manifest; nothing was changed", Why: "fixed settings differ of " + strings.Join(anew, ", "),
			Next: next + "; then apply again",
		}
	}
	if todo == 0 {
		return nil
	}
	if err := a.Confirm(yes, fmt.Sprintf("Do this to %d of %d containers?", todo, len(plan))); err != nil {
		return err
	}
	if r.Local {
		return applyHere(ctx, a, r, v, plan)
	}
	for step := range steps {
		if err := a.applyEach(ctx, r, v, plan, step); err != nil {
			return err
		}
	}
	return nil
}

// onlyOf refuses a manifest with containers of other hosts than the one that is asked.
func onlyOf(ctx context.Context, r *conn.Remote, wanted []manifest.Container) error {
	var s api.AgentStatus
	if err := r.Get(ctx, "/status", nil, &s); err != nil {
		return term.Cannot("ask which host this is", err)
	}
	for _, w := range wanted {
		if w.Host != s.Host {
			return &term.Failure{
				Code: term.ExitUsage, What: "cannot plan " + w.Where(), Why: "without a coordinator the host " + s.Host + " changes its own containers alone",
				Next: "hostler login ADDRESS --token-file FILE    # or a manifest of this host alone",
			}
		}
	}
	return nil
}

// refOf names a container of a manifest: to its host itself without the host.
func refOf(r *conn.Remote, host, name string) conn.Ref {
	if r.Local {
		host = ""
	}
	return conn.Ref{Host: protocol.HostID(host), Name: name}
}

// applyHere does what a plan says on the host itself, one container after another. It ends
// with what fails first; applied again, the rest is done.
func applyHere(ctx context.Context, a *commands, r *conn.Remote, v *show.View, plan []planned) error {
	c := &dispatch.Change{View: v}
	for _, p := range plan {
		for _, s := range p.todo {
			if err := send(ctx, a, r, p, s); err != nil {
				return err
			}
			name := refOf(r, p.Host, p.Name)
			if err := a.Do(ctx, r, c, name, "apply the manifest to "+p.Name, "as the manifest says", s); err != nil {
				return err
			}
		}
	}
	return nil
}

// applyEach makes one step of each container that has it, side by side.
func (a *commands) applyEach(ctx context.Context, r *conn.Remote, v *show.View, plan []planned, step int) error {
	var places []dispatch.Target
	for _, p := range plan {
		if step >= len(p.todo) {
			continue
		}
		spec, err := dispatch.EncodeSpec(p.todo[step])
		if err == nil {
			err = send(ctx, a, r, p, p.todo[step])
		}
		if err != nil {
			return err
		}
		places = append(places, dispatch.Target{Label: p.where(), Host: protocol.HostID(p.Host), Spec: spec})
	}
	m := new(batch.Selection).Many
	m.View, m.Verb = v, "apply the manifest"
	return a.DoMany(ctx, r, &m, places)
}
