# `make` lists what there is to make. Longer recipes are scripts in scripts/; all output
# goes to build/ and run/.

COMMIT := $(shell git rev-parse --short=12 HEAD 2>/dev/null || echo unknown)
CGO_CFLAGS ?= -O2
export CGO_CFLAGS

# As they were given, for scripts/with-args and other scripts: a recipe that spelled them out
# would have the shell read them.
override ARGS := $(value ARGS)
override SERVER := $(value SERVER)
export ARGS SERVER

# From the bridge's own go.mod alone, so that no other module's needs choose what is linked.
BUILD := GOWORK=off go -C module build -buildmode=c-shared -trimpath -buildvcs=false
STAMP := -X redis-throttle/module.commit=$(COMMIT)

# The packages whose tests need no server, and those of them without cgo of their own. "work"
# is every package of the modules in go.work.
UNIT = $(shell go list work | grep -vE '/tests(/|$$)')
PURE = $(shell go list -f '{{if not .CgoFiles}}{{.ImportPath}}{{end}}' $(UNIT))

# What scripts/setup is to install. A target's value holds for its prerequisites, too, so
# that everything is there before the build begins.
STAGE := build
lint: STAGE := lint
test-upstream: STAGE := build
test test-unit test-server test-upgrade: STAGE := run
test-dev test-full test-matrix bench bench-callers bench-curves bench-wakeups bench-client bench-libraries bench-gateway bench-dev soak soak-gateway ordeal mutate-c mutate-lua: STAGE := full
# Whatever a test asks for has to be there (internal/size).
test-full test-matrix: export THROTTLE_INSTALLED := 1
release check-release: STAGE := release
check-arm64: STAGE := emulate
prove: STAGE := prove

.PHONY: help setup build build-check build-dev build-gateway build-replay run dev test test-anywhere test-dev test-full test-upstream test-unit test-server test-upgrade test-matrix servers race prove mutate mutate-c mutate-lua soak soak-gateway soak-webflux ordeal check-docker fuzz bench bench-callers bench-kit bench-curves bench-wakeups bench-count bench-client bench-libraries bench-dev bench-gateway bench-unit pgo lint check-zones release check-release check-arm64 clean

# A target is in the group whose name stands behind its ##.
help: ## everyday: this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { i = index($$2, ": "); group = substr($$2, 1, i - 1); \
		if (!(group in rows)) order[++n] = group; rows[group] = rows[group] sprintf("  make %-15s %s\n", $$1, substr($$2, i + 2)) } \
		END { for (i = 1; i <= n; i++) printf("%s%s\n%s", (i > 1 ? "\n" : ""), toupper(substr(order[i], 1, 1)) substr(order[i], 2), rows[order[i]]) }' $(MAKEFILE_LIST)

setup: ## everyday: install what all tests and measurements need (through apt-get; asks for nothing else)
	@scripts/setup full

# The server refuses a module file without the execute bit, which go build does not set.
build: ## everyday: build/throttle.so, the module
	@scripts/setup $(STAGE)
	$(BUILD) -ldflags "-s -w $(STAMP)" -o ../build/throttle.so ./throttle
	@chmod 0755 build/throttle.so

build-check: ## build: build/throttle-check.so, with injectable faults and Go's checks of C pointers
	@scripts/setup $(STAGE)
	GOEXPERIMENT=cgocheck2 $(BUILD) -tags faultinject -ldflags "$(STAMP)" -o ../build/throttle-check.so ./throttle
	@chmod 0755 build/throttle-check.so

build-gateway: ## build: build/throttle-gateway, which proxies ask; a static program
	@scripts/setup $(STAGE)
	scripts/build-gateway

# exec: when make is killed, scripts/run learns of it, as its child.
run: ## everyday: a private server with the module (PORT=6380 SERVER=valkey-server ARGS='--loglevel debug'); throttle-dev where none can load it
	@if why=$$(scripts/loadable); then $(MAKE) --no-print-directory build STAGE=run && exec scripts/with-args scripts/run; \
	else echo "==> $$why: starting throttle-dev, which is for development and tests" >&2; exec scripts/dev; fi

