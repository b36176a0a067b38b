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
	all, err := cgroups(strconv.Itoa(pid), func(controllers string) bool { return slices.Contains(strings.Split(controllers, ","), controller) })
	for _, dir := range all {
		return dir, err
	}
	return "", err
}

// Cgroups returns the directories in which a process ("self" is this one) is in all
// hierarchies of which we see them, by their controllers; "" is the cgroup2 tree.
func Cgroups(pid string) (map[string]string, error) {
	return cgroups(pid, func(string) bool { return true })
}

func cgroups(pid string, wanted func(controllers string) bool) (map[string]string, error) {
	mounts, err := rundir.ReadCapped("/proc/self/mountinfo", 16<<20)
	if err != nil {
		return nil, err
	}
	b, err := rundir.ReadCapped("/proc/"+pid+"/cgroup", 64<<10)
	if err != nil {
		return nil, err
	}
	return parseCgroups(b, cgroupMounts(mounts), wanted), nil
}

// cgroupMounts returns the lines of mountinfo that may be of control groups. A host has many
// others, and each hierarchy looks through all lines.
func cgroupMounts(mountinfo []byte) (lines []byte) {
	for line := range bytes.Lines(mountinfo) {
		if bytes.Contains(line, []byte(" - cgroup")) {
			lines = append(lines, line...)
		}
	}
	return lines
}

func parseCgroups(membership, mounts []byte, wanted func(controllers string) bool) map[string]string {
	all := map[string]string{}
	for line := range bytes.Lines(membership) {
		// hierarchy:controller,controller:path, and 0::path in the cgroup2 tree.
		f := strings.SplitN(strings.TrimSuffix(string(line), "\n"), ":", 3)
		if len(f) != 3 || !wanted(f[1]) {
			continue
		}
		if dir := cgroupPath(mounts, f[1], f[2]); dir != "" {
			all[f[1]] = dir
		}
	}
	return all
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
// hierarchy of controllers, is to be seen; "" if no mount shows it. Inside of a
// container, or of a node of hostler dev, the list may still have mounts of the
// machine, which show what is outside: they show the directory no more, or are
// covered by a later mount in the same place.
func cgroupPath(mountinfo []byte, controllers, dir string) (found string) {
	var place string
	for line := range bytes.Lines(mountinfo) {
		// 36 35 98:0 /root /mount options optional-fields - type source options
		before, after, _ := strings.Cut(string(line), " - ")
		f, fs := strings.Fields(before), strings.Fields(after)
		if len(f) < 5 || len(fs) < 3 {
			continue
		}
		if controllers == "" && fs[0] != "cgroup2" || controllers != "" && (fs[0] != "cgroup" || !hasAll(fs[2], controllers)) {
			continue
		}
		if rest, ok := below(dir, unescape(f[3])); ok && (found == "" || f[4] == place) {
			found, place = path.Join(unescape(f[4]), rest), f[4]
		}
	}
	return found
}

// hasAll reports whether a list has all words of another.
func hasAll(list, words string) bool {
	for w := range strings.SplitSeq(words, ",") {
		if !slices.Contains(strings.Split(list, ","), w) {
			return false
		}
	}
	return true
}

// unescape decodes the octal escapes of mountinfo (space, tab, newline, backslash).
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}
