package module

/*
#include "bridge.h"
*/
import "C"

import (
	"runtime/debug"

	"redis-throttle/module/command"
	"redis-throttle/top"
)

// topKeys counts the keys that are limited; without entries unless throttle.top is
// set. topList is the reply to a CL.TOP in hand.
var (
	topKeys top.Table
	topList []top.Key
)

// countTop counts the call in hand if it was limited.
func countTop(c *C.throttleCall) {
	switch {
	case c.command == C.COMMAND_PEEK || c.command == C.COMMAND_REFUND:
	case current.Reply != command.ReplyIntegers && current.Reply != command.ReplyFields:
	case current.Integers[0] != 0:
		topKeys.Hit(int(c.db), current.Args[0], current.NowNs)
	}
}

// throttleTopResize makes room for so many keys, and forgets what was counted.
//
//export throttleTopResize
func throttleTopResize(entries C.longlong) {
	topKeys.Resize(int(entries))
	topList = nil
	debug.FreeOSMemory() // the collector does not run by itself
}

// throttleTopList puts the list for CL.TOP together and returns its length, or points
// problem to an error. word is the argument, if there was one.
//
//export throttleTopList
func throttleTopList(word C.throttleView, nowNs C.int64_t, problem **C.char) C.int {
	if topKeys.Len() == 0 {
		*problem = topIsOff
		return 0
	}
	n := 10
	if word.bytes != nil {
		var ok bool
		if n, ok = command.ParseCount(view(word), top.MaxEntries); !ok {
			*problem = badTopCount
			return 0
		}
	}
	topList = topKeys.Top(topList[:0], n, int64(nowNs))
	return C.int(len(topList))
}

var (
	topIsOff    = C.CString("ERR CL.TOP is off: it counts while the configuration throttle.top, the number of keys to keep, is above 0")
	badTopCount = C.CString("ERR count must be an integer from 1 to 100000")
)

// throttleTopAt shows the key in place index of the list.
//
//export throttleTopAt
func throttleTopAt(index C.int, key *C.throttleTopKey) {
	k := topList[index]
	key.db = C.int32_t(k.DB)
	key.count = C.int64_t(k.Count)
	key.error = C.int64_t(k.Error)
	key.nameLength = C.int32_t(copy(bytesOf(key.name[:]), k.Name))
}
