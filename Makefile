# Thin names for the commands that developers, the demo and CI share.
# `make help` lists them.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.NOTPARALLEL:

export LC_ALL := C
export PATH := $(PATH):/usr/local/go/bin
# Programs and tests are compiled with the same flags, and independently of the folder of
# the clone: each compiles a package once, and a fresh clone finds it in the cache. What
# the caller's GOFLAGS say comes behind, so that it counts.
override GOFLAGS := $(strip -trimpath $(filter-out -trimpath,$(GOFLAGS)))
export GOFLAGS

# T is how long each fuzz target runs.
T ?= 10s
# N is how many schedules of faults are played; SEED is the first of them.
N ?= 1000
SEED ?= 1
# FOR is how long the built programs are under fire.
FOR ?= 5m
# ARCH are the architectures of packages, with commas between them.
ARCH ?= amd64,arm64
# Tests of the built programs find them here.
export HOSTLER_BIN := $(CURDIR)/bin

# The commit of the release that hosts run until this one, to be raised with each
# release: programs of both work together, and one follows the other.
export HOSTLER_PREVIOUS := bcda26a

TAGS := integration,heavy

# The race detector looks at what is ours. SQLite is C turned into Go: it takes four
# times as long under it, and shares no memory of ours between goroutines.
RACE := -race $(addprefix -gcflags=,$(addsuffix =-race=false,modernc.org/sqlite/lib modernc.org/libc/... modernc.org/memory))
# What has nothing to race with goes without it: packages that start no goroutine,
# and tests of many small steps that one goroutine takes. The detector of Go 1.26 itself
# crashes now and then under the timers of TestTwiceAndShuffled, which nightly runs with it.
SINGLE := TestOneBit TestStepsByChance TestTwiceAndShuffled
# What holds programs to times runs alone, one test after the other.
QUIET := TestRevocation TestKills TestHostileTransport TestNetworkChaos TestDevUp TestSessionIsHungUp

# The regular expression of tests that are named.
empty :=
exactly = ^($(subst $(empty) $(empty),|,$(strip $(1))))$$
PURE := hostler hostler-agent hostler-coordinator hostler-run
# Check has vetted all tests.
TEST := go test -vet=off -count=1
BUILD := go build -ldflags '-s -w'

.PHONY: help deps build testbuild package packages minutes demo test nightly check unit race integration quiet crash clocks heavy chaos fuzz vectors bench strictbench gobench clean

help: ## List the targets
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

deps: ## Install the Debian packages that are missing; say what else is
	@bash packaging/deps

build: ## Build all programs into bin/
	CGO_ENABLED=0 $(BUILD) -o bin/ $(addprefix ./cmd/,$(PURE)) ./integration/cmd/roundtrip
	CGO_ENABLED=1 $(BUILD) -o bin/ ./cmd/hostler-lxc
	cd integration/s3server && CGO_ENABLED=0 $(BUILD) -o ../../bin/s3server github.com/versity/versitygw/cmd/versitygw

# The programs of the suites that kill at failpoints and set clocks. They are
# never installed anywhere.
testbuild: ## Build all programs with failpoints into bin/test/
	CGO_ENABLED=0 $(BUILD) -tags hostlertest -o bin/test/ $(addprefix ./cmd/,$(PURE)) ./integration/cmd/pulse
	CGO_ENABLED=1 $(BUILD) -tags hostlertest -o bin/test/ ./cmd/hostler-lxc

package: ## Build deb and rpm packages into dist/ (ARCH=amd64,arm64); KEY=NAME signs their sums
	cd packaging && go run . -out ../dist -arch $(ARCH)
	$(if $(KEY),go run ./cmd/hostler key sign dist/SHA256SUMS --key $(KEY))

packages: ## Build the packages for amd64 and look at them
	$(MAKE) package ARCH=amd64
	cd packaging && go test -count=1 .

minutes: packages ## Type what README.md has a person type first, and the tutorial, on two bare machines with systemd
	cd packaging && go test -tags heavy -count=1 -timeout 15m -run '^(TestFirstTenMinutes|TestTutorial)$$' -v .

demo: deps build ## Show the whole of it on this machine (KEEP=1 leaves it running)
	@bash scripts/demo.sh

test: deps build check packages minutes unit race integration quiet clocks crash demo ## Everything that CI runs

nightly: deps build heavy chaos ## What takes hours: heavy, chaos, packages on real systemd, 2,000 kills, 200 faults under unique containers, fuzzing, and the targets of the bench
	$(MAKE) package
	cd packaging && go test -tags heavy -count=1 -timeout 60m -v .
	$(MAKE) crash N=2000 FAULTS=200
	$(MAKE) fuzz T=$(call given,T,1m)
	$(MAKE) strictbench

