// Package module is the Redis/Valkey module "throttle": how it is loaded, and the
// bridge over which C hands each command to Go.
//
// C gathers and applies (command.c), Go decides (package command), and they meet in
// one call for each command (boundary.go).
package module

/*
#cgo CFLAGS: -O2 -Wall
#include <stdlib.h>
#include "bridge.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"unsafe"

	"github.com/wenerme/go-rm/rm"

	"redis-throttle/module/command"
)

const name = "throttle"

// softMemoryLimit is where the collector would set in after all, in bytes. The
// commands allocate nothing; this is the net under that.
const softMemoryLimit = 64 << 20

// New describes the module to go-rm, which loads it. Commands are not registered
// through go-rm: its dispatcher formats every call's arguments and passes the text
// to the server's log as a format string.
func New() *rm.Module {
	return &rm.Module{
		Name:      name,
		Version:   major*10000 + minor*100 + patch,
		SemVer:    version(),
		AfterInit: func(ctx rm.Ctx, _ []rm.String) error { return load(ctx) },
	}
}

func version() string { return fmt.Sprintf("%d.%d.%d", major, minor, patch) }

// load runs in the server's main thread, at startup or on MODULE LOAD.
func load(ctx rm.Ctx) error {
	C.throttleRestoreTimerSlack()
	tameRuntime()
	if err := prepare(serverContext(ctx)); err != nil {
		return err
	}
	for i, c := range command.Table {
		if err := register(serverContext(ctx), i, c); err != nil {
			return err
		}
	}
	log(serverContext(ctx), "notice", fmt.Sprintf("%s %s (commit %s, %s) ready", name, version(), commit, runtime.Version()))
	return nil
}

// tameRuntime keeps the Go runtime out of the server's way: no collections for
// growth that is not there, and no second thread to run Go code on.
func tameRuntime() {
	debug.SetGCPercent(-1)
	debug.SetMemoryLimit(softMemoryLimit)
	runtime.GOMAXPROCS(1)
}

func prepare(ctx *C.RedisModuleCtx) error {
	cName := C.CString(name)
	defer C.free(unsafe.Pointer(cName))
	if problem := C.throttlePrepare(ctx, cName); problem != nil {
		return errors.New(C.GoString(problem))
	}
	return nil
}

func register(ctx *C.RedisModuleCtx, index int, c command.Command) error {
	cName, cFlags := C.CString(c.Name), C.CString(c.Flags)
	defer C.free(unsafe.Pointer(cName))
	defer C.free(unsafe.Pointer(cFlags))
	if C.throttleRegister(ctx, C.int(index), cName, cFlags, C.int(c.Kind)) != C.API_OK {
		return fmt.Errorf("command %s is already taken by another module", c.Name)
	}
	return nil
}

func log(ctx *C.RedisModuleCtx, level, text string) {
	cLevel, cText := C.CString(level), C.CString(text)
	defer C.free(unsafe.Pointer(cLevel))
	defer C.free(unsafe.Pointer(cText))
	C.throttleLog(ctx, cLevel, cText)
}

// serverContext turns go-rm's handle back into the pointer it is. The pointer is
// to the server's memory, not Go's.
func serverContext(ctx rm.Ctx) *C.RedisModuleCtx {
	return *(**C.RedisModuleCtx)(unsafe.Pointer(&ctx))
}
