package hostcmd

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/backup"
	"github.com/hostler-io/hostler/client"
	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/internal/clock"
	"github.com/hostler-io/hostler/internal/daemon"
	"github.com/hostler-io/hostler/lxc"
	"github.com/hostler-io/hostler/metrics"
	"github.com/hostler-io/hostler/podman"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/data"
	"github.com/hostler-io/hostler/protocol/setting"
	"github.com/hostler-io/hostler/volume"
)

// backupOptions are what the kinds say.
type backupOptions struct {
	state, path, helper, socket, agent, runtime, name, backup string
	locks, volumesDir                                         string // of containers, directories
	encryptTo                                                 string // file
	incremental                                               int    // how many backups a chain may have
	volumes, snapshots                                        bool   // their files are wanted too
	measure                                                   bool   // only how much they take
	leftOut                                                   []string
	signing                                                   Signing

	target                string
	targets               []string
	access                backup.Access // to those that are buckets
	scheduled             bool
	keepDaily, keepWeekly int
}

// backupsCommand is run by the agent itself, under a supervisor.
func (c Config) backupsCommand() *cobra.Command {
	cmd := daemon.Group("backups", "For the agent alone", "backups needs create, ls, verify, export, import or rm")
	cmd.Hidden = true
	for verb, do := range map[string]func(context.Context, backup.Store, backupOptions, io.Writer) error{
		"create": createBackup, "ls": nil, "verify": verifyBackup, "rm": removeBackup, "export": exportBackup, "import": importBackup,
	} {
		var o backupOptions
		sub := &cobra.Command{
			Use: verb, Short: "For the agent alone", Hidden: true, Args: noArgs,
			RunE: func(cmd *cobra.Command, _ []string) error {
				s, locks, err := c.Backups(o.state, o.encryptTo)
				if err != nil {
					return err
				}
				o.locks = locks
				targets, err := backup.ParseTargets(o.targets, o.access)
				if err != nil {
					return err
				}
				if verb == "ls" {
					return listAll(cmd.Context(), s, targets, cmd.OutOrStdout())
				}
				if s, err = s.At(targets, o.target); err != nil {
					return err
				}
				if verb == "export" || verb == "import" {
					if o.signing, err = c.Signing(o.state); err != nil {
						return err
					}
				}
				return do(cmd.Context(), s, o, cmd.OutOrStdout())
			},
		}
		f := sub.Flags()
		f.StringVar(&o.state, "state-dir", "", "the agent's directory")
		f.StringVar(&o.path, "lxc-path", "", "directory of the containers of LXC")
		f.StringVar(&o.helper, "lxc-helper", "", "the helper of LXC")
		f.StringVar(&o.socket, "podman-socket", "", "socket of podman's service")
		f.StringVar(&o.agent, "socket", "", "the agent's own socket")
		f.StringVar(&o.encryptTo, "encrypt-to", "", "the file of keys to which new backups are encrypted")
		f.StringVar(&o.runtime, "runtime", "", "lxc or podman")
		f.StringVar(&o.name, "name", "", "name of the container")
		f.StringVar(&o.volumesDir, "volumes-dir", "", "directory of the volumes")
		f.BoolVar(&o.volumes, "volumes", false, "the files of its volumes, too")
		f.BoolVar(&o.snapshots, "snapshots", false, "the files of its snapshots, too")
		f.IntVar(&o.incremental, "incremental", 0, "how many backups a chain of increments may have")
		f.BoolVar(&o.measure, "measure", false, "only tell how many bytes it would be of")
		f.StringVar(&o.target, "target", "", "where it is kept")
		f.StringArrayVar(&o.targets, "targets", nil, "where backups may be kept")
		f.StringArrayVar(&o.access.Credentials, "s3-credentials", nil, "files with the keys of buckets")
		f.StringVar(&o.access.CAFile, "s3-ca-file", "", "the file of certificates of their stores")
		f.BoolVar(&o.scheduled, "scheduled", false, "it is made by a schedule")
		f.IntVar(&o.keepDaily, "keep-daily", 0, "of how many days one stays")
		f.IntVar(&o.keepWeekly, "keep-weekly", 0, "of how many weeks one stays")
		f.StringVar(&o.backup, "backup", "", "name of the backup")
		f.StringArrayVar(&o.leftOut, "left-out", nil, "names of backups that the other host has")
		cmd.AddCommand(sub)
	}
	return cmd
}

