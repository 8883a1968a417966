package main

// hostMain is the server that most contenders share: with the module as it comes, and the floor.
const hostMain = ""

// The other hosts, beside those that are called by the path of their module.
const (
	hostPlain = "without module"
	hostTop   = "CL.TOP on"
)

const (
	groupBaseline = "baseline"
	groupFloor    = "floor"
	groupThrottle = "CL.THROTTLE"
	groupLimit    = "CL.LIMIT"
	groupLua      = "lua"
	groupPeer     = "peer"
	groupBuild    = "build"
)

// baseline is the contender that the others' figures are divided by.
const baseline = "SET PX"

// The least that a module can do, by the kind of call.
const (
	floorAllowed       = "floor allowed"
	floorDenied        = "floor denied"
	floorAllowedFields = "floor allowed, fields"
	floorDeniedFields  = "floor denied, fields"
)

// The limits that are measured. Allowed calls are within 1000 per minute, which is what
// an API grants a customer. Here the key's expiry moves on by 60 ms a call, so that on a
// busy key about one call in 17 crosses a whole second and writes a new expiry; on a key
// that is called less than once a second, every call does. The two extremes are measured
// beside it: 10^6 per second, where only the clock's own seconds count, and one per second.
// Denied calls are those after the first within an hour: a limiter that logs its calls
// then has the least there is to keep.
const (
	callAllowed     = "CL.THROTTLE {key} 999 1000 60 1"
	callNewExpiry   = "CL.THROTTLE {key} 99999 1 1 1"
	callSameExpiry  = "CL.THROTTLE {key} 999999 1000000 1 1"
	callDenied      = "CL.THROTTLE {key} 0 1 3600 1"
	callPeek        = "CL.THROTTLE {key} 999 1000 60 0"
	callPartlyTaken = "CL.THROTTLE {key} 999 1000 60 200"
	callKept        = "CL.THROTTLE {key} 999 1000 86400 1"
	// The value is as long as the state of CL.THROTTLE.
	callSet     = "SET {key} 1700000000000000000 PX 60000"
	callSetLong = "SET {key} 1700000000000000000 PX 86400000"

	callThree = "CL.LIMIT {key} RATE 1000/m RATE 100000/h RATE 1000000/d"
	// Eight stacks that callers with different limits have.
	callThreeMixed = "CL.LIMIT {key} RATE 100{mix}/m RATE 10000{mix}/h RATE 100000{mix}/d"
)