dev: ## everyday: throttle-dev: all commands without a Redis, for development and tests (PORT=6380 ARGS='--top 100')
	@scripts/with-args scripts/dev

build-dev: ## build: build/throttle-dev
	scripts/build-dev

build-replay: ## build: build/throttle-replay, which tries limits on an access log; a static program
	scripts/build-replay

test-dev: ## servers: the tests of servers that apply, on throttle-dev (ARGS=)
	@scripts/setup $(STAGE)
	@scripts/with-args scripts/test-dev -short

# -short: what goes on for long, or tries many numbers, is smaller (internal/size).
test-upstream: build-gateway build-dev ## servers: throttle-gateway beside envoyproxy/ratelimit, in one process (ARGS='-v' SEED=0)
	@scripts/with-args scripts/test-upstream

test: build build-check build-dev ## everyday: the tests, the long ones smaller: 3 to 9 minutes (SERVER=valkey-server ARGS='-run Burst' SEED=0)
	@echo "==> testing takes 3 to 9 minutes on two cores; make test-unit needs no server and takes less" >&2
	@scripts/with-args scripts/test -short ./tests/... work

test-full: build build-check test-dev ## everyday: every test at full size, as .ci/run does (SERVER= ARGS= SEED=)
	@scripts/with-args scripts/test ./tests/... work

test-unit: ## everyday: tests that need no server, the long ones smaller
	@scripts/setup $(STAGE)
	@scripts/with-args scripts/test -short $(UNIT)

test-server: build build-check ## servers: tests against one server, the long ones smaller (SERVER= ARGS=)
	@scripts/with-args scripts/test -short ./tests/...

test-anywhere: ## servers: what needs neither Linux nor a server with the module, throttle-dev too, as CI does on macOS, Windows and Alpine (ARGS=)
	@scripts/with-args scripts/test-anywhere

test-upgrade: build ## servers: from each older version to this one and back, with builds of their commits (SERVER= ARGS=-short)
	@scripts/with-args scripts/test-upgrade

test-matrix: build build-check ## servers: tests at full size against every server of scripts/servers.txt (ALLOW_MISSING=1 ARGS=)
	@scripts/with-args scripts/test-matrix

.PHONY: bench-keys
bench-keys: build ## measure: how much memory keys take, by their limits (SERVER= ARGS=20000)
	@scripts/with-args scripts/measure-keys

.PHONY: bench-replay
bench-replay: ## measure: lines a second of throttle-replay, on one core, beside wc and gzip (ARGS='10000000 1000000')
	@scripts/with-args scripts/bench-replay

.PHONY: test-clients bench-clients
test-clients bench-clients: STAGE := clients
test-clients: build build-dev ## servers: tests of the packages in clients/, with the frameworks that they are for (SERVER= ARGS='python -k lease')
	@scripts/with-args scripts/test-clients

.PHONY: test-load
test-load: build ## servers: programs at work: at most the limit passes, and a busy one takes no server for dead (SERVER= ARGS='go')
	@scripts/with-args scripts/test-load

servers: ## servers: fetch the servers of test-matrix into build/servers
	@scripts/setup run
	@for name in $$(grep -v '^#' scripts/servers.txt | cut -d ' ' -f 1); do scripts/fetch-server $$name || exit; done

# -short: a million random steps in one goroutine find no race. What a solver or a model checker says has none either.
# -vet: make lint runs go vet. -w: nobody debugs these programs.
race: ## prove: unit tests under the race detector
	@scripts/setup $(STAGE)
	@scripts/seeded go test -race -short -vet=off -ldflags=-w -timeout 30m $(filter-out %/proof/protocols,$(PURE))
	GOWORK=off go -C scripts/tools test -race -vet=off -ldflags=-w ./... # not in the workspace

# What is below proof/ is a package of tests that looks further where PROVE is set; so does line.
prove: ## prove: what is proven for all inputs, and tried exhaustively: the proofs of docs/internals/proof.md (ARGS=)
	@scripts/setup $(STAGE)
	@scripts/with-args scripts/prove

