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

	"redis-throttle/limiter/command"
	"redis-throttle/limiter/command/words"
	"redis-throttle/limiter/top"
)

// options are what the load arguments say: `loadmodule throttle.so top 1000 zones /etc/redis/zones.zip aliases RL.THROTTLE,GCRA`.
type options struct {
	top            int
	zones, aliases string
}

// aliases are the commands that throttle.aliases names.
var aliases []*command.Command

func parseOptions(args []string) (o options, err error) {
	for i := 0; i < len(args); i += 2 {
		is := func(name string) bool { return strings.EqualFold(args[i], name) }
		isLast := i+1 == len(args)
		switch {
		case !is("top") && !is("zones") && !is("aliases"):
			return o, fmt.Errorf("unknown load argument %q: there are \"top\", the number of keys that CL.TOP keeps, \"zones\", a file with time zones, "+
				"and \"aliases\", other names of CL.THROTTLE", args[i])
		case isLast && is("top"):
			return o, fmt.Errorf("load argument top: the number of keys is missing; it must be an integer from 0 to %d", top.MaxEntries)
		case isLast && is("zones"):
			return o, errors.New("load argument zones: the path of the file is missing")
		case isLast:
			return o, errors.New("load argument aliases: the names are missing, such as RL.THROTTLE,GCRA")
		case is("zones"):
			o.zones = args[i+1]
		case is("aliases"):
			o.aliases = args[i+1]
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
	names := C.CString(o.aliases)
	defer C.free(unsafe.Pointer(names))
	if C.throttleConfigure(ctx, C.longlong(o.top), top.MaxEntries, zones, names) == C.API_OK {
		return nil
	}
	for _, problem := range []string{C.GoString(&C.throttleZonesProblem[0]), C.GoString(&C.throttleAliasesProblem[0])} {
		if problem != "" {
			return errors.New(problem)
		}
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

// throttleUseAliases takes the value of throttle.aliases. It returns NULL, or what is wrong with it, which the caller frees.
//
//export throttleUseAliases
func throttleUseAliases(text *C.char, length C.size_t) (problem *C.char) {
	all, err := command.ParseAliases(string(nameAt(text, length)))
	if err != nil {
		return C.CString("throttle.aliases: " + err.Error())
	}
	aliases = all
	return nil
}

//export throttleTopResize
func throttleTopResize(keys C.longlong) {
	topKeys.Resize(int(keys))
	debug.FreeOSMemory() // the collector does not run by itself
}
