# What the scripts share. Sourced, never run. Every script works from the project's root.
# shellcheck shell=bash
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
root=$PWD
export servers=$root/build/servers # other suites' servers, see fetch-server

# Messages go to stderr: what some scripts print on stdout is their result.
say() { printf '==> %s\n' "$*" >&2; }
die() {
	printf 'error: %s\n' "$*" >&2
	exit 1
}

have() { command -v "$1" >/dev/null; }

have_apt() { have apt-get && have dpkg-deb; }

# apt_install PACKAGE...: refreshes the package lists only when they do not do.
apt_install() {
	local apt=(env DEBIAN_FRONTEND=noninteractive
		apt-get -o DPkg::Lock::Timeout=120 -o Dpkg::Use-Pty=0 -y -q)
	local install=(install --no-install-recommends "$@")
	if [ "$(id -u)" != 0 ]; then
		have sudo || die "installing needs root, and there is no sudo; run as root: apt-get install $*"
		apt=(sudo "${apt[@]}")
	fi
	if apt-get --simulate "${install[@]}" >/dev/null 2>&1 && "${apt[@]}" "${install[@]}" >&2; then
		return
	fi
	say "apt-get update: the package lists are missing or out of date"
	"${apt[@]}" update >&2 || say "apt-get update failed for some sources; trying with the others"
	"${apt[@]}" "${install[@]}" >&2
}

# find_cli: the path of a command line client.
find_cli() { command -v redis-cli || command -v valkey-cli || die "there is no redis-cli on PATH: run scripts/setup run"; }

# server_table: the rows of servers.txt.
server_table() { grep -v '^#' scripts/servers.txt; }

# program_of PACKAGE: redis-tools holds redis-server, valkey-tools valkey-server.
program_of() { printf '%s\n' "${1%-tools}-server"; }

# port_taken PORT: whether anything accepts connections there on 127.0.0.1.
port_taken() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

# homepage: where the project lives, by the path of its Go module, which begins with a host
# once it is published (scripts/set-module-path); nothing before.
homepage() { awk '$1 == "module" && $2 ~ /^[^\/]*\./ { print "https://" $2 }' go.mod; }

# absolute_links HOMEPAGE TAG [FOLDER]: copies Markdown of the project's root, or of a folder of clients/, its links to
# files of the project made to lead to that tag at its home. Without a home they stay as they are.
absolute_links() {
	local here=${3:+$3/}
	if [ -n "$1" ]; then sed -E "s#\]\(([A-Za-z0-9_][^):]*)\)#](${1}/blob/$2/$here\1)#g; s#\]\(\.\./\.\./([^):]*)\)#](${1}/blob/$2/\1)#g"; else cat; fi
}
