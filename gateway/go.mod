module redis-throttle/gateway

go 1.26.0

require (
	github.com/fsnotify/fsnotify v1.10.1
	go.yaml.in/yaml/v4 v4.0.0
	google.golang.org/protobuf v1.36.12
	redis-throttle/ratelimit v0.0.0
	redis-throttle/ratelimit/guard v0.0.0
)

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/dunglas/httpsfv v1.1.2 // indirect
	github.com/redis/go-redis/v9 v9.23.0 // indirect
	github.com/sony/gobreaker/v2 v2.4.0 // indirect
	go.uber.org/atomic v1.12.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
	redis-throttle v0.0.0 // indirect
)

replace (
	redis-throttle => ..
	redis-throttle/ratelimit => ../ratelimit
	redis-throttle/ratelimit/guard => ../ratelimit/guard
	redis-throttle/ratelimit/otellimit => ../ratelimit/otellimit
	redis-throttle/ratelimit/promlimit => ../ratelimit/promlimit
)