// withTree calls do with the root directory of a container, the ids of its users, what
// runs in it, and the runtime that has its snapshots.
func (o backupOptions) withTree(ctx context.Context, do func(i container.Info, root string, ids container.IDRange, img container.Image, r container.Historian) error) error {
	if container.Kind(o.runtime) == container.KindPodman {
		p, err := podman.New(podman.Config{Socket: o.socket})
		if err != nil {
			return err
		}
		defer p.Close()
		info, err := p.Inspect(ctx, o.name)
		if err != nil {
			return err
		}
		return podman.WithTree(ctx, p, o.name, func(root string, ids container.IDRange, img container.Image) error {
			return do(info, root, ids, img, p)
		})
	}
	l, err := lxc.New(lxc.Config{Helper: o.helper, LXCPath: o.path, LockDir: o.locks})
	if err != nil {
		return err
	}
	defer l.Close()
	img, err := l.Describe(ctx, o.name)
	if err != nil {
		return err
	}
	info, err := l.Inspect(ctx, o.name)
	if err != nil {
		return err
	}
	files, err := l.Files(ctx, o.name)
	if err != nil {
		return err
	}
	ids, err := rangeOf(files)
	if err != nil {
		return err
	}
	// What a container mounts, or where its first process has its root, must not decide
	// what root of the host reads.
	return l.WithTree(ctx, o.name, func(root string) error { return do(info, root, ids, img, l) })
}

func createBackup(ctx context.Context, s backup.Store, o backupOptions, out io.Writer) error {
	known, err := o.keeps(ctx)
	if err != nil {
		return err
	}
	var more []backup.Tree
	if o.volumes {
		if more, err = o.trees(known.volumes); err != nil {
			return err
		}
	}
	return o.withTree(ctx, func(info container.Info, root string, ids container.IDRange, img container.Image, r container.Historian) error {
		if o.snapshots {
			earlier, err := o.earlier(ctx, r, ids)
			if err != nil {
				return err
			}
			more = append(more, earlier...)
		}
		if o.measure {
			return measured(ctx, api.Backup{CTID: string(info.CTID), Container: o.name, Runtime: string(info.Kind)}, append(more, backup.Tree{Root: root}), out)
		}
		moves := o.backup == data.MoveBackup(string(info.CTID)) && o.target == ""
		if moves {
			s.By = nil // the other host has not the secret key
		}
		m := backup.Manifest{Container: o.name, CTID: info.CTID, Runtime: info.Kind, Made: clock.Now().UnixMilli(), Epoch: known.epoch, Scheduled: o.scheduled, Image: img, Kept: known.New}
		var b backup.Backup
		var why string
		if o.volumes || o.snapshots || moves {
			b, err = s.Create(ctx, o.backup, root, ids, m, more...)
			if err == nil { // what is on the disk is what was written
				b, err = s.Verify(ctx, b.Name)
			}
		} else {
			b, why, err = s.CreateNext(ctx, o.backup, root, ids, m, o.incremental)
		}
		if err != nil {
			return err
		}
		one := shown(b)
		one.Full = why
		if err := json.NewEncoder(out).Encode(one); err != nil || o.keepDaily+o.keepWeekly == 0 {
			return err
		}
		return s.Retain(ctx, b, o.keepDaily, o.keepWeekly, clock.Now())
	})
}

// measured writes how much directories take, as a backup that is not made.
func measured(ctx context.Context, b api.Backup, all []backup.Tree, out io.Writer) error {
	for _, t := range all {
		err := t.Visit(func(root string) error {
			bytes, files, err := metrics.Usage(ctx, root)
			b.Bytes, b.Entries = b.Bytes+bytes, b.Entries+int(files)
			return err
		})
		if err != nil {
			return fmt.Errorf("measure %s: %w", cmp.Or(t.Root, t.Name), err)
		}
	}
	return json.NewEncoder(out).Encode(b)
}

// trees are the directories of volumes. A mounted volume is written as NAME:/path.
func (o backupOptions) trees(mounted []string) (all []backup.Tree, err error) {
	store := &volume.Store{Dir: o.volumesDir}
	for _, m := range mounted {
		name, _, _ := strings.Cut(m, ":")
		if slices.ContainsFunc(all, func(t backup.Tree) bool { return t.Name == name }) {
			continue // it is mounted at two places
		}
		t := backup.Tree{Name: name}
		if t.Root, t.IDs, err = store.Files(name); err != nil {
			return nil, err
		}
		all = append(all, t)
	}
	return all, nil
}

// earlier are the root directories of the snapshots of a container, in their order. Each is
// there while it is visited.
func (o backupOptions) earlier(ctx context.Context, r container.Historian, ids container.IDRange) (all []backup.Tree, err error) {
	snapshots, err := r.Snapshots(ctx, o.name)
	for _, s := range snapshots {
		if s.Damaged {
			return nil, fmt.Errorf("the record of snapshot %s cannot be read, so no backup can hold it; remove it: hostler snapshot rm", s.Name)
		}
		all = append(all, backup.Tree{Name: s.Name, IDs: ids, Of: &s, With: func(do func(root string) error) error {
			return r.WithSnapshot(ctx, o.name, s.Name, do)
		}})
	}
	return all, err
}

// keeping is what the agent knows of a container.
type keeping struct {
	setting.New
	volumes []string       // each as NAME:/path
	epoch   protocol.Epoch // of a unique one
}

