#!/usr/bin/env bash
# Puts liblxc of Debian for arm64 into a directory, for the cross compiler:
#
#   arm64-sysroot.sh DIR
#
# This machine stays as it is: apt gets lists and a memory of its own in DIR. A
# directory that is whole is left alone.
set -euo pipefail
dir=$(mkdir -p "$1" && cd "$1" && pwd)
[ -e "$dir/whole" ] && exit
mkdir -p "$dir/lists/partial" "$dir/cache/archives/partial" "$dir/root"
apt() {
	apt-get -q -o APT::Architecture=arm64 -o APT::Architectures::=arm64 -o Dir::State::lists="$dir/lists" \
		-o Dir::Cache="$dir/cache" -o Dir::State::status=/dev/null -o APT::Sandbox::User=root -o Acquire::Retries=3 "$@" </dev/null
}
apt update
(cd "$dir" && apt download liblxc1 lxc-dev)
for deb in "$dir"/*.deb; do dpkg-deb -x "$deb" "$dir/root"; done
# What liblxc itself is linked with is looked for where it runs.
sed -i '/^Requires.private/d' "$dir/root/usr/lib/aarch64-linux-gnu/pkgconfig/lxc.pc"
touch "$dir/whole"
