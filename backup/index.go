package backup

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/image/rootfs"
	"github.com/hostler-io/hostler/internal/tree"
)

// An index is the list of files of a backup, in the directory of the host that has made it. The
// next increment is compared with it: the host may have no key that decrypts the backup itself.
// It is a line with its form, one with its head in JSON, for each path the length, the path and
// its footprint, and at the end the SHA-256 of all that.
const (
	indexForm   = "hostler-index/1\n"
	indexPrefix = ".index-"
	maxIndex    = 64 << 20
	maxHead     = 4 << 10
)

var errIndex = errors.New("the list of its files cannot be used")

// indexHead says which backup an index is of.
type indexHead struct {
	Backup string            `json:"backup"`
	SHA256 string            `json:"sha256"` // of its manifest
	Depth  int               `json:"depth"`
	IDs    container.IDRange `json:"ids"`
	// Entries and Bytes are what a restore of it lays, over all of its chain.
	Entries int   `json:"entries"`
	Bytes   int64 `json:"bytes"`
}

// footprint tells whether a file has changed. The kernel moves the time of change (ctime) at each
// change of content, owner, mode, attributes or names, and no program can set it. The zero
// value is that of a file which may change in the same moment once more.
type footprint [16]byte

func footprintOf(st *unix.Stat_t) (p footprint) {
	var b []byte
	for _, n := range []uint64{st.Ino, uint64(st.Mode), uint64(st.Uid), uint64(st.Gid), uint64(st.Size), uint64(st.Mtim.Sec), uint64(st.Mtim.Nsec), uint64(st.Ctim.Sec), uint64(st.Ctim.Nsec)} {
		b = binary.LittleEndian.AppendUint64(b, n)
	}
	sum := sha256.Sum256(b)
	copy(p[:], sum[:])
	return p
}

// appendPath adds a path to an index. To an index that is too large it adds nothing more.
func appendPath(to []byte, name string, p footprint) []byte {
	if len(to) > maxIndex {
		return to
	}
	return append(append(binary.AppendUvarint(to, uint64(len(name))), name...), p[:]...)
}

// encodeIndex is nil if the index were too large.
func encodeIndex(h indexHead, paths []byte) ([]byte, error) {
	head, err := json.Marshal(h)
	if err != nil {
		return nil, err
	}
	raw := slices.Concat([]byte(indexForm), head, []byte("\n"), paths)
	if len(raw) > maxIndex-sha256.Size {
		return nil, nil
	}
	sum := sha256.Sum256(raw)
	return append(raw, sum[:]...), nil
}

// decodeIndex reads an index. It uses no content before it has checked the digest.
func decodeIndex(raw []byte) (h indexHead, files map[string]footprint, err error) {
	rest, ok := bytes.CutPrefix(raw, []byte(indexForm))
	if !ok || len(rest) < sha256.Size || len(raw) > maxIndex {
		return h, nil, fmt.Errorf("%w: it is in no form that this version knows", errIndex)
	}
	end := len(raw) - sha256.Size
	if sum := sha256.Sum256(raw[:end]); !bytes.Equal(sum[:], raw[end:]) {
		return h, nil, fmt.Errorf("%w: it was changed", errIndex)
	}
	head, rest, ok := bytes.Cut(rest[:len(rest)-sha256.Size], []byte("\n"))
	if !ok || len(head) > maxHead || json.Unmarshal(head, &h) != nil || checkName(h.Backup) != nil || h.Depth < 0 || h.Depth >= MaxChain || h.Entries < 0 || h.Bytes < 0 {
		return h, nil, fmt.Errorf("%w: its head is none", errIndex)
	}
	files = make(map[string]footprint)
	for len(rest) > 0 {
		n, used := binary.Uvarint(rest)
		if used < 1 || n < 1 || n > unix.PathMax || uint64(len(rest)-used) < n+uint64(len(footprint{})) {
			return h, nil, fmt.Errorf("%w: a path in it is cut short", errIndex)
		}
		name := string(rest[used : used+int(n)])
		if path.Clean(name) != name || strings.HasPrefix(name, "/") || name == ".." || strings.HasPrefix(name, "../") || strings.ContainsRune(name, 0) {
			return h, nil, fmt.Errorf("%w: %.80q is no path in a container", errIndex, name)
		}
		rest = rest[used+int(n):]
		files[name] = footprint(rest[:len(footprint{})])
		rest = rest[len(footprint{}):]
	}
	return h, files, nil
}

