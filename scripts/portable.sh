# Which packages are for every system that Go knows, not only for Linux. Sourced after lib.sh.
# shellcheck shell=bash

# portable_packages: the limiter, the Go client and what belongs to it, throttle-dev, throttle-replay, and what types
# README's first command.
portable_packages() {
	go list -e work | tr -d '\r' | grep -vE '/(tests|module|bench|examples|gateway|packaging|scripts|proof)(/|$)'
	echo ./tests/anywhere
}
