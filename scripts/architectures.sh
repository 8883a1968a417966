# The architectures that are released, by their names in Go and Debian. Sourced after lib.sh.
# shellcheck shell=bash
export architectures=(amd64 arm64)

# triplet ARCH: the prefix of its compiler's name, as Debian has it, for the machine's own
# architecture, too.
triplet() {
	case $1 in
	amd64) echo x86_64-linux-gnu ;;
	arm64) echo aarch64-linux-gnu ;;
	*) die "no releases are built for $1" ;;
	esac
}

# newest_glibc FILE: the version of glibc that the module needs.
newest_glibc() { readelf --version-info --wide "$1" | sed -nE 's/.*Name: GLIBC_([0-9.]+).*/\1/p' | sort -uV | tail -n 1; }
