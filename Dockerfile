# A Redis or Valkey image with the module in it:
#
#   docker build -t redis-throttle .
#   docker build -t redis-throttle --build-arg SERVER_IMAGE=valkey/valkey:9.0.1-trixie .
#
# Both stages are Debian's, with glibc: musl (Alpine) cannot load a Go shared library.
# The server's glibc must be at least as new as the one the module is built with.
ARG GO_IMAGE=golang:1.26.4-bookworm
ARG SERVER_IMAGE=redis:8.0.3-bookworm

FROM ${GO_IMAGE} AS build
WORKDIR /src
# Modules that go.mod replaces are read with it.
COPY go.mod go.sum ./
COPY cmd/throttle/unused cmd/throttle/unused
COPY ratelimit/go.mod ratelimit/
RUN go mod download
COPY . .
ARG COMMIT=unknown
RUN make build COMMIT="${COMMIT}"

FROM ${SERVER_IMAGE}
COPY --from=build /src/build/throttle.so /usr/local/lib/throttle.so
HEALTHCHECK --interval=2s --timeout=3s --start-period=30s --retries=5 \
    CMD cli=$(command -v valkey-cli || command -v redis-cli) && [ "$("$cli" ping)" = PONG ]
# The entrypoint of either image puts its server in front of options.
CMD ["--loadmodule", "/usr/local/lib/throttle.so"]
