package doors

import (
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"redis-throttle/functions"
)

var (
	version = functions.Version()
	text    = functions.Script()
	sha     = func() string {
		sum := sha1.Sum([]byte(text))
		return hex.EncodeToString(sum[:])
	}()
	// Clients load the library under a name with its version, so that none takes a newer one for the one that it wants
	// to replace.
	code = "#!lua name=" + nameOf(int64(version)) + "\n" + text
)

// nameOf is the name of a library that a client loaded.
func nameOf(version int64) string { return fmt.Sprintf("throttle_%d", version) }

// dotted is a version as people write it.
func dotted(version int64) string {
	return fmt.Sprintf("%d.%d.%d", version/10000, version/100%100, version%100)
}

// functionOf is the name of the function that does as a command.
func functionOf(command any) string {
	name, _ := command.(string)
	return strings.ToLower(strings.Replace(name, ".", "_", 1))
}

// reads says whether a function changes nothing, and runs on replicas.
func reads(function string) bool {
	return function == "cl_peek" || function == "cl_leases" || function == "cl_inspect"
}

// keysOf is how many keys a command has, as the server is told, and where they begin.
func keysOf(args []any) (count string, n, first int) {
	if args[0] != "CL.MLIMIT" && args[0] != "CL.SETTLE" {
		return "1", 1, 1
	}
	count, _ = args[1].(string)
	n, _ = strconv.Atoi(count)
	return count, n, 2
}

// AsFunction is a command as a call of the function that does the same. Its first key is at 3.
func AsFunction(args []any) []any {
	function := functionOf(args[0])
	call := "FCALL"
	if reads(function) {
		call = "FCALL_RO"
	}
	count, _, first := keysOf(args)
	return append(append(make([]any, 0, len(args)+3), call, function, count), args[first:]...)
}

// AsScript is AsFunction for the script with a hash: there the name of the function comes behind the keys.
func AsScript(args []any, sha string) []any {
	function := functionOf(args[0])
	call := "EVALSHA"
	if reads(function) {
		call = "EVALSHA_RO"
	}
	count, n, first := keysOf(args)
	behind := min(first+n, len(args))
	words := append(append(make([]any, 0, len(args)+4), call, sha, count), args[first:behind]...)
	return append(append(words, function), args[behind:]...)
}

// whole is a call of AsScript with the script instead of its hash.
func whole(args []any) []any {
	args[0] = strings.Replace(args[0].(string), "EVALSHA", "EVAL", 1)
	args[1] = text
	return args
}
