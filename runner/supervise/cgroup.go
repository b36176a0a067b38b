package supervise

import (
	"bytes"
	"errors"
	"path"
	"strconv"
	"strings"

	"github.com/hostler-io/hostler/runner/rundir"
)

// FindCgroup2 returns the absolute path of the cgroup2 directory in which the
// process pid is, "" when this machine mounts no cgroup2 tree or the process is
// outside of what we see of it.
func FindCgroup2(pid int) (string, error) {
	mounts, err := rundir.ReadCapped("/proc/self/mountinfo", 16<<20)
	if err != nil {
		return "", err
	}
	mount, root := cgroup2Mount(mounts)
	if mount == "" {
		return "", nil
	}
	b, err := rundir.ReadCapped("/proc/"+strconv.Itoa(pid)+"/cgroup", 64<<10)
	if err != nil {
		return "", err
	}
	for line := range bytes.Lines(b) {
		p, ok := strings.CutPrefix(strings.TrimSuffix(string(line), "\n"), "0::/")
		if !ok {
			continue
		}
		rest, ok := below("/"+p, root)
		if !ok {
			return "", nil
		}
		return path.Join(mount, rest), nil
	}
	return "", errors.New("no cgroup2 line in /proc/" + strconv.Itoa(pid) + "/cgroup")
}

// below returns p relative to root, and whether it lies there.
func below(p, root string) (string, bool) {
	if strings.Contains(p+"/", "/../") {
		return "", false
	}
	if root == "/" {
		return p, true
	}
	rest, ok := strings.CutPrefix(p, root)
	return rest, ok && (rest == "" || rest[0] == '/')
}

// cgroup2Mount finds where the cgroup2 tree is mounted, and which part of it.
func cgroup2Mount(mountinfo []byte) (mount, root string) {
	for line := range bytes.Lines(mountinfo) {
		// 36 35 98:0 /root /mount options optional-fields - type source options
		before, after, ok := strings.Cut(string(line), " - ")
		f := strings.Fields(before)
		if ok && len(f) >= 5 && strings.HasPrefix(after, "cgroup2 ") {
			return unescape(f[4]), unescape(f[3])
		}
	}
	return "", ""
}

// unescape decodes the octal escapes of mountinfo (space, tab, newline, backslash).
func unescape(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}

// counter returns the value of the line "name value" of a cgroup file.
func counter(b []byte, name string) int64 {
	for line := range bytes.Lines(b) {
		key, value, _ := strings.Cut(strings.TrimSpace(string(line)), " ")
		if key == name {
			n, _ := strconv.ParseInt(value, 10, 64)
			return n
		}
	}
	return 0
}
