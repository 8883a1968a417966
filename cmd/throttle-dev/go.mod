module redis-throttle/cmd/throttle-dev

go 1.26.0

toolchain go1.27.4

require (
	github.com/alecthomas/kong v1.17.0
	github.com/alicebob/miniredis/v2 v2.40.0
	github.com/redis/go-redis/v9 v9.23.0
	github.com/stretchr/testify v1.12.1
	redis-throttle v0.0.0
	redis-throttle/gateway/console v0.0.0
)

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/yuin/gopher-lua v1.1.1 // indirect
	go.uber.org/atomic v1.12.0 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
	golang.org/x/sys v0.48.0 // indirect
	redis-throttle/ratelimit v0.0.0 // indirect
)

replace (
	redis-throttle => ../..
	redis-throttle/gateway/console => ../../gateway/console
	redis-throttle/ratelimit => ../../ratelimit
)
