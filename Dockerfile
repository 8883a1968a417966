# A Redis or Valkey image with the module in it:
#
#   docker build -t redis-throttle .
#   docker build -t redis-throttle --build-arg SERVER=valkey .
#   docker build -t redis-throttle --build-arg SERVER=redis:7.4-bookworm .
#
# All stages are Debian's, with glibc: musl (Alpine) cannot load a Go shared library.
# The server's glibc must be at least as new as the one the module is built with.
#
# SERVER is a stage below, or any other image. The stages name their images literally,
# so that Dependabot finds and renews them.
ARG SERVER=redis

FROM redis:8.10.2-trixie AS redis
FROM valkey/valkey:9.1.4-trixie AS valkey

FROM golang:1.27.4-bookworm AS build
WORKDIR /src
# Modules that go.mod replaces are read with it.
COPY go.mod go.sum ./
COPY module/go.mod module/go.sum module/
COPY module/throttle/unused module/throttle/unused
RUN go -C module mod download
COPY . .
# The version names the commit. Of .git only HEAD and the refs are sent, which is all
# that git needs to tell it once there is an empty folder for objects.
ARG COMMIT
RUN mkdir -p .git/objects && make build COMMIT="${COMMIT:-$(git rev-parse HEAD 2>/dev/null | grep -oE '^[0-9a-f]{12}' || echo unknown)}"

# throttle-dev alone, for development and tests: docker build --target dev -t throttle-dev .
FROM golang:1.27.4-bookworm AS dev-build
WORKDIR /src
COPY . .
RUN scripts/build-dev

# Its clients come from outside of the container, so which ones can is decided by the ports that you publish.
FROM scratch AS dev
COPY --from=dev-build /src/build/throttle-dev /throttle-dev
EXPOSE 6379
USER 65534
ENTRYPOINT ["/throttle-dev", "--bind", "0.0.0.0", "--protected-mode", "no"]

FROM ${SERVER}
COPY --from=build /src/build/throttle.so /usr/local/lib/throttle.so
# The client takes the password from REDISCLI_AUTH. Without it a server that wants one is
# still known to be alive: it says NOAUTH, or NOPERM of a default user without +ping.
HEALTHCHECK --interval=2s --timeout=3s --start-period=30s --retries=5 \
    CMD cli=$(command -v valkey-cli || command -v redis-cli) && case $("$cli" ping) in PONG | NOAUTH* | NOPERM*) ;; *) exit 1 ;; esac
# The entrypoint of either image puts its server in front of options.
CMD ["--loadmodule", "/usr/local/lib/throttle.so"]
