// Package module is the Redis/Valkey module "throttle": how it is loaded, and the
// bridge over which C hands each command to Go.
//
// C gathers and applies (command.c), Go decides (package command), and they meet in
// one call for each command (boundary.go).
package module

/*
#cgo CFLAGS: -O2 -Wall -Werror=implicit-function-declaration
#include <stdlib.h>
#include "load.h"
#include "server.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"unsafe"

	"github.com/wenerme/go-rm/rm"
)

const name = "throttle"

// softMemoryLimit is where the collector sets in after all, in bytes. Decisions allocate
// nothing; what does are the callers of CL.WAIT that wait (a few hundred bytes each, used
// again) and the table of CL.TOP.
const softMemoryLimit = 256 << 20

// New describes the module to go-rm, which loads it. Commands are not registered
// through go-rm: its dispatcher formats every call's arguments and passes the text
// to the server's log as a format string.
func New() *rm.Module {
	return &rm.Module{
		Name:    name,
		Version: major*10000 + minor*100 + patch,
		SemVer:  version(),
		AfterInit: func(ctx rm.Ctx, args []rm.String) error {
			if err := load(serverContext(ctx), args); err != nil {
				log(serverContext(ctx), "warning", "not loaded: "+err.Error())
				C.throttleSilenceGoRm()
				return errNotLoaded
			}
			return nil
		},
	}
}

// errNotLoaded is all that go-rm gets to see of a failure. It would log the error as a
// format string, and as "BeforeInit failed", which tells an operator nothing.
var errNotLoaded = errors.New("not loaded")

func version() string { return fmt.Sprintf("%d.%d.%d", major, minor, patch) }

// load runs in the server's main thread, at startup or on MODULE LOAD.
func load(ctx *C.RedisModuleCtx, args []rm.String) error {
	C.throttleRestoreTimerSlack()
	tameRuntime()
	C.throttleNoteGoThreads() // after GOMAXPROCS, which may start one more
	if problem := prepare(ctx); problem != "" {
		return errors.New(problem)
	}
	o, err := parseOptions(texts(args))
	if err != nil {
		return err
	}
	if err := register(ctx); err != nil {
		return err
	}
	build := fmt.Sprintf("%s (commit %s, %s)", version(), commit, runtime.Version())
	registerInfo(ctx, build)
	if err := configure(ctx, o); err != nil {
		return err
	}
	registerAliases(ctx)
	if warning := aboutZones(); warning != "" {
		log(ctx, "warning", warning)
	}
	if effect := C.throttleUnknownEffect(ctx); effect != nil {
		log(ctx, "warning", C.GoString(effect)+" has another name here, or none (rename-command): changes of limits will reach neither replicas nor the append-only file")
	}
	C.throttleSubscribe(ctx, cName)
	log(ctx, "notice", fmt.Sprintf("%s %s ready", name, build))
	return nil
}

// tameRuntime keeps the Go runtime out of the server's way: no collections for
// growth that is not there, and no second thread to run Go code on.
func tameRuntime() {
	debug.SetGCPercent(-1)
	debug.SetMemoryLimit(softMemoryLimit)
	runtime.GOMAXPROCS(1)
}

// cName is C's for as long as the process lives.
var cName = C.CString(name)

func prepare(ctx *C.RedisModuleCtx) (problem string) {
	return C.GoString(C.throttlePrepare(ctx, cName))
}

func registerInfo(ctx *C.RedisModuleCtx, build string) {
	cBuild := C.CString(build)
	defer C.free(unsafe.Pointer(cBuild))
	C.throttleRegisterInfo(ctx, cBuild)
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
