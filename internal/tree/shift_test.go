package tree_test

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/hostler-io/hostler/internal/tree"
)

// TestShift: in the copy, what the users of one range owned is that of another range, by
// owner, by access list and by the root of a capability; what is outside of it stays.
func TestShift(t *testing.T) {
	from, to := t.TempDir(), filepath.Join(t.TempDir(), "to")
	file := filepath.Join(from, "f")
	must(t, os.WriteFile(file, nil, 0o755), os.WriteFile(filepath.Join(from, "theirs"), nil, 0o600))
	must(t, os.Lchown(file, 1007, 1065), unix.Chmod(file, 0o4755), os.Lchown(filepath.Join(from, "theirs"), 5, 1100))
	le := binary.LittleEndian
	acl := le.AppendUint32(nil, 2)
	for _, e := range [][3]uint32{{1, 7, ^uint32(0)}, {2, 7, 1010}, {4, 5, ^uint32(0)}, {8, 5, 1011}, {16, 7, ^uint32(0)}, {32, 5, ^uint32(0)}} {
		acl = le.AppendUint32(le.AppendUint16(le.AppendUint16(acl, uint16(e[0])), uint16(e[1])), e[2])
	}
	capability := le.AppendUint32(nil, 0x03000001)
	capability = append(capability, make([]byte, 16)...)
	capability[5] = 4
	capability = le.AppendUint32(capability, 1000)
	hasACL := unix.Lsetxattr(file, "system.posix_acl_access", acl, 0) == nil // not every file system has them
	must(t, unix.Lsetxattr(file, "security.capability", capability, 0))
	_, err := tree.Copy(t.Context(), from, to, 0, tree.Shift{From: 1000, To: 5000, Count: 100})
	must(t, err)
	var st unix.Stat_t
	must(t, unix.Lstat(filepath.Join(to, "f"), &st))
	if st.Uid != 5007 || st.Gid != 5065 || st.Mode&0o7000 != 0o4000 {
		t.Errorf("it is of %d:%d, with mode %o", st.Uid, st.Gid, st.Mode)
	}
	b := make([]byte, 256)
	n, err := unix.Lgetxattr(filepath.Join(to, "f"), "security.capability", b)
	must(t, err)
	if n != 24 || le.Uint32(b[20:]) != 5000 {
		t.Errorf("the capability is %x", b[:n])
	}
	if n, err := unix.Lgetxattr(filepath.Join(to, "f"), "system.posix_acl_access", b); hasACL && (err != nil || n != len(acl) || le.Uint32(b[16:]) != 5010 || le.Uint32(b[32:]) != 5011) {
		t.Errorf("the access list is %x, %v", b[:n], err)
	}
	must(t, unix.Lstat(filepath.Join(to, "theirs"), &st))
	if st.Uid != 5 || st.Gid != 1100 {
		t.Errorf("what is outside is of %d:%d", st.Uid, st.Gid)
	}
}
