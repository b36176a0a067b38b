package mount_test

import (
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/hostler-io/hostler/protocol/mount"
)

func TestParse(t *testing.T) {
	all, err := mount.Parse([]string{"data:/srv/data", "logs:/var/log:rw"}, []string{"/etc/app:/srv:ro"})
	volumes, hosts := mount.Split(all)
	if err != nil || !slices.Equal(volumes, []string{"data:/srv/data", "logs:/var/log"}) || !slices.Equal(hosts, []string{"/etc/app:/srv:ro"}) || all[0].Source != "/etc/app" {
		t.Errorf("%v and %v of %v, %v", volumes, hosts, all, err)
	}
	for _, bad := range [][2]string{
		{"data", ""}, {"data:srv", ""}, {"data:/", ""}, {"data:/srv/..", ""}, {"data:/srv/", ""}, {"data:/a b", ""}, {"data:/a\\040b", ""}, {"data:/a\nlxc.hook.start=x", ""}, {"data:/a\x00", ""},
		{"Data:/srv", ""}, {"../x:/srv", ""}, {"-x:/srv", ""}, {"/etc:/srv", ""}, {"data:/srv:rox", ""}, {"data:/srv:ro:ro", ""}, {"data:/proc/sys", ""}, {"data:/dev", ""},
		{"", "etc:/srv"}, {"", "/etc/../root:/srv"}, {"", "/:/srv"}, {"", "/etc,ro:/srv"}, {"data:/srv", "/etc:/srv"}, {"data:/" + strings.Repeat("x", 600), ""},
	} {
		var lists [2][]string
		for i, text := range bad {
			if text != "" {
				lists[i] = []string{text}
			}
		}
		if all, err := mount.Parse(lists[0], lists[1]); err == nil {
			t.Errorf("%q is taken as %v", bad, all)
		}
	}
	if _, err := mount.Parse([]string{"data:/a", "data:/b"}, nil); err == nil {
		t.Error("a volume is mounted twice")
	}
	if _, err := mount.Parse(nil, slices.Repeat([]string{"/a:/b"}, mount.Max+1)); err == nil {
		t.Error("too many are taken")
	}
}

// FuzzParse: what is taken is written as it was read, and names nothing outside.
func FuzzParse(f *testing.F) {
	f.Add("data:/srv", "/etc:/host:ro")
	f.Add("a:/b:ro", "/a/b:/c/d:rw")
	f.Add("a:/..", "/..:/x")
	f.Fuzz(func(t *testing.T, volume, host string) {
		all, err := mount.Parse([]string{volume}, []string{host})
		if err != nil {
			return
		}
		again, err := mount.Parse(mount.Split(all))
		if err != nil || !slices.Equal(all, again) {
			t.Errorf("%q and %q are read as %v, and that as %v, %v", volume, host, all, again, err)
		}
		for _, m := range all {
			if !path.IsAbs(m.Path) || path.Clean(m.Path) != m.Path || m.Volume == "" && path.Clean(m.Source) != m.Source || strings.ContainsAny(m.String(), " \n\t\x00\\") {
				t.Errorf("%q and %q are read as %v", volume, host, all)
			}
		}
	})
}
