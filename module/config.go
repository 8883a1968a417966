package module

/*
#include <stdlib.h>
#include "bridge.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"unsafe"

	"github.com/wenerme/go-rm/rm"

	"redis-throttle/limiter/command/words"
	"redis-throttle/limiter/top"
)

// options are what the load arguments say: `loadmodule throttle.so top 1000 zones /etc/redis/zones.zip`.
type options struct {
	top   int
	zones string
}

func parseOptions(args []string) (o options, err error) {
	for i := 0; i < len(args); i += 2 {
		isTop := strings.EqualFold(args[i], "top")
		switch {
		case !isTop && !strings.EqualFold(args[i], "zones"):
			return o, fmt.Errorf("unknown load argument %q: there are \"top\", the number of keys that CL.TOP keeps, and \"zones\", a file with time zones", args[i])
		case i+1 == len(args) && isTop:
			return o, fmt.Errorf("load argument top: the number of keys is missing; it must be an integer from 0 to %d", top.MaxEntries)
		case i+1 == len(args):
			return o, errors.New("load argument zones: the path of the file is missing")
		case !isTop:
			o.zones = args[i+1]
		default:
			n, ok := words.ParseCount([]byte(args[i+1]), top.MaxEntries)
			if !ok && args[i+1] != "0" {
				return o, fmt.Errorf("load argument top: %q must be an integer from 0 to %d", args[i+1], top.MaxEntries)
			}
			o.top = n
		}
	}
	return o, nil
}

func configure(ctx *C.RedisModuleCtx, o options) error {
	zones := C.CString(o.zones)
	defer C.free(unsafe.Pointer(zones))
	if C.throttleConfigure(ctx, C.longlong(o.top), top.MaxEntries, zones) == C.API_OK {
		return nil
	}
	if problem := C.GoString(&C.throttleZonesProblem[0]); problem != "" {
		return errors.New(problem)
	}
	return fmt.Errorf("bad configuration: throttle.top must be an integer from 0 to %d", top.MaxEntries)
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
func throttleTopResize(keys C.longlong) {
	topKeys.Resize(int(keys))
	debug.FreeOSMemory() // the collector does not run by itself
}
