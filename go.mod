module redis-throttle

go 1.26.0

require (
	github.com/anishathalye/porcupine v1.3.1
	github.com/creack/pty v1.1.24
	github.com/redis/go-redis/v9 v9.23.0
	github.com/stretchr/testify v1.12.1
	github.com/wenerme/go-rm v0.0.0-20190119083915-f47e53e2316f
	github.com/yuin/goldmark v1.8.7
	golang.org/x/sys v0.49.0
	golang.org/x/time v0.16.0
	pgregory.net/rapid v1.3.0
)

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/cpuguy83/go-md2man/v2 v2.0.7 // indirect
	github.com/dunglas/httpsfv v1.1.2 // indirect
	github.com/russross/blackfriday/v2 v2.1.0 // indirect
	github.com/urfave/cli v1.22.17 // indirect
	github.com/wenerme/letsgo v0.0.0-20200921165205-ae08ad9ea1e0 // indirect
	go.uber.org/atomic v1.12.0 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
)

// The tests test the Go client.
require redis-throttle/ratelimit v0.0.0

replace redis-throttle/ratelimit => ./ratelimit

// go-rm needs one small package of letsgo, whose other packages need these: nothing here
// uses them, and without these lines they bring a hundred modules into the module graph.
replace (
	github.com/astaxie/beego => ./module/throttle/unused/beego
	github.com/spf13/cobra => ./module/throttle/unused/cobra
)
