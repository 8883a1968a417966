module redis-throttle/examples

go 1.26.0

require github.com/redis/go-redis/v9 v9.23.0

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/dunglas/httpsfv v1.1.2 // indirect
	go.uber.org/atomic v1.12.0 // indirect
	golang.org/x/sys v0.48.0 // indirect
	redis-throttle v0.0.0 // indirect
)

require redis-throttle/ratelimit v0.0.0

replace redis-throttle/ratelimit => ../ratelimit

replace redis-throttle => ..
