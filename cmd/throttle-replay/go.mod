module redis-throttle/cmd/throttle-replay

go 1.26.0

toolchain go1.27.4

require (
	github.com/alecthomas/kong v1.17.0
	github.com/klauspost/compress v1.20.4
	github.com/redis/go-redis/v9 v9.23.0
	github.com/stretchr/testify v1.12.1
	github.com/ulikunitz/xz v0.5.17
	github.com/valyala/fastjson v1.6.10
	golang.org/x/term v0.48.0
	redis-throttle v0.0.0
	redis-throttle/gateway v0.0.0
	redis-throttle/ratelimit v0.0.0
)

require (
	github.com/caarlos0/env/v11 v11.4.2 // indirect
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/cncf/xds/go v0.0.0-20260202195803-dba9d589def2 // indirect
	github.com/dunglas/httpsfv v1.1.2 // indirect
	github.com/envoyproxy/go-control-plane/envoy v1.40.0 // indirect
	github.com/envoyproxy/go-control-plane/ratelimit v0.1.1-0.20260729145720-a2d8c7492908 // indirect
	github.com/envoyproxy/protoc-gen-validate v1.3.3 // indirect
	github.com/planetscale/vtprotobuf v0.6.1-0.20240319094008-0393e58bdf10 // indirect
	github.com/sony/gobreaker/v2 v2.4.0 // indirect
	go.uber.org/atomic v1.12.0 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
	go.yaml.in/yaml/v4 v4.0.0 // indirect
	golang.org/x/net v0.60.0 // indirect
	golang.org/x/sys v0.50.0 // indirect
	golang.org/x/text v0.42.0 // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20260928230214-8a89bd6388cc // indirect
	google.golang.org/grpc v1.85.0 // indirect
	google.golang.org/protobuf v1.36.12 // indirect
	pgregory.net/rapid v1.3.0 // indirect
	redis-throttle/ratelimit/guard v0.0.0 // indirect
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