mutate: ## prove: break the pure packages in each place, and see that a test finds it (ARGS='top line')
	@scripts/setup build
	@scripts/with-args scripts/mutate

mutate-c: ## prove: break the C of the bridge in N places, and see that a test of servers finds it (SEED=1 N=20 FROM=1 ONLY=module/line.c:43)
	@scripts/setup $(STAGE)
	@scripts/mutate-c

mutate-lua: build ## prove: break the function library in N places, and see that a test finds it (SEED=1 N=100 FROM=1 ONLY=functions/throttle.lua:407)
	@scripts/mutate-lua

.PHONY: asan
asan: STAGE := run
asan: ## prove: tests of servers with the C of the module under AddressSanitizer and UBSan (SERVER= ARGS='-short ./tests/line')
	@scripts/setup $(STAGE)
	@scripts/with-args scripts/asan

soak: build build-check ## prove: mixed load, restarts, snapshots and mishaps for SOAK=10m
	@SOAK=$${SOAK:-10m} scripts/test ./tests/durability -run TestSoak -timeout 60m

soak-gateway: build build-check ## prove: throttle-gateway under load while Redis is killed or stands still and files change, for SOAK=10m
	@FORMAT=standard-verbose SOAK=$${SOAK:-10m} scripts/test ./tests/gateway -run TestKillsAndReloads -timeout 0

soak-webflux: STAGE := clients
soak-webflux: build ## prove: a WebFlux application under load for SOAK=10m: memory, threads and sockets level off
	@SOAK=$${SOAK:-10m} scripts/test-load soak

ordeal: build ## prove: servers on hosts of their own, faults by a seed, histories that are checked (ORDEAL=10m SEED=)
	@FORMAT=standard-verbose SEED=$${SEED:-0} scripts/test ./tests/linearizability -run '^TestOrdeal$$' -timeout 0 \
		-ordeal $${ORDEAL:-10m}

check-docker: ## release: the Dockerfile and the compose file, as far as that goes without an engine
	@scripts/check-docker

fuzz: ## prove: fuzz each target for FUZZTIME=10s
	@scripts/setup $(STAGE)
	@scripts/fuzz

# The results, tables and charts go to build/bench; ARGS=--publish renews those in
# bench/results. ARGS="--so other.so" sets another build beside this one, PEERS="path.so:COMMAND ..."
# adds other modules; ARGS="--help" tells the rest.
BENCH = go build -o build/throttle-bench ./bench/throttle-bench && \
	scripts/with-args build/throttle-bench --server "$$(scripts/find-server "$$SERVER")"
# BENCH_BUILT is a folder that bench-kit has filled: then nothing is built, and neither Go nor a C compiler is needed.
ifneq ($(BENCH_BUILT),)
BENCH = scripts/with-args "$(BENCH_BUILT)/throttle-bench" --module "$(BENCH_BUILT)/throttle.so" --server "$$(scripts/find-server "$$SERVER")"
export BENCH_BUILT
else
bench bench-curves bench-wakeups bench-callers: build
endif

BENCHED = $(addprefix ./,$(sort $(dir $(shell git grep -l '^func Benchmark' -- '*_test.go' ':!tests'))))

# Beside another module, servers since Redis 7.2 are asked more than those before.
bench: ## measure: the commands beside SET, the floor and the usual Lua, and beside another module on three servers (SERVER= PEERS= ARGS='--so before.so')
	@$(BENCH) --beside-on "$$(scripts/find-server redis-8.0)" --beside-on "$$(scripts/find-server valkey-sid)"

bench-curves: ## measure: the same by number of keys and clients; with AOF and replicas (SERVER= ARGS=keys)
	@$(BENCH) curve

bench-wakeups: ## measure: what the module's threads do, idle and under load (SERVER= ARGS=)
	@$(BENCH) wakeups

bench-callers: ## measure: callers in line: the memory of each, and the slowest PING meanwhile (SERVER= ARGS='--callers 10000')
	@$(BENCH) callers

