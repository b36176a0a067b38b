package supervise

import (
	"bytes"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/hostler-io/hostler/runner/rundir"
)

// FindCgroup2 returns the absolute path of the cgroup2 directory in which the
// process pid is, "" when this machine mounts no cgroup2 tree or the process is
// outside of what we see of it.
func FindCgroup2(pid int) (string, error) { return findCgroup(pid, "") }

// findCgroup does it for the version 1 hierarchy of a controller too.
func findCgroup(pid int, controller string) (string, error) {
	mounts, err := rundir.ReadCapped("/proc/self/mountinfo", 16<<20)
	if err != nil {
		return "", err
	}
	b, err := rundir.ReadCapped("/proc/"+strconv.Itoa(pid)+"/cgroup", 64<<10)
	if err != nil {
		return "", err
	}
	for line := range bytes.Lines(b) {
		// hierarchy:controller,controller:path, and 0::path in the cgroup2 tree.
		f := strings.SplitN(strings.TrimSuffix(string(line), "\n"), ":", 3)
		if len(f) == 3 && slices.Contains(strings.Split(f[1], ","), controller) && (controller != "" || f[0] == "0") {
			return cgroupPath(mounts, controller, f[2]), nil
		}
	}
	return "", nil
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

// cgroupPath finds where a directory of the cgroup2 tree, or of the version 1
// hierarchy of a controller, is to be seen; "" if no mount shows it. Inside of a
// container, or of a node of hostler dev, the list may still have mounts of the
// machine, which show what is outside: they show the directory no more, or are
// covered by a later mount in the same place.
func cgroupPath(mountinfo []byte, controller, dir string) (found string) {
	var place string
	for line := range bytes.Lines(mountinfo) {
		// 36 35 98:0 /root /mount options optional-fields - type source options
		before, after, _ := strings.Cut(string(line), " - ")
		f, fs := strings.Fields(before), strings.Fields(after)
		if len(f) < 5 || len(fs) < 3 {
			continue
		}
		if controller == "" && fs[0] != "cgroup2" ||
			controller != "" && (fs[0] != "cgroup" || !slices.Contains(strings.Split(fs[2], ","), controller)) {
			continue
		}
		if rest, ok := below(dir, unescape(f[3])); ok && (found == "" || f[4] == place) {
			found, place = path.Join(unescape(f[4]), rest), f[4]
		}
	}
	return found
}

// unescape decodes the octal escapes of mountinfo (space, tab, newline, backslash).
func unescape(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}
