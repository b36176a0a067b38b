package main

import "testing"

func TestHostOf(t *testing.T) {
	const proc = "55 40 0:50 / /proc rw - proc proc rw\n"
	for mounts, want := range map[string]string{
		proc + "40 30 8:1 /tmp/hi-1/edge-02/lxc/u1/rootfs / rw shared:1 - ext4 /dev/vda rw\n":            "edge-02",
		proc + "40 30 0:9 / / rw - overlay overlay rw,upperdir=/tmp/hi-1/edge-03/lxc/u1/overlay/delta\n": "edge-03",
		proc: "",
		"40 30 8:1 / / rw - ext4 /dev/vda rw\n55 40 0:50 /x/edge-01/lxc/u1 /srv rw - proc proc rw\n": "",
	} {
		if got, err := hostOf(mounts); got != want || (err == nil) != (want != "") {
			t.Errorf("of %q it finds %q, %v, want %q", mounts, got, err, want)
		}
	}
}
