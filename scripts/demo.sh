#!/usr/bin/env bash
# demo.sh shows Hostler from the first key to a container that heals itself, on
# this machine, with every command as a user types it, and checks each claim:
# it fails when one does not hold.
#
#	scripts/demo.sh         run it (as root, after make build)
#	KEEP=1 scripts/demo.sh  leave everything running and say what to type next
#	scripts/demo.sh clean   take down what such a run left in $DEMO_DIR
#
# Everything lives in $DEMO_DIR, by default a new folder below /tmp.
set -euo pipefail
export LC_ALL=C

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
export PATH="$root/bin:$PATH:/usr/sbin:/sbin"

readonly fleet=demo
readonly patience=15     # seconds that anything may take before the demo fails
readonly ticks=150       # steps of the commands that run through all the kills
readonly round_trips=100 # orders that the closing table is made from

# ---------------------------------------------------------------------------
# Showing, running, checking

begun=$EPOCHREALTIME
code=0 # exit code of the last command that was run

# since prints the seconds since a value of EPOCHREALTIME.
since() { awk -v a="$1" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.1f", b - a }'; }

title() { printf '\n\033[1m== %s\033[0m  (%s s)\n' "$*" "$(since "$begun")"; }
note() { printf '   %s\n' "$*"; }
good() { printf '   ok: %s\n' "$*"; }

fail() {
	printf '\nFAILED: %s\n' "$*" >&2
	printf 'The logs are in %s\n' "$dir" >&2
	exit 1
}

# prompt prints a command line as it would be typed.
prompt() {
	local word line=''
	for word in "$@"; do
		case $word in
		'|' | '&' | '# '*) line+=" $word" ;;
		*[!A-Za-z0-9_./:=,@%+-]* | '') line+=" '${word//\'/\'\\\'\'}'" ;;
		*) line+=" $word" ;;
		esac
	done
	printf '$%s\n' "$line"
}

# run shows a command line and runs it. Its output goes to the screen and to
# $dir/out, its exit code to $code.
run() {
	prompt "$@"
	set +e
	"$@" </dev/null 2>&1 | tee "$dir/out"
	code=${PIPESTATUS[0]}
	set -e
}

# must is run for a command that has to succeed.
must() {
	run "$@"
	[ "$code" -eq 0 ] || fail "$1 exited $code, wanted 0"
}

# exits checks the exit code of the last run.
exits() {
	[ "$code" -eq "$1" ] || fail "exit code $code, wanted $1: $2"
	good "exit code $code: $2"
}

# until_true waits for a command to succeed.
until_true() {
	local what=$1 deadline=$((SECONDS + patience))
	shift
	until "$@" >/dev/null 2>&1; do
		[ "$SECONDS" -lt "$deadline" ] || fail "waited $patience s in vain: $what"
		sleep 0.05
	done
	good "$what"
}

# field prints what the last run said on its line "NAME: value".
field() { sed -nE "s/^$1: *//p" "$dir/out" | head -n 1 | grep . || fail "the output has no line $1: …"; }

# same fails unless both values are equal and not empty.
same() {
	if [ -z "$1" ] || [ "$1" != "$2" ]; then
		fail "$3: '$1' is not '$2'"
	fi
	good "$3: $1"
}

# ---------------------------------------------------------------------------
# What the programs know, asked in one place each

host_field() { hostler host show "$1" -o json | jq -er ".$2"; }
ct_field() { hostler ct show "$1" -o json | jq -er ".$2"; }
action_field() { hostler action show "$1" -o json | jq -er ".$2"; }

host_is() { [ "$(host_field "$1" connectivity)" = "$2" ]; }
host_waits() { hostler host pending -o json | jq -e --arg h "$1" 'any(.host == $h)'; }
ct_is() { [ "$(ct_field "$1" state)" = "$2" ]; }
action_ended() { [[ $(action_field "$1" state) =~ ^(DONE|FAILED|CANCELLED|LOST)$ ]]; }
all_ended() { local id; for id in "$@"; do action_ended "$id" || return; done; }

# agent_get asks an agent on its own socket.
agent_get() { curl -fsS --max-time 5 --unix-socket "$dir/$1/agent.sock" "http://agent$2"; }

