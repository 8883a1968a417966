# What scripts/example and scripts/setup share about the examples. Sourced after lib.sh.
# shellcheck shell=bash

# example_rows: the rows of examples.txt.
example_rows() { grep -v '^#' scripts/examples.txt; }

# example_program CHECK...: the program of a row's check in examples.txt that passes it: the
# one on PATH, or else the distribution's own, which is where its packages are found.
example_program() {
	local program
	for program in "$1" "/usr/bin/$1"; do
		if "$program" "${@:2}" >/dev/null 2>&1; then
			echo "$program"
			return
		fi
	done
	return 1
}

# npm_packages_there FOLDER: whether all that its package-lock.json asks for is installed.
npm_packages_there() {
	[ ! -f "$1/package-lock.json" ] || [ "$1/node_modules/.package-lock.json" -nt "$1/package-lock.json" ]
}

# node_package_built: whether clients/node/dist is there, which examples import, and newer than its source.
node_package_built() {
	[ -e clients/node/dist/esm/index.js ] && [ -z "$(find clients/node/src clients/node/package.json -newer clients/node/dist/esm/index.js)" ]
}

# needs_examples: calls need, of scripts/setup, for what examples need beside Go.
needs_examples() {
	local name debs check
	while read -r name _ debs check; do
		read -ra check <<<"$check"
		[ "$debs" = - ] || need "what examples/$name runs on" "${debs//,/ }" example_runs "${check[@]}"
	done < <(example_rows)
	need "npm" npm have npm
}

example_runs() { example_program "$@" >/dev/null; }

# install_npm_packages: those that the examples' package-lock.json files pin, and the package of clients/node, which
# they import.
install_npm_packages() {
	local lock
	node_package_built || {
		npm_ci clients/node
		npm run --prefix clients/node --silent build >&2 || die "clients/node does not build"
	}
	for lock in examples/*/package-lock.json; do npm_ci "${lock%/*}"; done
}

# npm_ci FOLDER: installs what its package-lock.json pins, unless it is there.
npm_ci() {
	npm_packages_there "$1" && return
	say "npm ci in $1"
	(cd "$1" && npm ci --no-audit --no-fund --ignore-scripts >&2) || die "npm ci failed in $1"
}