bench-kit: build ## measure: build/bench-kit, with which BENCH_BUILT=build/bench-kit make bench needs neither Go nor a compiler
	@mkdir -p build/bench-kit
	@CGO_ENABLED=0 go build -o build/bench-kit/throttle-bench ./bench/throttle-bench
	@cp -p build/throttle.so build/bench-kit/
	@build/bench-kit/throttle-bench floors --floors build/bench-kit

bench-count: STAGE := count
bench-count: build ## measure: instructions and cache misses of each call, counted by valgrind (SERVER= ARGS='-c throttle')
	@$(BENCH) count

bench-client: build ## measure: what the Go client spares: one hot key, 1 to 64 processes (SERVER= ARGS='--seconds 10s')
	@go build -o build/throttle-client ./bench/throttle-client
	@scripts/with-args build/throttle-client --server "$$(scripts/find-server "$$SERVER")"

bench-libraries: build ## measure: the Go client beside other libraries, on one server (SERVER= ARGS='--seconds 10s')
	@go build -o build/throttle-libraries ./bench/throttle-libraries
	@scripts/with-args build/throttle-libraries --server "$$(scripts/find-server "$$SERVER")"

bench-dev: build ## measure: calls a second of throttle-dev, beside a server with the module (SERVER= ARGS=100000)
	@scripts/with-args scripts/bench-dev

bench-clients: build ## measure: the packages for Python, Node.js and Java beside limits, rate-limit-redis and Redisson, on one server (SERVER= ARGS=node)
	@scripts/with-args scripts/bench-clients

bench-gateway: build build-gateway ## measure: throttle-gateway, beside handlers that do nothing, nginx, and envoyproxy/ratelimit if there is one (SERVER= ARGS='--upstream path/to/service_cmd --before other-build')
	@go build -o build/throttle-gateway-bench ./bench/throttle-gateway
	@scripts/with-args build/throttle-gateway-bench --server "$$(scripts/find-server "$$SERVER")" --nginx "$$(scripts/fetch-program nginx nginx)"

bench-unit: ## measure: Go's share alone, compared with the run before (BASE=file)
	@scripts/setup build
	@mkdir -p build/bench
	go test -run '^$$' -bench . -benchmem -benchtime 200ms -count 10 $(BENCHED) >build/bench/unit-now.txt
	@before=$${BASE:-build/bench/unit.txt}; if [ ! -e "$$before" ]; then before=; fi; \
		scripts/tool benchstat $$before build/bench/unit-now.txt
	@mv build/bench/unit-now.txt build/bench/unit.txt

# go build finds the profile by its name.
pgo: ## measure: renew the profile that guides the compiler (module/throttle/default.pgo)
	@scripts/setup build
	@mkdir -p build/bench
	GOMAXPROCS=1 GODEBUG=asyncpreemptoff=1 go test -trimpath -run '^$$' -bench . -benchtime 3s -cpuprofile build/bench/cpu.pgo -o build/bench/command.test ./limiter/command
	GOWORK=off go -C scripts/tools run ./pgo ../../build/bench/cpu.pgo ../../module/throttle/default.pgo

lint: ## everyday: gofmt, go vet, staticcheck, go mod tidy, shellcheck, actionlint
	@scripts/setup $(STAGE)
	@scripts/lint

check-zones: ## release: whether apt knows newer time zones than those of limiter/calendar/zones.zip, and all clocks beside the package's
	@scripts/setup $(STAGE)
	@scripts/check-zones

.PHONY: version
version: ## release: give the project another version in all files that say it (VERSION=1.2.3); commits nothing
	@scripts/set-version "$(VERSION)"

release: ## release: archives and Debian packages for amd64 and arm64 of the commit checked out, in build/release
	@scripts/setup $(STAGE)
	@scripts/check-zones --strict
	@scripts/release

check-release: release ## release: what is in build/release is whole, loads, and comes out the same in another folder
	@scripts/check-release

check-arm64: release ## release: tests of the arm64 module of build/release on an emulated server (ARGS=)
	@scripts/with-args scripts/check-arm64

clean: ## everyday: remove all that was built, fetched or left by a server
	rm -rf build run
