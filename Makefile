# `make` lists what there is to make. Longer recipes are scripts in scripts/; all output
# goes to build/ and run/.

COMMIT := $(shell git rev-parse --short=12 HEAD 2>/dev/null || echo unknown)
CGO_CFLAGS ?= -O2
export CGO_CFLAGS

BUILD := go build -buildmode=c-shared -trimpath -buildvcs=false
STAMP := -X redis-throttle/module.commit=$(COMMIT)

# The packages whose tests need no server, and those of them without cgo of their own.
UNIT = $(shell go list ./... | grep -vE '/tests(/|$$)')
PURE = $(shell go list -f '{{if not .CgoFiles}}{{.ImportPath}}{{end}}' $(UNIT))

# What scripts/setup is to install. A target's value holds for its prerequisites, too, so
# that everything is there before the build begins.
STAGE := build
run: STAGE := run
test test-unit test-server test-matrix: STAGE := test

.PHONY: help setup build build-check run test test-unit test-server test-matrix servers race fuzz lint clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## install what building, running and testing need (through apt-get; asks for nothing else)
	@scripts/setup test

# The server refuses a module file without the execute bit, which go build does not set.
build: ## build/throttle.so, the module
	@scripts/setup $(STAGE)
	$(BUILD) -ldflags "-s -w $(STAMP)" -o build/throttle.so ./cmd/throttle
	@chmod 0755 build/throttle.so

build-check: ## build/throttle-check.so, with injectable faults and Go's checks of C pointers
	@scripts/setup $(STAGE)
	GOEXPERIMENT=cgocheck2 $(BUILD) -tags faultinject -ldflags "$(STAMP)" -o build/throttle-check.so ./cmd/throttle
	@chmod 0755 build/throttle-check.so

run: build ## a private server with the module (PORT=6380 SERVER=valkey-server ARGS='--loglevel debug')
	@scripts/run

test: build build-check ## all tests (SERVER=valkey-server ARGS='-run Burst')
	@scripts/test ./... $(ARGS)

test-unit: ## tests that need no server
	@scripts/setup $(STAGE)
	@scripts/test $(UNIT) $(ARGS)

test-server: build build-check ## tests against one server (SERVER= ARGS=)
	@scripts/test ./tests/... $(ARGS)

test-matrix: build build-check ## tests against every server of scripts/servers.txt (ALLOW_MISSING=1 ARGS=)
	@scripts/test-matrix $(ARGS)

servers: ## fetch the servers of test-matrix into build/servers
	@scripts/setup run
	@for name in $$(grep -v '^#' scripts/servers.txt | cut -d ' ' -f 1); do scripts/fetch-server $$name || exit; done

race: ## unit tests under the race detector
	@scripts/setup $(STAGE)
	go test -race $(PURE)

fuzz: ## fuzz each target for FUZZTIME=10s
	@scripts/setup $(STAGE)
	@scripts/fuzz

lint: ## gofmt, go vet, staticcheck
	@scripts/setup $(STAGE)
	@scripts/lint

clean: ## remove all that was built, fetched or left by a server
	rm -rf build run
