#!/usr/bin/env bash
# Lists the packages with tests that need no built program:
#
#   packages.sh pure         those that start no goroutine and hold no lock
#   packages.sh shared       the others
#   packages.sh with NAME…   those that have a test of one of the names
#
# The rules of the tree are left out: `make check` runs them.
set -euo pipefail
cd "$(dirname "$0")/.."

tested() { git ls-files -co --exclude-standard '*_test.go' ':(exclude,glob)**/testdata/**' ':(exclude,glob)integration/*_test.go' ':!internal/rules' ':!packaging' | folders; }
folders() { sed 's,/[^/]*$,,; s,^,./,' | LC_ALL=C sort -u; }
sharing() { git grep --untracked -lE '^\s*go (func|[a-zA-Z.]+\()|\.Go\(func|"sync"|"sync/|errgroup' -- '*.go' | folders; }

case "${1-}" in
pure) LC_ALL=C comm -23 <(tested) <(sharing) ;;
shared) LC_ALL=C comm -12 <(tested) <(sharing) ;;
with)
	shift
	names=$(IFS='|' && echo "$*")
	git grep --untracked -lE "^func ($names)\(" -- '*_test.go' ':(exclude,glob)**/testdata/**' ':(exclude,glob)integration/*_test.go' | folders
	;;
*) sed -n '2,/^set/{/^#/p}' "$0" >&2 && exit 2 ;;
esac
