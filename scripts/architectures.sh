# What is released, and for what: architectures and systems by their names in Go, which for architectures are those of
# Debian. Sourced after lib.sh.
# shellcheck shell=bash
export architectures=(amd64 arm64)

# The static programs, and the folder of each one's Go module.
export programs=(throttle-dev throttle-gateway throttle-replay)
folder_of() { case $1 in throttle-dev | throttle-replay) echo "cmd/$1" ;; throttle-gateway) echo gateway ;; esac; }

# Those that developers install together, from pip, npm or Debian packages. They have the same targets.
export tools=(throttle-dev throttle-replay)

# targets PROGRAM: the systems and architectures it is built for.
targets() {
	case $1 in
	throttle-dev | throttle-replay) printf '%s\n' {linux,darwin,windows}/{amd64,arm64} ;;
	throttle-gateway) printf '%s\n' linux/{amd64,arm64} ;;
	esac
}

# file_of PROGRAM SYSTEM: how its file is called there.
file_of() { if [ "$2" = windows ]; then echo "$1.exe"; else echo "$1"; fi; }

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
