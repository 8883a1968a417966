// Throttle is throttle.so, the module as the server loads it:
//
//	go build -buildmode=c-shared -o build/throttle.so ./module/throttle
package main

import (
	"github.com/wenerme/go-rm/rm"

	"redis-throttle/module"
)

// The server calls go-rm's RedisModule_OnLoad once Go has initialised.
func init() { rm.Mod = module.New() }

func main() {}