// contenders is everything that takes part, in the order of the table. To add one, add a
// row; a command the server does not have yet is skipped with a note. A server without the
// module has none: two servers of one kind differ by some percent either way, and no
// difference was found beyond that.
var contenders = []Contender{
	{Name: "PING", Group: groupBaseline, Args: "PING", Setup: []string{}, Verify: is("PONG"), Writes: writesNever},
	{Name: "GET", Group: groupBaseline, Args: "GET {key}", Setup: []string{callSetLong}, Verify: is("1700000000000000000"), Writes: writesNever},
	{Name: baseline, Group: groupBaseline, Args: callSet, Verify: is("OK"), Writes: writesAlways, Keeps: []string{callSetLong}},

	{Name: floorAllowed, Group: groupFloor, Args: "FLOOR.ALLOWED {key}", Setup: []string{callSetLong, "{call}"}, Verify: isAllowed, Writes: writesAlways},
	{Name: floorDenied, Group: groupFloor, Args: "FLOOR.DENIED {key}", Setup: []string{callSetLong, "{call}"}, Verify: isDenied, Writes: writesNever},
	{Name: floorAllowedFields, Group: groupFloor, Args: "FLOOR.ALLOWED.FIELDS {key}", Setup: []string{callSetLong, "{call}"}, Verify: isAllowed, Writes: writesAlways},
	{Name: floorDeniedFields, Group: groupFloor, Args: "FLOOR.DENIED.FIELDS {key}", Setup: []string{callSetLong, "{call}"}, Verify: isDenied, Writes: writesNever},

	{Name: "CL.THROTTLE allowed", Group: groupThrottle, Args: callAllowed, Beside: floorAllowed, Verify: isAllowed, Writes: writesAlways, Keeps: []string{callKept}},
	{Name: "CL.THROTTLE allowed, 10^6/s", Group: groupThrottle, Args: callSameExpiry, Beside: floorAllowed, Verify: isAllowed, Writes: writesAlways},
	{Name: "CL.THROTTLE allowed, 1/s", Group: groupThrottle, Args: callNewExpiry, Beside: floorAllowed, Verify: isAllowed, Writes: writesAlways},
	{Name: "CL.THROTTLE denied", Group: groupThrottle, Args: callDenied, Beside: floorDenied, Verify: isDenied, Writes: writesNever},
	{Name: "CL.THROTTLE peek", Group: groupThrottle, Args: callPeek, Setup: []string{callPartlyTaken}, Beside: floorDenied, Verify: isAllowed, Writes: writesNever},
	{Name: "CL.THROTTLE denied, CL.TOP on", Group: groupThrottle, Host: hostTop, Args: callDenied, Beside: "CL.THROTTLE denied", Verify: isDenied, Writes: writesNever},

	{Name: "CL.LIMIT allowed", Group: groupLimit, Args: "CL.LIMIT {key} RATE 1000/m", Beside: floorAllowedFields, Verify: isAllowed, Writes: writesAlways, Keeps: []string{"CL.LIMIT {key} RATE 1000/d"}},
	{Name: "CL.LIMIT denied", Group: groupLimit, Args: "CL.LIMIT {key} RATE 1/h", Beside: floorDeniedFields, Verify: isDenied, Writes: writesNever},
	{Name: "CL.LIMIT three rates, allowed", Group: groupLimit, Args: callThree, Beside: floorAllowedFields, Verify: isAllowed, Writes: writesAlways, Keeps: []string{"CL.LIMIT {key} RATE 1000/d RATE 100000/30d RATE 1000000/60d"}},
	{Name: "CL.LIMIT three rates, eight stacks", Group: groupLimit, Args: callThreeMixed, Beside: "CL.LIMIT three rates, allowed", Verify: isAllowed, Writes: writesAlways},
	{Name: "CL.LIMIT WINDOW, allowed", Group: groupLimit, Args: "CL.LIMIT {key} WINDOW 100/m", Beside: floorAllowedFields, Verify: isAllowed, Writes: writesAlways, Keeps: []string{"CL.LIMIT {key} WINDOW 1000/d"}},
	{Name: "CL.LIMIT WINDOW, denied", Group: groupLimit, Args: "CL.LIMIT {key} WINDOW 100/m", Setup: []string{"{call} COST 100"}, Beside: floorDeniedFields, Verify: isDenied, Writes: writesNever},
	{Name: "CL.LIMIT FIXED, allowed", Group: groupLimit, Args: "CL.LIMIT {key} FIXED 1000/m", Beside: floorAllowedFields, Verify: isAllowed, Writes: writesAlways, Keeps: []string{"CL.LIMIT {key} FIXED 1000/30d"}},
	{Name: "CL.PEEK", Group: groupLimit, Args: "CL.PEEK {key} RATE 1000/m", Setup: []string{"CL.LIMIT {key} RATE 1000/m COST 200"}, Beside: floorDeniedFields, Verify: isAllowed, Writes: writesNever},

	{Name: "Lua fixed window, allowed", Group: groupLua, Script: "fixed_window.lua", Args: "EVALSHA {sha} 1 {key} 1000 60", Verify: isAllowed, Keeps: []string{"EVALSHA {sha} 1 {key} 1000 86400"}},
	{Name: "Lua fixed window, denied", Group: groupLua, Script: "fixed_window.lua", Args: "EVALSHA {sha} 1 {key} 1 3600", Verify: isDenied},
	{Name: "Lua token bucket, allowed", Group: groupLua, Script: "token_bucket.lua", Args: "EVALSHA {sha} 1 {key} 16.667 1000 1", Verify: isAllowed, Keeps: []string{"EVALSHA {sha} 1 {key} 0.011574 1000 1"}},
	{Name: "Lua token bucket, denied", Group: groupLua, Script: "token_bucket.lua", Args: "EVALSHA {sha} 1 {key} 0.00027778 1 1", Verify: isDenied},
	{Name: "Lua window log, allowed", Group: groupLua, Script: "window_log.lua", Args: "EVALSHA {sha} 1 {key} 1000 60000000 {id}", Verify: isAllowed, Keeps: []string{"EVALSHA {sha} 1 {key} 1000 86400000000 {id}"}},
	{Name: "Lua window log, denied", Group: groupLua, Script: "window_log.lua", Args: "EVALSHA {sha} 1 {key} 1 3600000000 {id}", Verify: isDenied},
	{Name: "Lua permits, allowed", Group: groupLua, Script: "permits.lua", Setup: []string{"HSET {key} rate 1000 interval 60000", "{call}"}, Args: "EVALSHA {sha} 1 {key} 1 {id}", Verify: isAllowed, Keeps: []string{"HSET {key} rate 1000 interval 86400000", "EVALSHA {sha} 1 {key} 1 {id}"}},
	{Name: "Lua permits, denied", Group: groupLua, Script: "permits.lua", Setup: []string{"HSET {key} rate 1 interval 3600000", "{call}"}, Args: "EVALSHA {sha} 1 {key} 1 {id}", Verify: isDenied},
	{Name: "Lua GCRA, allowed", Group: groupLua, Script: "gcra.lua", Args: "EVALSHA {sha} 1 {key} 999 1000 60 1", Verify: isAllowed, Keeps: []string{"EVALSHA {sha} 1 {key} 999 1000 86400 1"}},
	{Name: "Lua GCRA, denied", Group: groupLua, Script: "gcra.lua", Args: "EVALSHA {sha} 1 {key} 0 1 3600 1", Verify: isDenied},
}
