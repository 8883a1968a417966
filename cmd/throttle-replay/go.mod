module redis-throttle/cmd/throttle-replay

go 1.26.0

toolchain go1.27.4

require (
	github.com/alecthomas/kong v1.17.0
	github.com/klauspost/compress v1.20.4
	github.com/stretchr/testify v1.12.1
	github.com/valyala/fastjson v1.6.10
	golang.org/x/term v0.48.0
	redis-throttle v0.0.0
	redis-throttle/ratelimit v0.0.0
)

require (
	go.yaml.in/yaml/v3 v3.0.5 // indirect
	golang.org/x/sys v0.50.0 // indirect
	pgregory.net/rapid v1.3.0 // indirect
)

replace (
	redis-throttle => ../..
	redis-throttle/gateway => ../../gateway
	redis-throttle/ratelimit => ../../ratelimit
	redis-throttle/ratelimit/guard => ../../ratelimit/guard
	redis-throttle/ratelimit/otellimit => ../../ratelimit/otellimit
	redis-throttle/ratelimit/promlimit => ../../ratelimit/promlimit
	redis-throttle/ratelimit/ratelimittest => ../../ratelimit/ratelimittest
)
