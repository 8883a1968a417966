module redis-throttle/module

go 1.26.0

toolchain go1.27.4

require (
	github.com/wenerme/go-rm v0.0.0-20190119083915-f47e53e2316f
	redis-throttle v0.0.0
)

require (
	github.com/urfave/cli v1.22.17 // indirect
	github.com/wenerme/letsgo v0.0.0-20200921165205-ae08ad9ea1e0 // indirect
)

replace redis-throttle => ..

// go-rm needs one small package of letsgo, whose other packages need these: nothing here
// uses them, and without these lines they bring a hundred modules into the module graph.
replace (
	github.com/astaxie/beego => ./throttle/unused/beego
	github.com/spf13/cobra => ./throttle/unused/cobra
)

// go-rm imports this for a function that nothing here calls. With the original, 22 packages more are linked into the server's process.
replace github.com/urfave/cli => ./throttle/unused/cli
