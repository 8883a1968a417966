package module

/*
#include <stdlib.h>
#include "line.h"
#include "load.h"
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

// options are what the load arguments say:
// `loadmodule throttle.so top 1000 max-waiting 500 zones /etc/redis/zones.zip aliases RL.THROTTLE,GCRA`.
type options struct {
	top, maxWaiting int
	zones, aliases  string
}

// aliases are the commands that throttle.aliases names.
var aliases []*command.Command

func parseOptions(args []string) (options, error) {
	o := options{maxWaiting: C.MAX_WAITING_BY_MEMORY}
	for i := 0; i < len(args); i += 2 {
		name, value := strings.ToLower(args[i]), ""
		if i+1 < len(args) {
			value = args[i+1]
		}
		if err := o.set(name, value, i+1 == len(args)); err != nil {
			return o, err
		}
	}
	return o, nil
}

func (o *options) set(name, value string, isMissing bool) (err error) {
	missing := func(what string) error {
		if isMissing {
			return fmt.Errorf("load argument %s: %s", name, what)
		}
		return nil
	}
	switch name {
	case "top":
		if err = missing(fmt.Sprintf("the number of keys is missing; it must be an integer from 0 to %d", top.MaxEntries)); err == nil {
			o.top, err = parseNumber(name, value, 0, top.MaxEntries)
		}
	case "max-waiting":
		if err = missing(fmt.Sprintf("the number of callers is missing; it must be an integer from 0 to %d", maxMaxWaiting)); err == nil {
			o.maxWaiting, err = parseNumber(name, value, C.MAX_WAITING_BY_MEMORY, maxMaxWaiting)
		}
	case "zones":
		err = missing("the path of the file is missing")
		o.zones = value
	case "aliases":
		err = missing("the names are missing, such as RL.THROTTLE,GCRA")
		o.aliases = value
	default:
		err = fmt.Errorf("unknown load argument %q: there are \"top\", the number of keys that CL.TOP keeps, \"max-waiting\", how many callers may wait in line, "+
			"\"zones\", a file with time zones, and \"aliases\", other names of CL.THROTTLE", name)
	}
	return err
}

// maxMaxWaiting is the largest number that throttle.max-waiting takes. No server has as many connections.
const maxMaxWaiting = 100_000_000

// parseNumber reads an integer from least, which is 0 or -1, to most.
func parseNumber(name, value string, least, most int) (int, error) {
	n, ok := words.ParseCount([]byte(value), most)
	switch {
	case ok:
		return n, nil
	case value == "0":
		return 0, nil
	case value == "-1" && least < 0:
		return -1, nil
	}
	return 0, fmt.Errorf("load argument %s: %q must be an integer from %d to %d", name, value, least, most)
}

func configure(ctx *C.RedisModuleCtx, o options) error {
	zones, names := C.CString(o.zones), C.CString(o.aliases)
	defer C.free(unsafe.Pointer(zones))
	defer C.free(unsafe.Pointer(names))
	atLoad := C.throttleOptions{top: C.longlong(o.top), topMax: top.MaxEntries, maxWaiting: C.longlong(o.maxWaiting), maxWaitingMax: maxMaxWaiting}
	atLoad.zones, atLoad.aliases = zones, names
	if C.throttleConfigure(ctx, &atLoad) == C.API_OK {
		return nil
	}
	for _, problem := range []string{C.GoString(&C.throttleZonesProblem[0]), C.GoString(&C.throttleAliasesProblem[0])} {
		if problem != "" {
			return errors.New(problem)
		}
	}
	return fmt.Errorf("bad configuration: throttle.top must be an integer from 0 to %d, and throttle.max-waiting one from -1 to %d", top.MaxEntries, maxMaxWaiting)
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

// throttleUseAliases takes the value of throttle.aliases. It returns NULL, or what is wrong with it, which the caller
// frees.
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