# refusals HOST REASON… prints how many messages an agent has refused for one
# of the reasons.
refusals() {
	local host=$1
	shift
	agent_get "$host" /metrics | awk -v reasons="$*" '
		BEGIN { split(reasons, list, " ") }
		/^hostler_agent_messages_refused_total\{/ { for (i in list) if (index($0, "code=\"" list[i] "\"")) n += $NF }
		END { print n + 0 }'
}

coordinator_ready() { curl -fsS --max-time 5 --cacert "$dir/coordinator/ca.crt" "https://127.0.0.1:$http_port/readyz"; }

# connections prints the local ports by which an agent is connected to the
# broker, as the kernel knows them.
connections() {
	ss -Htnp state established "dport = :$mqtt_port" | awk -v pid="pid=$(cat "$dir/$1.pid")," 'index($0, pid) { print $3 }' | sort
}

# ---------------------------------------------------------------------------
# Setting up and taking down

free_port() {
	local port
	while :; do
		port=$((20000 + RANDOM % 10000))
		[ -n "$(ss -Htln "sport = :$port")" ] || break
	done
	echo "$port"
}

free_net() {
	local net
	while :; do
		net=10.$((64 + RANDOM % 128)).$((RANDOM % 256))
		[ -n "$(ip -4 route show root "$net.0/24")" ] || break
	done
	echo "$net.0/24"
}

set_up() {
	local program
	[ "$(id -u)" -eq 0 ] || { echo 'demo: containers and bridges need root' >&2; exit 1; }
	dir=${DEMO_DIR:-$(mktemp -d /tmp/hostler-demo.XXXXXX)}
	mkdir -p "$dir"
	dir=$(cd "$dir" && pwd)
	[ -z "$(ls -A "$dir")" ] || { echo "demo: $dir is not empty; scripts/demo.sh clean takes an old run down" >&2; exit 1; }
	chmod 711 "$dir" # the users of containers pass through
	bridge=hd$((RANDOM % 9000 + 1000))
	echo "$bridge" >"$dir/bridge"
	trap leave EXIT
	trap 'exit 130' INT
	trap 'exit 143' TERM
	for program in hostler hostler-agent hostler-coordinator hostler-run hostler-lxc roundtrip; do
		[ -x "$root/bin/$program" ] || fail "bin/$program is missing: run make build"
	done
	export XDG_CONFIG_HOME=$dir/operator
	mkdir -m 700 "$XDG_CONFIG_HOME"
	http_port=$(free_port)
	mqtt_port=$(free_port)
}

coordinator_config() {
	mkdir -m 700 "$dir/coordinator"
	cat >"$dir/coordinator.toml" <<-END
		state_dir = "$dir/coordinator"

		[http]
		listen = "127.0.0.1:$http_port"

		[mqtt]
		listen = "127.0.0.1:$mqtt_port"
	END
}

# agent_config NAME writes the configuration of an agent with its own state,
# socket and containers; edge-01 has the bridge.
agent_config() {
	mkdir -m 711 "$dir/$1" # the users of its containers pass through
	cat >"$dir/$1.toml" <<-END
		host = "$1"
		state_dir = "$dir/$1"
		socket = "$dir/$1/agent.sock"

		[lxc]
		path = "$dir/$1/lxc"
	END
	[ "$1" = edge-01 ] || return 0
	cat >>"$dir/$1.toml" <<-END

		[network]
		bridge = "$bridge"
		subnet = "$(free_net)"
	END
}

# spawn NAME COMMAND… starts a program that outlives this script.
spawn() {
	local name=$1
	shift
	prompt "$@" '&'
	setsid "$@" </dev/null >>"$dir/$name.log" 2>&1 &
	echo $! >"$dir/$name.pid"
	disown
}

start_coordinator() {
	spawn coordinator hostler-coordinator --config "$dir/coordinator.toml" run
	until_true 'the coordinator answers' coordinator_ready
}

start_agent() {
	spawn "$1" hostler-agent --config "$dir/$1.toml" run
	until_true "the agent of $1 answers" agent_get "$1" /ping
}

# end NAME SIGNAL ends a program that spawn started, and waits for its end.
end() {
	local pid
	pid=$(cat "$dir/$1.pid")
	prompt kill "-$2" "$pid" "# $1"
	kill "-$2" "$pid"
	until_true "$1 is gone" not_running "$pid"
}

# not_running waits for the other threads, too: a killed process whose first thread has ended
# is a zombie, and the rest of it holds its files and locks for a moment.
not_running() {
	[ ! -e "/proc/$1" ] && return
	grep -q '^State:.Z' "/proc/$1/status" && [ "$(find "/proc/$1/task" -mindepth 1 -maxdepth 1 | wc -l)" -le 1 ]
}

# take_down removes whatever a run has left: programs, containers, supervised
# commands, the bridge. It asks nobody's help, as the run may have failed
# anywhere, and goes on over its own failures.
take_down() {
	local file pid name lxc leaf
	set +e
	touch "$dir/enough"
	for file in "$dir"/*.pid; do
		[ -e "$file" ] || continue
		pid=$(cat "$file")
		grep -qsF "$dir" "/proc/$pid/cmdline" && kill -KILL "$pid"
	done
	for lxc in "$dir"/edge-*/lxc; do
		[ -d "$lxc" ] || continue
		for name in $(lxc-ls -P "$lxc" -1); do
			lxc-stop -P "$lxc" -n "$name" -k 2>/dev/null
		done
		# After an agent that was killed, liblxc's daemon would linger.
		lxc-monitor -P "$lxc" -Q 2>/dev/null
	done
	# One jq for the hundreds of commands that a run gives.
	jq -rR 'fromjson? | .leaf // empty' "$dir"/edge-*/runs/*/*/start.json 2>/dev/null | while read -r leaf; do
		[ -d "$leaf" ] && echo 1 >"$leaf/cgroup.kill" 2>/dev/null
	done
	# Supervisors end by themselves when their command has.
	for _ in {1..100}; do
		pgrep -f "$dir/edge-" >/dev/null || break
		sleep 0.05
	done
	pkill -KILL -f "$dir/edge-"
	GNUPGHOME=$dir/gnupg gpgconf --kill all 2>/dev/null
	[ -e "$dir/bridge" ] && ip link delete "$(cat "$dir/bridge")" 2>/dev/null
	set -e
}

nothing_left() {
	local left
	if left=$(pgrep -af "$dir"); then
		echo "FAILED: still running: $left" >&2
		return 1
	fi
	if ip -brief link show "$(cat "$dir/bridge")" 2>/dev/null; then
		echo 'FAILED: the bridge is still there' >&2
		return 1
	fi
}

leave() {
	local status=$?
	trap - EXIT INT TERM
	if [ "$status" -eq 0 ] && [ -n "${KEEP:-}" ]; then
		what_next
		exit 0
	fi
	take_down
	nothing_left || status=1
	[ "$status" -ne 0 ] || printf '\nAll of it held, in %s s. Nothing is left behind.\n' "$(since "$begun")"
	if [ "$status" -eq 0 ] && [ -z "${DEMO_DIR:-}" ]; then
		rm -rf "$dir"
	elif [ "$status" -ne 0 ]; then
		tail -n 5 "$dir"/*.log >&2 2>/dev/null || true
	fi
	exit "$status"
}

what_next() {
	title 'Everything is still running. What to type next:'
	cat <<-END
		export PATH=$root/bin:\$PATH XDG_CONFIG_HOME=$XDG_CONFIG_HOME
		hostler host ls
		hostler run edge-01 -- uname -a
		hostler ct start edge-01/web && hostler exec edge-01/web -- ps
		hostler events --since 1h
		tail -f $dir/*.log
		DEMO_DIR=$dir $root/scripts/demo.sh clean    # the end of it
	END
}

# ---------------------------------------------------------------------------
# 1. From nothing to two approved hosts

step_enrol() {
	local request token
	title '1. A fleet, its coordinator, and two hosts'

	must hostler fleet init "$fleet"
	fleet_code=$(field code)

	coordinator_config
	must hostler-coordinator --config "$dir/coordinator.toml" init --fleet "$fleet_code"
	request=$(field request)
	token=$(field token)
	(umask 077 && echo "$token" >"$dir/token")

	must hostler fleet ring add-coordinator "$request" --out "$dir/ring-2"
	must hostler-coordinator --config "$dir/coordinator.toml" init --ring "$dir/ring-2"
	start_coordinator
	must hostler login "https://127.0.0.1:$http_port" --token-file "$dir/token"

	enrol edge-01
	enrol edge-02
	must hostler host ls
	record
}

# enrol NAME brings a host in.
enrol() {
	local invitation words
	agent_config "$1"
	must hostler host invite --ttl 1h
	invitation=$(awk '/hostler-agent join/ { print $NF; exit }' "$dir/out")
	spawn "$1" hostler-agent --config "$dir/$1.toml" join "$invitation"
	until_true "$1 waits for approval" host_waits "$1"
	words=$(sed -nE 's/^words: *//p' "$dir/$1.log" | head -n 1)
	note "on the host's screen: $words"
	must hostler host pending
	if [ "$(wc -w <<<"$words")" -ne 4 ] || ! grep -qF "$words" "$dir/out"; then
		fail "the words of $1 differ: '$words' is not in the list"
	fi
	good 'the same four words on both sides'
	must hostler host approve "$1" --words "$words"
	until_true "$1 has heard that it is approved" not_running "$(cat "$dir/$1.pid")"
	start_agent "$1"
	until_true "$1 is online" host_is "$1" online
}

# record lets an MQTT client that is not ours write down everything from here
# on, with a certificate that may read and say nothing.
record() {
	must hostler viewer create recorder --out "$dir/viewer"
	mqtt_as_viewer=(--cafile "$dir/viewer/ca.crt" --cert "$dir/viewer/viewer.crt" --key "$dir/viewer/viewer.key" -h 127.0.0.1 -p "$mqtt_port")
	start_recorder
}

# start_recorder is also for later: mosquitto_sub ends when a TLS connection
# breaks, and a broker that restarts breaks it.
start_recorder() {
	local seen
	touch "$dir/recorder.log"
	seen=$(retained)
	spawn recorder mosquitto_sub "${mqtt_as_viewer[@]}" -t "hostler/v1/$fleet/#" -F '%t %p'
	until_true 'mosquitto_sub sees what the broker retains' retained_more "$seen"
}

retained() { grep -c '/presence ' "$dir/recorder.log" || true; }
retained_more() { [ "$(retained)" -gt "$1" ]; }

# ---------------------------------------------------------------------------
# 2. A container

step_container() {
	title '2. A container on a bridge of its own'
	must hostler ct create edge-01/web --template busybox
	must hostler ct start edge-01/web
	must hostler ct ls
	until_true 'it has an address' ct_field edge-01/web 'addresses[0]'
	address=$(ct_field edge-01/web 'addresses[0]')
	must ip -brief address show "$bridge"
	must ping -c 1 -W 2 "$address"
}

# ---------------------------------------------------------------------------
# 3. Commands

step_commands() {
	local slowly begin line total first=''
	title '3. Commands, in the container and on the host'

	# shellcheck disable=SC2016
	slowly=(hostler exec edge-01/web -- sh -c 'for i in 1 2 3; do echo $i; sleep 0.5; done')
	prompt "${slowly[@]}"
	begin=$EPOCHREALTIME
	while read -r line; do
		first=${first:-$(since "$begin")}
		note "$(since "$begin") s: $line"
	done < <("${slowly[@]}" </dev/null)
	total=$(since "$begin")
	awk -v a="${first:-0}" -v b="$total" 'BEGIN { exit !(b - a > 0.8) }' || fail 'the output did not come while the command ran'
	good "the first line came after $first s, the end after $total s"

	must hostler run edge-01 -- uname -sr
	same "$(cat "$dir/out")" "$(uname -sr)" 'the command ran on the host'
	# shellcheck disable=SC2016
	must hostler run edge-01 -- printf '%s\n' 'two  words; $(reboot) "and" `more`'
	# shellcheck disable=SC2016
	same "$(cat "$dir/out")" 'two  words; $(reboot) "and" `more`' 'arguments arrive unchanged'

	run hostler run edge-01 -- sh -c 'exit 7'
	exits 7 'passed through from the host'
	run hostler exec edge-01/web -- sh -c 'exit 9'
	exits 9 'passed through from the container'
	# shellcheck disable=SC2016
	run hostler run edge-01 -- sh -c 'kill -TERM $$'
	exits 143 '128 + SIGTERM'
	# shellcheck disable=SC2016
	run hostler exec edge-01/web -- sh -c 'kill -KILL $$'
	exits 137 '128 + SIGKILL'
	run hostler run edge-01 -- no-such-program
	exits 127 'not found'
}

# ---------------------------------------------------------------------------
# 4. Everything is killed while commands run

# ticker counts aloud and says the time by the machine's own clock, so that a
# pause would be seen. It writes one line about itself to the file $1.
# shellcheck disable=SC2016
readonly ticker='echo "$0" >>"$1"; i=0; while [ $i -lt '$ticks' ]; do i=$((i+1)); read up rest </proc/uptime; echo tick $i $up; sleep 0.1; done'

# between waits until orders go through again, so that none of the kills falls
# into a silence that another one made.
between() { until_true 'orders go through' accepted_more "$(accepted)"; }
accepted() { awk '$2 == 0 { n++ } END { print n + 0 }' "$dir/submitted"; }
accepted_more() { [ "$(accepted)" -ge $(($1 + 5)) ]; }

# submit sends orders until $dir/enough exists: one line "number exit-code id"
# each in $dir/submitted. While the coordinator is away some cannot be sent.
submit() {
	local i=0 id status
	while [ ! -e "$dir/enough" ]; do
		i=$((i + 1))
		status=0
		# shellcheck disable=SC2016
		id=$(hostler run edge-01 --no-wait -- sh -c 'echo "$0" >>"$1"' "$i" "$dir/witness" </dev/null 2>>"$dir/submit.log") || status=$?
		echo "$i $status $id" >>"$dir/submitted"
		sleep 0.1
	done
}

step_kills() {
	local on_host in_ct submitter before
	title '4. Kill everything while commands run and orders are under way'

	must hostler run edge-01 --no-wait -- sh -c "$ticker" on-host "$dir/tickers"
	on_host=$(tail -n 1 "$dir/out")
	must hostler exec edge-01/web --no-wait -- sh -c "$ticker" in-container /tmp/tickers
	in_ct=$(tail -n 1 "$dir/out")
	note "orders go out every 0.1 s from here on: hostler run edge-01 --no-wait -- …"
	touch "$dir/submitted"
	submit &
	submitter=$!
	between

	before=$(connections edge-01)
	[ -n "$before" ] || fail 'the agent has no connection to the broker'
	prompt kill -HUP "$(cat "$dir/coordinator.pid")" '# read the configuration again'
	kill -HUP "$(cat "$dir/coordinator.pid")"
	between
	[ "$(connections edge-01)" = "$before" ] || fail 'the reload cut a connection of edge-01'
	good 'the coordinator has read its configuration again, and cut no connection'

	end edge-01 KILL
	start_agent edge-01
	between

	end coordinator KILL
	start_coordinator
	between

	until_true 'edge-01 is online again' host_is edge-01 online
	same "$(action_field "$on_host" state) $(action_field "$in_ct" state)" 'RUNNING RUNNING' 'both commands still run'
	touch "$dir/enough"
	wait "$submitter"

	until_true 'both commands have ended' all_ended "$on_host" "$in_ct"
	unnoticed "$on_host" 'the command on the host'
	unnoticed "$in_ct" 'the command in the container'
	same "$(cat "$dir/tickers")" on-host 'begun once'
	same "$(hostler exec edge-01/web -- cat /tmp/tickers </dev/null)" in-container 'begun once'
	once
	must hostler action ls --limit 5
}

# unnoticed checks that a ticker ran to its end without a gap.
unnoticed() {
	same "$(action_field "$1" state)" DONE "$2"
	hostler action logs "$1" </dev/null >"$dir/ticks"
	awk -v want="$ticks" '
		$1 == "tick" { n++; if ($2 != n) bad = 1; if (n > 1 && $3 - last > gap) gap = $3 - last; last = $3 }
		END { printf "   %d ticks, the longest pause %.2f s\n", n, gap; exit bad || n != want || gap > 1 }
	' "$dir/ticks" || fail "$2 was disturbed: see $dir/ticks"
}

# once checks the orders that were sent through all of it: each that was
# accepted ran exactly once, and none of the others twice.
once() {
	local ids
	awk '$2 == 0 { print $1 }' "$dir/submitted" | sort >"$dir/accepted"
	mapfile -t ids < <(awk '$2 == 0 { print $3 }' "$dir/submitted")
	until_true "all ${#ids[@]} accepted orders have ended" all_ended "${ids[@]}"
	sort "$dir/witness" >"$dir/ran"
	[ -z "$(uniq -d "$dir/ran")" ] || fail "run twice: $(uniq -d "$dir/ran" | tr '\n' ' ')"
	[ -z "$(comm -23 "$dir/accepted" "$dir/ran")" ] || fail "lost: $(comm -23 "$dir/accepted" "$dir/ran" | tr '\n' ' ')"
	good "$(wc -l <"$dir/submitted") orders sent, ${#ids[@]} accepted: each of these ran exactly once"
}

# ---------------------------------------------------------------------------
# 5. Intended state

init_pid() { lxc-info -P "$dir/edge-01/lxc" -n web -pH; }
is_another() { local pid; pid=$(init_pid) && [ -n "$pid" ] && [ "$pid" != "$1" ]; }

step_intent() {
	local pid
	title '5. A container is kept as it should be'
	pid=$(init_pid)
	must kill -KILL "$pid"
	until_true 'the container was started again by itself' is_another "$pid"
	until_true 'and is known to run' ct_is edge-01/web running
	must ping -c 1 -W 2 "$address"

	must hostler ct stop edge-01/web
	end edge-01 TERM
	start_agent edge-01
	until_true 'edge-01 is online' host_is edge-01 online
	must hostler run edge-01 -- true
	[ "$(lxc-info -P "$dir/edge-01/lxc" -n web -sH)" = STOPPED ] || fail 'the stopped container runs again'
	ct_is edge-01/web stopped || fail "the container is shown as $(ct_field edge-01/web state)"
	good 'stopped by its user, it stays stopped after the agent restarted'
}

# ---------------------------------------------------------------------------
# 6. The wire

topic_of() { echo "hostler/v1/$fleet/host/$1/order"; }
recorded_orders() { sed -n "s,^$(topic_of "$1") ,,p" "$dir/recorder.log"; }
order_recorded_after() { [ "$(recorded_orders "$1" | wc -l)" -gt "$2" ]; }

# publish FILE sends a file to edge-01 as its coordinator would.
publish() {
	must mosquitto_pub --cafile "$dir/viewer/ca.crt" --cert "$dir/coordinator/tls.crt" --key "$dir/coordinator/tls.key" \
		-h 127.0.0.1 -p "$mqtt_port" -t "$(topic_of edge-01)" -f "$1"
}

# refused WHAT FILE REASON… publishes a file and waits until edge-01 counts it
# under one of the reasons.
refused() {
	local what=$1 file=$2 before
	shift 2
	before=$(refusals edge-01 "$@")
	sleep 1.1 # the agent logs one refusal a second
	publish "$file"
	until_true "$what: refused ($*)" refused_more edge-01 "$before" "$@"
	agent_get edge-01 /metrics | grep -E "^hostler_agent_messages_refused_total.*code=\"($(IFS='|'; echo "$*"))\""
	grep refused "$dir/edge-01.log" | tail -n 1 || fail 'the agent has logged no refusal'
}

refused_more() {
	local host=$1 before=$2
	shift 2
	[ "$(refusals "$host" "$@")" -gt "$before" ]
}

step_wire() {
	local seen
	title '6. What travels, and what is refused'
	if not_running "$(cat "$dir/recorder.pid")"; then
		start_recorder
	fi
	note 'since step 1 mosquitto_sub has written down:'
	sed -nE 's,^(hostler/v1/[^ ]*) .*,\1,p' "$dir/recorder.log" | sed -E 's,/(out|in)/.*,/\1/…,' | sort | uniq -c
	grep '^hostler/' "$dir/recorder.log" | tail -n 3 | cut -c -150

	seen=$(recorded_orders edge-01 | wc -l)
	# shellcheck disable=SC2016
	must hostler run edge-01 -- sh -c 'echo "$0" >>"$1"' replay "$dir/witness-2"
	until_true 'the order was recorded' order_recorded_after edge-01 "$seen"
	recorded_orders edge-01 | tail -n 1 | tr -d '\n' >"$dir/order"
	verify_with_gpg "$dir/order"

	recorded_orders edge-01 | sed -n 1p | tr -d '\n' >"$dir/replayed"
	refused 'replayed, from before the agent restarted' "$dir/replayed" heard stale
	publish "$dir/order"

	sed -E 's/("item":")e/\1f/' "$dir/order" >"$dir/forged"
	if cmp -s "$dir/order" "$dir/forged"; then
		fail 'the order has no item to forge'
	fi
	refused 'forged, one byte of the body changed' "$dir/forged" signature

	seen=$(recorded_orders edge-02 | wc -l)
	must hostler run edge-02 -- true
	until_true 'an order for edge-02 was recorded' order_recorded_after edge-02 "$seen"
	recorded_orders edge-02 | tail -n 1 | tr -d '\n' >"$dir/misaddressed"
	refused 'misaddressed' "$dir/misaddressed" to

	seen=$(recorded_orders edge-02 | wc -l)
	run mosquitto_pub "${mqtt_as_viewer[@]}" -q 1 -t "$(topic_of edge-02)" -f "$dir/order"
	must hostler run edge-01 -- true
	same "$(recorded_orders edge-02 | wc -l)" "$seen" 'a viewer may say nothing; orders for edge-02 seen'
	same "$(cat "$dir/witness-2")" replay 'after all of it the order has run once'
}

# verify_with_gpg checks one message with the gpg that Debian ships, by cutting
# it at the fixed parts of the envelope.
verify_with_gpg() {
	export GNUPGHOME=$dir/gnupg
	mkdir -m 700 "$GNUPGHOME"
	# shellcheck disable=SC2016
	note 'the coordinator'\''s key, from the ring:'
	prompt hostler fleet ring show -o json '|' jq -r '.coordinators[0].key' '|' base64 -d '|' gpg --import
	hostler fleet ring show -o json | jq -er '.coordinators[0].key' | base64 -d | gpg --batch --quiet --import
	cat <<-'END'
		$ e='^\{"v":1,"key":"[0-9A-F]{40}","sig":"([A-Za-z0-9+/=]+)","body":(\{.*\})\}$'
		$ gpg --ignore-time-conflict --verify <(sed -nE "s|$e|\1|p" order | base64 -d) <(sed -nE "s|$e|\2|p" order | tr -d '\n')
	END
	local e='^\{"v":1,"key":"[0-9A-F]{40}","sig":"([A-Za-z0-9+/=]+)","body":(\{.*\})\}$'
	gpg --batch --ignore-time-conflict --verify <(sed -nE "s|$e|\1|p" "$1" | base64 -d) <(sed -nE "s|$e|\2|p" "$1" | tr -d '\n') ||
		fail 'gpg does not verify the order'
	good 'gpg verifies the order'
	gpgconf --kill all
}

# ---------------------------------------------------------------------------
# 7. People, many hosts, files, terminals, backups

action_id() { grep -oE '[0-9a-f]{8}-[0-9a-f-]{27}' "$dir/out" | head -n 1 | grep . || fail 'no id of an action was printed'; }
runs_here() { pgrep -f "$1" >/dev/null; }
sum_of() { sha256sum <"$1" | cut -d ' ' -f 1; }

step_people() {
	title '7. Nothing happens on edge-02 until alice has signed for it'
	must hostler key generate alice --no-passphrase
	must hostler fleet ring add-approver alice alice --out "$dir/ring-3"
	must hostler fleet ring publish
	cat >"$dir/policy.toml" <<-END
		version = 1
		[labels]
		guarded = ["edge-02"]
		[[rule]]
		kinds = ["*"]
		labels = ["guarded"]
		approvals = 1
		by = ["alice"]
	END
	must hostler policy sign "$dir/policy.toml" --number 1 --yes
	must hostler policy set "$dir/policy.toml" edge-02
	must hostler run edge-02 --no-wait -- touch "$dir/approved"
	local id
	id=$(action_id)
	must hostler action ls --pending
	[ ! -e "$dir/approved" ] || fail 'it ran without an approval'
	must hostler action approve "$id" --yes
	until_true 'it ran once she had signed' test -e "$dir/approved"
}

step_many() {
	local id blob=$dir/blob rootfs=$dir/edge-01/lxc/web/rootfs
	title '8. Many hosts, files, terminals, and a copy of it all'
	must hostler run -A --no-wait -- true
	[ "$(grep -c '^edge-0[12] ' "$dir/out")" -eq 2 ] || fail 'not both hosts were asked'
	good 'one request for all hosts; on edge-02 it waits for alice'
	dd if=/dev/urandom of="$blob" bs=1M count=8 status=none
	must hostler push "$blob" edge-01/web:/root/blob
	same "$(sum_of "$rootfs/root/blob")" "$(sum_of "$blob")" 'sha256sum, in the container'
	mkdir "$dir/back"
	must hostler pull edge-01/web:/root/blob "$dir/back"
	same "$(sum_of "$dir/back/blob")" "$(sum_of "$blob")" 'sha256sum, fetched back'
	must hostler run edge-01 --stdin "$blob" -- sha256sum
	same "$(cut -d ' ' -f 1 "$dir/out")" "$(sum_of "$blob")" 'sha256sum, read by a command'

	must hostler run edge-01 --no-wait -- sh -c "setsid sleep 98765.$$ & sleep 98765.$$"
	id=$(action_id)
	until_true 'pgrep sees it' runs_here "sleep 98765.$$"
	must hostler action cancel "$id"
	if runs_here "^sleep 98765.$$"; then
		fail 'cancelled, and something of it still runs'
	fi
	good 'cancelled, and pgrep sees nothing of it, not even what had a session of its own'

	must script -qec 'hostler run -t edge-01 -- tty' /dev/null
	grep -q '^/dev/pts/' "$dir/out" || fail 'the command had no terminal'
	good 'script(1) had a terminal of the host'

	must hostler-coordinator --config "$dir/coordinator.toml" backup "$dir"
	sed "s,^state_dir.*,state_dir = \"$dir/restored\"," "$dir/coordinator.toml" >"$dir/restored.toml"
	must hostler-coordinator --config "$dir/restored.toml" restore "$dir"/*.backup --fleet "$fleet_code"
	must cmp "$dir/coordinator/identity.pgp" "$dir/restored/identity.pgp"
	run timeout 5 hostler-coordinator --config "$dir/restored.toml" run
	[ "$code" -ne 0 ] && [ "$code" -ne 124 ] || fail 'a restored copy began to serve beside the first'
	good 'a restored copy serves nobody until an owner has let it in'
}

# ---------------------------------------------------------------------------
# 9. Figures

rss() { awk '/^VmRSS:/ { printf "%.1f MiB", $2 / 1024 }' "/proc/$(cat "$dir/$1.pid")/status"; }

step_figures() {
	title '9. Figures'
	must roundtrip -url "https://127.0.0.1:$http_port" -ca "$dir/coordinator/ca.crt" -token-file "$dir/token" -host edge-01 -n "$round_trips"
	printf '   %-36s %s\n' \
		"order round trip, p50 of $round_trips" "$(field p50)" \
		"order round trip, p99" "$(field p99)" \
		'agent, resident memory' "$(rss edge-01)" \
		'coordinator with broker and store' "$(rss coordinator)" \
		'the whole demo' "$(since "$begun") s"
}

main() {
	set_up
	note "everything is in $dir"
	step_enrol
	step_container
	step_commands
	step_kills
	step_intent
	step_wire
	step_people
	step_many
	step_figures
	if [ -z "${KEEP:-}" ]; then
		title 'Cleaning up'
		must hostler ct rm edge-01/web --yes
	fi
}

case ${1:-} in
'') main ;;
clean)
	dir=${DEMO_DIR:?says which run to take down}
	[ -e "$dir/bridge" ] || { echo "demo: $dir holds no run of the demo" >&2; exit 1; }
	take_down
	rm -rf "$dir"
	;;
*)
	echo 'usage: scripts/demo.sh [clean]' >&2
	exit 2
	;;
esac