// keeps is how the agent keeps the container.
func (o backupOptions) keeps(ctx context.Context) (c keeping, err error) {
	agent, err := client.New(client.Config{Address: "unix://" + o.agent})
	if err != nil {
		return c, err
	}
	var said bytes.Buffer
	if err := agent.Lines(ctx, "/v1/containers/"+url.PathEscape(o.name), nil, &said); err != nil {
		return c, fmt.Errorf("ask the agent about container %q: %w", o.name, err)
	}
	var d api.ContainerDetails
	if err := json.Unmarshal(said.Bytes(), &d); err != nil {
		return c, err
	}
	c.volumes, c.New = d.Volumes, setting.New{Template: d.Image, Class: d.Class, Offline: d.Offline, Labels: d.Labels, Env: d.Env, Command: d.Command, Expose: d.Ports, Health: d.Health, Schedules: d.Schedules}
	for _, l := range d.Limits {
		if l.Set != "" {
			c.Limits = append(c.Limits, l.Resource+"="+l.Set)
		}
	}
	if d.Epoch != "" {
		_, err = fmt.Sscanf(d.Epoch, "%d.%d.%d", &c.epoch.Term.Ring, &c.epoch.Term.Counter, &c.epoch.Counter)
	}
	return c, err
}

// rangeOf are the ids of the users of a container.
func rangeOf(f container.Files) (ids container.IDRange, err error) {
	if strings.TrimSpace(f.UIDs) == "" {
		return ids, nil
	}
	var inside, first, count uint32
	if n, err := fmt.Sscan(f.UIDs, &inside, &first, &count); n != 3 || err != nil || inside != 0 || strings.Join(strings.Fields(f.UIDs), " ") != strings.Join(strings.Fields(f.GIDs), " ") {
		return ids, errors.New("the users of the container are mapped in more than one range, which a backup cannot hold yet")
	}
	if first == 0 && count == math.MaxUint32 {
		return ids, nil
	}
	return container.IDRange{First: first, Count: count}, nil
}

func shown(b backup.Backup) api.Backup {
	var verified *time.Time
	if !b.Verified.IsZero() {
		verified = &b.Verified
	}
	var volumes []string
	for _, v := range b.Volumes {
		volumes = append(volumes, v.Name)
	}
	var snapshots []string
	for _, e := range b.Snapshots {
		snapshots = append(snapshots, e.Snapshot.Name)
	}
	parent := ""
	if b.Parent != nil {
		parent = b.Parent.Name
	}
	var to []string
	if b.Encrypted != nil {
		to = b.Encrypted.To
	}
	return api.Backup{CTID: string(b.CTID), Volumes: volumes, Snapshots: snapshots, Verified: verified, Name: b.Name, Container: b.Container, Runtime: string(b.Runtime), Made: time.UnixMilli(b.Made).UTC(), Bytes: b.Size, SHA256: b.SHA256, Entries: b.Entries, Problem: b.Problem, Scheduled: b.Scheduled, From: b.From, EncryptedTo: to, Parent: parent, Chain: b.Chain, ChainBytes: b.ChainBytes}
}

// listAll lists the backups of the host, and those of its targets. One that is not to be
// reached has a line with its problem, and hides none of the others.
func listAll(ctx context.Context, own backup.Store, targets backup.Targets, out io.Writer) (err error) {
	for _, target := range append([]string{""}, targets.Names()...) {
		s, bad := own.At(targets, target)
		var all []backup.Backup
		if bad == nil {
			all, bad = s.List(ctx)
		}
		if bad != nil && target != "" { // a line of its own tells so
			bad = json.NewEncoder(out).Encode(api.Backup{Target: target, Problem: bad.Error()})
		}
		err = errors.Join(err, bad)
		for _, b := range all {
			one := shown(b)
			one.Target = target
			err = errors.Join(err, json.NewEncoder(out).Encode(one))
		}
	}
	return err
}

func verifyBackup(ctx context.Context, s backup.Store, o backupOptions, out io.Writer) error {
	b, err := s.Verify(ctx, o.backup)
	if err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(shown(b))
}

// exportBackup writes a backup, and those that it needs, to the output.
func exportBackup(ctx context.Context, s backup.Store, o backupOptions, out io.Writer) error {
	_, err := s.Export(ctx, o.backup, out, backup.Seal(o.signing.Seal), o.leftOut...)
	return err
}

// importBackup takes a backup from the archive that it reads.
func importBackup(ctx context.Context, s backup.Store, o backupOptions, out io.Writer) error {
	b, err := s.Import(ctx, os.Stdin, o.backup, backup.Trust(o.signing.Trust))
	if err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(shown(b))
}

func removeBackup(ctx context.Context, s backup.Store, o backupOptions, out io.Writer) error {
	if err := s.Remove(ctx, o.backup); err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(api.Backup{Name: o.backup})
}
