package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/data"
)

// copying is what is measured of copies of containers.
type copying struct{ *bench }

// copies measures, on a fleet of its own, what is done with all files of a container.
func (b copying) copies(ctx context.Context) error {
	return b.apart(ctx, nil, func(b *bench, ctx context.Context) error { return copying{b}.copiesOnly(ctx) })
}

func (b copying) copiesOnly(ctx context.Context) error {
	source, _, err := b.create(ctx, "source", &protocol.CreateArgs{Template: "busybox", Runtime: "lxc"})
	if err != nil {
		return err
	}
	root := filepath.Join(b.fleet.dir, hostName, "lxc", source.name, "rootfs")
	if err := fill(root); err != nil {
		return fmt.Errorf("filling a container: %w", err)
	}
	if err := b.clones(ctx, source, root); err != nil {
		return err
	}
	return b.exports(ctx, source, root)
}

// clones measures what an order of a clone takes beyond a copy of its files that is on the
// disk, as a clone is before it is told.
func (b copying) clones(ctx context.Context, source own, root string) error {
	number := 0
	return b.paired(ctx, pair{
		row: row{name: "clone_overhead_ms", unit: "ms", target: 10}, n: 9, others: "cp -a and sync", compare: difference,
		ours: func(ctx context.Context) (float64, error) {
			number++
			c, err := newOwn(fmt.Sprintf("clone-%d", number))
			if err != nil {
				return 0, err
			}
			took, err := b.ct(ctx, c, protocol.KindClone, &protocol.CloneArgs{Clone: data.Clone{Source: source.id.String(), SourceName: source.name}})
			if err != nil {
				return 0, err
			}
			return took, b.destroy(ctx, c)
		},
		theirs: func(ctx context.Context) (float64, error) {
			to := b.fleet.path("copied")
			took, err := median(1, func() error {
				if err := tool(ctx, "cp", "-a", "--reflink=auto", root, to); err != nil {
					return err
				}
				return tool(ctx, "sync", "-f", to)
			})
			if err != nil {
				return 0, err
			}
			return took, os.RemoveAll(to)
		},
	})
}

// exportMB is how much the container holds that is cloned and exported, and the image that
// is pulled.
const exportMB = 300

// exports compares the speed of a backup, the form in which all files of a container leave
// it, with that of tar on the same files. The backup is signed, synced and read again.
func (b copying) exports(ctx context.Context, source own, root string) error {
	number := 0
	return b.paired(ctx, pair{
		row: row{name: "export_ratio", unit: ratio, target: 0.8}, n: 5, others: "tar --zstd", compare: speedup,
		ours: func(ctx context.Context) (float64, error) {
			number++
			name := data.BackupName{Backup: fmt.Sprintf("b%d", number)}
			took, err := b.ct(ctx, source, protocol.KindBackup, &protocol.NewBackupArgs{NewBackup: data.NewBackup{BackupName: name}})
			if err != nil {
				return 0, err
			}
			body, err := request(protocol.Spec{Kind: protocol.KindBackupRemove, Args: &protocol.BackupArgs{BackupName: name}})
			if err != nil {
				return 0, err
			}
			_, err = b.probe.oneByOne(ctx, 1, body)
			return took, err
		},
		theirs: func(ctx context.Context) (float64, error) {
			to := b.fleet.path("bare.tar.zst")
			took, err := median(1, func() error { return tool(ctx, "tar", "--zstd", "-cf", to, "-C", root, ".") })
			if err != nil {
				return 0, err
			}
			return took, os.Remove(to)
		},
	})
}

// fill gives a root directory files of a megabyte. The first half of each file can be
// compressed, the other half cannot.
func fill(root string) error {
	info, err := os.Stat(root)
	if err != nil {
		return err
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return fmt.Errorf("%s has no owner", root)
	}
	dir := filepath.Join(root, "srv")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	line := []byte("2026-01-01T00:00:00Z level=info msg=\"a request was served\" status=200 path=/index.html\n")
	for i := range exportMB {
		block := make([]byte, 0, 1e6)
		block = append(block, bytes.Repeat(line, 5e5/len(line))...)
		noise := make([]byte, 1e6-len(block))
		if _, err := rand.Read(noise); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprint(i)), append(block, noise...), 0o644); err != nil {
			return err
		}
	}
	return filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Chown(path, int(owner.Uid), int(owner.Gid))
	})
}

// tool runs a program of the system.
func tool(ctx context.Context, name string, args ...string) error {
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", name, err, bytes.TrimSpace(out))
	}
	return nil
}
