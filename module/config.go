package module

/*
#include "bridge.h"
*/
import "C"

import (
	"fmt"
	"strings"
	"unsafe"

	"github.com/wenerme/go-rm/rm"

	"redis-throttle/command"
	"redis-throttle/top"
)

// options are what the load arguments say: `loadmodule throttle.so top 1000`.
type options struct {
	top int
}

func parseOptions(args []string) (o options, err error) {
	for i := 0; i < len(args); i += 2 {
		if !strings.EqualFold(args[i], "top") {
			return o, fmt.Errorf("unknown load argument %q: the only one is \"top\", the number of keys that CL.TOP keeps", args[i])
		}
		if i+1 == len(args) {
			return o, fmt.Errorf("load argument top: the number of keys is missing; it must be an integer from 0 to %d", top.MaxEntries)
		}
		n, ok := command.ParseCount([]byte(args[i+1]), top.MaxEntries)
		if !ok && args[i+1] != "0" {
			return o, fmt.Errorf("load argument top: %q must be an integer from 0 to %d", args[i+1], top.MaxEntries)
		}
		o.top = n
	}
	return o, nil
}

func configure(ctx *C.RedisModuleCtx, o options) error {
	if C.throttleConfigure(ctx, C.longlong(o.top), top.MaxEntries) != C.API_OK {
		return fmt.Errorf("bad configuration: throttle.top must be an integer from 0 to %d", top.MaxEntries)
	}
	return nil
}

// texts reads the server's strings.
func texts(args []rm.String) (all []string) {
	for _, arg := range args {
		var length C.size_t
		text := C.throttleText(*(**C.RedisModuleString)(unsafe.Pointer(&arg)), &length)
		all = append(all, C.GoStringN(text, C.int(length)))
	}
	return all
}

//export throttleTopResize
func throttleTopResize(entries C.longlong) { command.ResizeTop(int(entries)) }
