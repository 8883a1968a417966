module redis-throttle/cmd/throttle-dev

go 1.26.0

toolchain go1.27.4

require (
	github.com/alecthomas/kong v1.17.0
	github.com/alicebob/miniredis/v2 v2.40.0
	github.com/stretchr/testify v1.12.1
	redis-throttle v0.0.0
)

require (
	github.com/yuin/gopher-lua v1.1.1 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
)

replace redis-throttle => ../..
