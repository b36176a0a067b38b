package move

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/internal/cli/dispatch"
	"github.com/hostler-io/hostler/internal/cli/term"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/data"
)

// spare is what stays free of each file system of the other host: a backup leaves as much.
const spare = 256 << 20

// size is how many bytes a container takes. Its files are those of its snapshots, too: each has
// all of them on the other host.
type size struct{ files, volumes int64 }

// measure finds out what the container takes, and what the other host has free. A host that does not
// tell, because it is older or its policy refuses, keeps nothing from being moved.
func (m *mover) measure(ctx context.Context) error {
	taken, err := m.taken(ctx)
	var rooms map[string]api.Room
	if err == nil {
		rooms, err = m.rooms(ctx)
	}
	switch {
	case ctx.Err() != nil || errors.Is(err, term.ErrInterrupted):
		return err
	case err != nil:
		m.Say("hostler: whether %s has room for the container is not known: %s", m.to, term.Printable(err.Error()))
		return nil
	}
	m.p.size, m.p.rooms = taken, rooms
	return nil
}

// taken asks the first host.
func (m *mover) taken(ctx context.Context) (s size, err error) {
	ask := func(volumes bool) (int64, error) {
		args := &protocol.NewBackupArgs{NewBackup: data.NewBackup{BackupName: data.BackupName{Backup: m.p.backup}, WithVolumes: volumes, WithSnapshots: m.p.carries(), Measure: true}, OutputOption: streamed}
		what := "measure " + m.ref.String()
		all, err := dispatch.Listed[api.Backup](ctx, m.Dispatcher, m.r, m.ref.Host, what, m.about(protocol.KindBackup, args))
		if err == nil && len(all) != 1 {
			err = term.Cannot(what, dispatch.ErrAnswer)
		}
		if err != nil {
			return 0, err
		}
		return all[0].Bytes, nil
	}
	s.files, err = ask(false)
	if err == nil && len(m.p.details.Volumes) > 0 {
		s.volumes, err = ask(true)
		s.volumes = max(0, s.volumes-s.files)
	}
	return s, err
}

// rooms asks the other host, which looks for itself.
func (m *mover) rooms(ctx context.Context) (map[string]api.Room, error) {
	what := "check host " + string(m.to)
	b, err := m.Ask(ctx, m.r, m.to, string(m.to), what, maxDetails, protocol.Spec{Kind: protocol.KindHostCheck, Args: &protocol.ExportArgs{OutputOption: streamed}})
	if err != nil {
		return nil, err
	}
	var found []api.Finding
	if json.Unmarshal(b, &found) != nil {
		return nil, term.Cannot(what, dispatch.ErrAnswer)
	}
	rooms := make(map[string]api.Room)
	for _, f := range found {
		if dir, is := strings.CutPrefix(f.Check, "disk of "); is && f.Room != nil {
			rooms[dir] = *f.Room
		}
	}
	return rooms, nil
}

// crowded tells which file systems of the other host have no room for the container, and for
// a backup of so many bytes beside it; nothing of what is not known.
func (p *picture) crowded(backup int64) (why []string) {
	containers := "containers"
	if p.source.Runtime == "podman" {
		containers = "containers of podman"
	}
	type need struct {
		bytes int64
		dirs  []string
		free  int64
	}
	all := make(map[string]need)
	for _, part := range []struct {
		dir, what string
		bytes     int64
	}{{containers, "its containers", p.size.files}, {"volumes", "its volumes", p.size.volumes}, {"state", "its backups", backup}} {
		room, known := p.rooms[part.dir]
		if !known || part.bytes == 0 {
			continue
		}
		n := all[room.FileSystem]
		all[room.FileSystem] = need{n.bytes + part.bytes, append(n.dirs, part.what), room.Free}
	}
	for _, on := range slices.Sorted(maps.Keys(all)) {
		if n := all[on]; n.free < n.bytes+spare {
			why = append(why, fmt.Sprintf("it takes %s on the file system of %s, and %s has %s free there, of which %s stay free: make room there, or choose another host",
				term.Size(n.bytes), strings.Join(n.dirs, ", "), p.to.ID, term.Size(n.free), term.Size(spare)))
		}
	}
	return why
}
