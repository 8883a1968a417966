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

# install_npm_packages: those that the examples' package-lock.json files pin.
install_npm_packages() {
	local lock folder
	for lock in examples/*/package-lock.json; do
		folder=${lock%/*}
		npm_packages_there "$folder" && continue
		say "npm ci in $folder"
		(cd "$folder" && npm ci --no-audit --no-fund --ignore-scripts >&2) || die "npm ci failed in $folder"
	done
}