// index is the path of the index of the newest backup of a container in this store.
func (s Store) index(id container.CTID) string {
	dir := s.Dir
	if s.target != "" {
		dir = s.own
	}
	return filepath.Join(dir, indexPrefix+s.target+":"+string(id))
}

// openIndex opens and locks an index: shared by what makes an increment, whose parent is not
// removed meanwhile, and alone by what removes a backup. There being none is
// [fs.ErrNotExist]; one that is locked otherwise is container.ErrBusy.
func (s Store) openIndex(id container.CTID, how int) (*os.File, error) {
	if container.CheckSnapshot(string(id)) != nil {
		return nil, fs.ErrNotExist
	}
	f, err := os.OpenFile(s.index(id), os.O_RDWR|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), how|unix.LOCK_NB); err != nil {
		if errors.Is(err, unix.EWOULDBLOCK) {
			err = fmt.Errorf("%w: an increment of a backup of this container is being made; try again when it is there", container.ErrBusy)
		}
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// change is what has changed in a root directory since an index.
type change struct {
	was   map[string]footprint // what is there as it was then is not archived; nil: all is
	gone  []string             // topmost paths
	paths []byte               // of the new index
	bytes int64                // of the files that are archived
	// settled is when, in nanoseconds, a file must have changed the last time to be compared
	// by that.
	settled int64
	listed  map[string]bool // of was, what the new index has
}

// still is how long before a backup a file has to have changed to be taken as unchanged later:
// the times of the kernel are as coarse as its ticks.
const still = 2 * time.Second

// newChange begins before the files are looked at. What programs have written to memory that
// is a file's is written to the disk first: only then the next such write is told by a time.
func newChange(root string, now time.Time, still time.Duration, was map[string]footprint) (*change, error) {
	fd, err := unix.Open(root, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: root, Err: err}
	}
	if err := errors.Join(unix.Syncfs(fd), unix.Close(fd)); err != nil {
		return nil, fmt.Errorf("write the files of the container to the disk: %w", err)
	}
	return &change{was: was, settled: now.Add(-still).UnixNano(), listed: make(map[string]bool)}, nil
}

// scan finds what is gone, and tells how many entries and bytes have changed.
func (c *change) scan(ctx context.Context, root string) (entries int, size int64, err error) {
	seen := make(map[string]bool, len(c.was))
	err = tree.Walk(ctx, root, func(e *tree.Entry) error {
		if !rootfs.Archived(e.Stat.Mode) {
			return nil
		}
		seen[e.Path] = true
		if p, ok := c.was[e.Path]; !ok || p == (footprint{}) || p != footprintOf(&e.Stat) {
			entries, size = entries+1, size+sizeOf(&e.Stat)
		}
		return nil
	})
	for name := range c.was {
		if seen[name] {
			continue
		}
		if dir := path.Dir(name); dir == "." || seen[dir] {
			c.gone = append(c.gone, name)
		}
	}
	slices.Sort(c.gone)
	lost := make(map[string]bool, len(c.gone))
	for _, name := range c.gone {
		lost[name] = true
	}
	for name := range c.was { // what comes back meanwhile is archived
		for at := name; at != "."; at = path.Dir(at) {
			if lost[at] {
				delete(c.was, name)
				break
			}
		}
	}
	return entries + len(c.gone), size, err
}

func sizeOf(st *unix.Stat_t) int64 {
	if st.Mode&unix.S_IFMT == unix.S_IFREG {
		return st.Size
	}
	return 0
}

// changed lists an entry, and tells whether it is archived.
func (c *change) changed(name string, st *unix.Stat_t) bool {
	now := footprintOf(st)
	was, ok := c.was[name]
	if ok {
		c.listed[name] = true
	}
	listed := now
	if st.Ctim.Nano() >= c.settled {
		listed = footprint{}
	}
	c.paths = appendPath(c.paths, name, listed)
	if ok && was == now {
		return false
	}
	c.bytes += sizeOf(st)
	return true
}

// finish lists what went between the two looks at the files: it lies in what is restored until
// the next increment finds it gone.
func (c *change) finish() {
	for name := range c.was {
		if !c.listed[name] {
			c.paths = appendPath(c.paths, name, footprint{})
		}
	}
}

// archive writes what has changed, over archives that come to so much.
func (c *change) archive(ctx context.Context, t Tree, to io.Writer, below indexHead) (entries int, err error) {
	d := rootfs.Delta{Gone: c.gone, Changed: c.changed, Entries: below.Entries, Bytes: below.Bytes}
	entries, err = rootfs.ArchiveDelta(ctx, t.Root, t.IDs, to, d)
	c.finish()
	return entries, err
}