check: ## Format, vet, staticcheck, tidiness, the rules of the tree, and a build without cgo
	@out=$$(gofmt -l $$(git ls-files '*.go')); test -z "$$out" || { echo "gofmt is needed for:"; echo "$$out"; exit 1; }
	go vet -tags $(TAGS) ./...
	go vet -tags $(TAGS),hostlertest ./...
	go tool staticcheck -tags $(TAGS),hostlertest ./...
	go mod tidy -diff
	cd packaging && go vet -tags heavy . && go mod tidy -diff
	cd integration/s3server && go mod tidy -diff
	go test -count=1 ./internal/rules
	CGO_ENABLED=0 go build $$(go list -f '{{if .GoFiles}}{{.ImportPath}}{{end}}' ./... | grep -vE '/(lxc/helper|cmd/hostler-lxc|cmd/barelxc)$$')
	for f in packaging/deps scripts/*.sh .ci/run; do bash -n "$$f"; done
	if command -v shellcheck >/dev/null; then shellcheck packaging/deps scripts/*.sh .ci/run; fi

# Never from the cache: go test keeps a file for it that grows while a test limits
# the size of files, which fails what has passed.
unit: build ## The tests that have nothing to race with, fuzz seeds included
	$(TEST) -parallel 6 -timeout 20m $$(scripts/packages.sh pure)
	$(TEST) -timeout 20m -run '$(call exactly,$(SINGLE))' $$(scripts/packages.sh with $(SINGLE))

# Four packages at a time: those that wait for real containers leave the processors to
# the others.
race: build ## The other tests without built programs, under the race detector
	GORACE=atexit_sleep_ms=50 $(TEST) $(RACE) -p 4 -parallel 6 -timeout 40m -skip '$(call exactly,$(SINGLE))' $$(scripts/packages.sh shared)

integration: build ## The built programs with real LXC, broker, MQTT client and gpg
	$(TEST) -tags integration -parallel 6 -timeout 40m -skip '$(call exactly,$(QUIET))' ./integration

quiet: build ## The built programs held to times, with nothing beside them
	$(TEST) -tags integration -parallel 1 -timeout 20m -run '$(call exactly,$(QUIET))' ./integration -quiet

# Of whoever runs make, or a default.
given = $(if $(filter command environment,$(origin $(1))),$($(1)),$(2))

crash: testbuild ## Kill the programs at each failpoint, then N=40 times at random; then FAULTS=8 under unique containers; SEED=… repeats a round
	$(TEST) -tags hostlertest ./internal/failpoint ./integration/historytest
	HOSTLER_BIN=$(CURDIR)/bin/test HOSTLER_KILLS=$(call given,N,40) HOSTLER_SEED=$(call given,SEED) $(TEST) -tags integration,hostlertest -parallel 64 -timeout 6h -run 'TestEveryPoint|TestFoundSeeds|TestRandomKills' ./integration
	HOSTLER_BIN=$(CURDIR)/bin/test $(TEST) -tags integration,hostlertest -timeout 2h -run '^(TestFaultPlan|TestUniqueUnderFaults)$$' ./integration -faults $(call given,FAULTS,8) -seed $(call given,SEED,0)

clocks: testbuild ## Move the clocks of the programs, and let each write of a database fail once
	$(TEST) -tags hostlertest ./internal/clock ./internal/sqldb
	HOSTLER_BIN=$(CURDIR)/bin/test $(TEST) -tags integration,hostlertest -parallel 6 -timeout 40m -run '^(TestAgentIn1970|TestCoordinatorOfAnotherDecade|TestDateStepsUnderCommands|TestSuspend|TestCodesUnderAWrongDate|TestStolenCoordinatorOfAnotherTime|TestBudgetsAndOrderUnderSteps|TestDateBackUnderWaitingOrders)$$' ./integration

heavy: build ## What takes too long for every day
	@bash packaging/deps heavy
	go test -tags heavy -count=1 -timeout 60m ./...
	go test -tags integration,heavy -count=1 -timeout 60m -run '^(TestNothingLeaks|TestManyKillsMidStream|TestRealUnkillable|TestHugeOutput|TestNetworkPushIsSlow|TestHostFillsALargerDisk|TestSessionsOutliveLongOutages|TestSessionsOutliveLongPartitions|TestCoordinatorFillsALargerDisk|TestManySmallCommandsOnASmallDisk|TestWatchdogResetsTheMachine|TestDrainOfTenWorkloads|TestLossThatDoesNotFit|TestUniqueOnAnOldDisk|TestTwentyOfTwentyOneHosts|TestThousandContainers|TestDebootstrap)$$' ./integration

chaos: build ## Play N=1000 schedules of faults from SEED=1 on and 100,000 in the simulator, then the built programs for FOR=5m
	TMPDIR=/dev/shm go test -count=1 -timeout 60m ./internal/chaos -seed $(SEED) -seeds $(N)
	go test -count=1 -timeout 60m -run 'TestNeverTwice|TestFencesByChance' ./sim -seeds 100000
	go test $(RACE) -count=1 -timeout 20m -run '^TestTwiceAndShuffled$$' ./internal/chaos
	go test -tags integration -count=1 -timeout 60m -run 'TestHostileTransport|TestNetwork' ./integration -chaos $(FOR)

fuzz: ## Fuzz each target for T=10s
	@git grep -oE '^func Fuzz[A-Za-z0-9_]+' -- '*_test.go' ':!**/testdata/**' | while IFS=: read -r file func; do \
		echo "== $${func#func } in $$(dirname "$$file")"; \
		go test -run '^$$' -fuzz "^$${func#func }\$$" -fuzztime $(T) "./$$(dirname "$$file")" </dev/null; \
	done

vectors: ## Write the committed test vectors of the protocol again
	go generate ./protocol/...

bench: build ## Measure a fleet of the built programs; a table, and bench.json
	CGO_ENABLED=0 $(BUILD) -o bin/ ./integration/cmd/bench ./integration/cmd/barelease ./integration/cmd/barerun
	CGO_ENABLED=1 $(BUILD) -o bin/ ./integration/cmd/barelxc
	bin/bench

strictbench: build ## The same, and fail if a figure misses its target
	CGO_ENABLED=0 $(BUILD) -o bin/ ./integration/cmd/bench ./integration/cmd/barelease ./integration/cmd/barerun
	CGO_ENABLED=1 $(BUILD) -o bin/ ./integration/cmd/barelxc
	bin/bench -strict

gobench: ## Run the benchmarks of the packages
	go test -run '^$$' -bench . -benchmem ./...

clean: ## Remove what the build made
	rm -rf bin dist bench.json
