#!/usr/bin/env bash
# Machines with a Debian and a real systemd as PID 1, in LXC containers of this machine:
#
#   systemd.sh base DIR [PACKAGE…]          make a root, by debootstrap, unless DIR has one:
#                                           of Debian 12, or of the release $SUITE of
#                                           Debian or Ubuntu
#   systemd.sh up BASE DIR NAME [BRIDGE IP/BITS]   copy the root to DIR/NAME and boot it
#   systemd.sh run DIR NAME -- COMMAND…     run a command in it
#   systemd.sh down DIR NAME                stop it and remove it
#
# A machine has the network of BRIDGE, which is made if it is missing, or none.
set -euo pipefail
verb=$1
shift
case $verb in
base)
	dir=$1
	shift
	[ -e "$dir/whole" ] && exit
	rm -rf "$dir"
	mkdir -p "$dir"
	mirror=$(awk '/^URIs:/{print $2; exit}' /etc/apt/sources.list.d/debian.sources 2>/dev/null || true)
	include=systemd,systemd-sysv,dbus,iproute2
	for p in "$@"; do include+=,$p; done
	options=() how=()
	case ${SUITE:-} in
	jammy | noble)
		# Debian has no package with the keys of Ubuntu. Ubuntu's own is taken if it is this one.
		mirror=http://archive.ubuntu.com/ubuntu
		curl -fsS -o "$dir/keys.deb" "$mirror/pool/main/u/ubuntu-keyring/ubuntu-keyring_2021.03.26_all.deb"
		echo "0d0e7ed6b112f5d03eabf3c7eb01ebdacf9c57714b279e90495cfc58c8c4520f  $dir/keys.deb" | sha256sum --check --quiet
		dpkg-deb -x "$dir/keys.deb" "$dir/keys"
		options=(--components=main,universe --keyring="$dir/keys/usr/share/keyrings/ubuntu-archive-keyring.gpg")
		how=(/usr/share/debootstrap/scripts/gutsy) # that of all releases of Ubuntu since
		;;
	esac
	debootstrap --variant=minbase --include="$include" "${options[@]}" "${SUITE:-bookworm}" "$dir/root" "${mirror:-http://deb.debian.org/debian}" "${how[@]}" >"$dir/log" 2>&1 || {
		tail "$dir/log" >&2
		exit 1
	}
	# What apt could fetch is not there: these machines have no way to the world.
	rm -rf "$dir"/root/var/lib/apt/lists/* "$dir"/root/var/cache/apt/*.bin
	touch "$dir/whole"
	;;
up)
	base=$1 dir=$(mkdir -p "$2" && cd "$2" && pwd) name=$3 bridge=${4-} address=${5-}
	mkdir -p "$dir/$name"
	cp -a --reflink=auto "$base/root" "$dir/$name/root"
	echo "$name" >"$dir/$name/root/etc/hostname"
	net="lxc.net.0.type = empty"
	if [ -n "$bridge" ]; then
		ip link show "$bridge" >/dev/null 2>&1 || { ip link add "$bridge" type bridge && ip link set "$bridge" up; }
		net="lxc.net.0.type = veth
lxc.net.0.link = $bridge
lxc.net.0.name = eth0
lxc.net.0.flags = up
lxc.net.0.ipv4.address = $address"
	fi
	cat >"$dir/$name/config" <<-CONF
		lxc.uts.name = $name
		lxc.rootfs.path = dir:$dir/$name/root
		lxc.mount.auto = proc:rw sys:rw cgroup:rw
		lxc.pty.max = 64
		lxc.apparmor.profile = unconfined
		lxc.cap.drop =
		lxc.init.cmd = /sbin/init systemd.unified_cgroup_hierarchy=0 SYSTEMD_CGROUP_ENABLE_LEGACY_FORCE=1
		$net
	CONF
	lxc-start -P "$dir" -n "$name" -d
	# systemctl waits by itself, once there is a systemd to ask.
	until state=$(lxc-attach -P "$dir" -n "$name" -- systemctl is-system-running --wait 2>/dev/null) || [ "$state" = degraded ]; do
		[ "$(lxc-info -P "$dir" -n "$name" -sH)" = RUNNING ] || { echo "$name did not boot" >&2 && exit 1; }
	done
	# For containers in it: systemd mounts some controllers of cgroups in pairs only, and
	# where this machine has them one by one liblxc would not find them; and the kernel
	# lets a user namespace mount proc only beside one in which nothing is hidden.
	lxc-attach -P "$dir" -n "$name" -- bash -c '
		mkdir -p /run/whole/proc /run/whole/sys
		mount -t proc proc /run/whole/proc && mount -t sysfs sysfs /run/whole/sys
		mount -o remount,rw /sys/fs/cgroup
		for c in $(awk -F: "\$2 != \"\" && \$2 !~ /=|,/ {print \$2}" /proc/self/cgroup); do
			grep -q " /sys/fs/cgroup/$c " /proc/self/mountinfo && continue
			rm -f "/sys/fs/cgroup/$c" && mkdir "/sys/fs/cgroup/$c" && mount -t cgroup -o "$c" cgroup "/sys/fs/cgroup/$c"
		done'
	;;
run)
	dir=$1 name=$2
	shift 3
	exec lxc-attach -P "$dir" -n "$name" --clear-env -v PATH=/usr/sbin:/usr/bin:/sbin:/bin -v HOME=/root -- "$@"
	;;
down)
	lxc-stop -P "$1" -n "$2" -k || true
	rm -rf --one-file-system "${1:?}/$2"
	;;
*) sed -n '2,/^set/{/^#/p}' "$0" >&2 && exit 2 ;;
esac
