package module

/*
#include <stdlib.h>
#include "load.h"
*/
import "C"

import (
	"fmt"
	"unsafe"

	"redis-throttle/limiter/calendar"
)

//export throttleMaxZonesFile
func throttleMaxZonesFile() C.size_t { return calendar.MaxArchive }

// throttleUseZones makes time zones go by the content of a file, or by the built-in data if there is no path. It
// returns NULL, or what is wrong with the file, for the caller to free; then nothing changes.
//
//export throttleUseZones
func throttleUseZones(path *C.char, content unsafe.Pointer, length C.size_t) (problem *C.char) {
	defer func() {
		if fault := recover(); fault != nil {
			problem = C.CString(fmt.Sprint("internal error: ", fault))
		}
	}()
	data, source := calendar.BuiltIn(), "built-in"
	if C.GoString(path) != "" {
		read, err := calendar.Read(unsafe.Slice((*byte)(content), int(length)))
		if err != nil {
			return C.CString(err.Error())
		}
		data, source = read, C.GoString(path)
	}
	if data != calendar.Current() {
		forget() // the module may have been loaded before, with other zones
	}
	calendar.Use(data)
	showZones(data, source)
	return nil
}

func showZones(data *calendar.Data, source string) {
	cVersion, cSource := C.CString(data.Version()), C.CString(source)
	defer C.free(unsafe.Pointer(cVersion))
	defer C.free(unsafe.Pointer(cSource))
	C.throttleShowZones(cVersion, cSource, C.uint64_t(max(0, data.Time().Unix())), C.uint64_t(data.Checksum()))
}

// aboutZones is a warning of zones that are older than they could be, or "".
func aboutZones() string {
	data, builtIn := calendar.Current(), calendar.BuiltIn()
	if n, example := data.Missing(); n > 0 {
		return fmt.Sprintf("throttle.zones: the file lacks %d time zones, such as %s, which stay those of the module (%s). "+
			"In Debian 13 and later they are in the package tzdata-legacy", n, example, builtIn.Version())
	}
	if len(data.Version()) == len(builtIn.Version()) && data.Version() < builtIn.Version() {
		return fmt.Sprintf("throttle.zones: the file has time zones of version %s, the module has newer ones, of %s", data.Version(), builtIn.Version())
	}
	return ""
}
