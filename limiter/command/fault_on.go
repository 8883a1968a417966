//go:build faultinject

package command

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
)

func (c *Call) injectFault() {
	if c.cmd.Keys != NoKeys && len(c.Args) > 0 {
		injectFault(c.Args[0], c.Turn)
	}
}

// injectFault panics for keys that begin with fault:panic, and for those that begin with fault:turn when a
// caller that has waited in line is decided. It leaves 32 MB of garbage behind for keys that begin with
// fault:garbage, and for fault:runtime panics with what the Go runtime has to say about itself.
// It is how the tests show that a fault in a decision cannot take the server down, and what a
// garbage collection costs. It exists in the test build only.
func injectFault(key []byte, turn Turn) {
	switch {
	case bytes.HasPrefix(key, []byte("fault:panic")):
		panic("injected fault")
	case bytes.HasPrefix(key, []byte("fault:turn")):
		if turn != Arriving {
			panic("injected fault")
		}
	case bytes.HasPrefix(key, []byte("fault:garbage")):
		runtime.KeepAlive(make([]byte, 32<<20))
	case bytes.Equal(key, []byte("fault:runtime")):
		var gc debug.GCStats
		debug.ReadGCStats(&gc)
		longest := int64(0)
		if len(gc.Pause) > 0 {
			longest = int64(slices.Max(gc.Pause))
		}
		panic(fmt.Sprintf("collections=%d longest_pause_ns=%d environment=%d processors=%d", gc.NumGC, longest, len(os.Environ()), runtime.GOMAXPROCS(0)))
	}
}
