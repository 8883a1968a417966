package durability

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"redis-throttle/tests/resp"
)

// The neighbour's commands go to these keys, of which only commands of ours know: a command
// of the server may read on, after its notification, in what a nested one has freed. Their
// limits last, because a key that another module writes to while the server expires it is
// deleted on replicas; and nothing nested deletes, because the server walks on from the key
// that it has expired.
const nestedKeys = 8

// nestedLimits are the limits of those keys, in turn. The first is used up soon; the last is
// more than a rate.
var nestedLimits = []string{
	"RATE 1/1h BURST 50",
	"RATE 1/1h BURST 1000000",
	"WINDOW 1000000/1d FIXED 1000000/1d RATE 1/1h BURST 1000000",
}

// Calls on a key and with a limit of those. Only rates can be waited for.
var (
	nestedReads  = []string{"CL.PEEK KEY STACK COST 3", "CL.TOP"}
	nestedWrites = []string{
		"CL.LIMIT KEY STACK", "CL.LIMIT KEY STACK COST 3 UPTO", "CL.LIMIT KEY STACK COST 2000000 STRICT", "CL.LIMIT KEY STACK COST 0",
		"CL.LIMIT KEY RATE COST 5 MAXWAIT 1d", "CL.REFUND KEY STACK COST 0", "CL.WAIT KEY RATE COST 2 TIMEOUT 0", "CL.WAIT KEY RATE TIMEOUT 1d",
		"CL.PEEK KEY STACK COST 3", "CL.TOP", "CL.MLIMIT 2 KEY nested:joint STACK", "CL.MLIMIT 2 nested:joint KEY STACK ANY",
		"CL.LEASE nested:leases SLOTS 5 TTL 1d ID nested", "CL.LEASE nested:leases SLOTS 1 TTL 1d ID late TIMEOUT 1d", "CL.RENEW nested:leases ID a TTL 1d", "CL.LEASES nested:leases",
	}
	nestingCalls = []string{
		"CL.LIMIT KEY STACK", "CL.LIMIT KEY STACK COST 3 UPTO", "CL.LIMIT KEY STACK COST 2000000 STRICT", "CL.LIMIT KEY RATE COST 5 MAXWAIT 1d",
		"CL.REFUND KEY STACK COST 2", "CL.REFUND KEY STACK COST 2000000", "CL.WAIT KEY RATE COST 2 TIMEOUT 1ms", "CL.PEEK KEY STACK COST 3",
		"CL.MLIMIT 2 KEY nested:joint STACK", "CL.MLIMIT 2 nested:joint KEY STACK COST 3 STRICT",
		"CL.LEASE nested:leases SLOTS 5 TTL 1d ID a", "CL.LEASE nested:leases SLOTS 1 TTL 1d ID b TIMEOUT 1ms", "CL.RENEW nested:leases ID a TTL 1d",
	}
)

// oneOf fills in one of some calls.
func oneOf(calls []string) (call []string) {
	i := rand.IntN(nestedKeys)
	words := strings.Fields(calls[rand.IntN(len(calls))])
	if slices.Contains(words, "RATE") && i%len(nestedLimits) == len(nestedLimits)-1 {
		i--
	}
	for _, word := range words {
		switch word {
		case "KEY":
			call = append(call, fmt.Sprintf("nested:%d", i))
		case "STACK", "RATE":
			call = append(call, strings.Fields(nestedLimits[i%len(nestedLimits)])...)
		default:
			call = append(call, word)
		}
	}
	return call
}

// nester changes what the neighbour does in the middle of every notification.
func (o *soak) nester(*resp.Conn) error {
	if !o.squeeze.TryLock() {
		return nil
	}
	defer o.squeeze.Unlock()
	seen := o.insist("NEIGHBOUR.SEEN")
	o.nest(nestedWrites)
	if len(seen.Elems) != 2 {
		return fmt.Errorf("%w to NEIGHBOUR.SEEN: %v", errWrong, seen)
	}
	o.count.nested.Add(seen.Elems[0].Int)
	switch text := seen.Elems[1].Text; text {
	case "", "ERR key is being created by the command that this call is nested in":
		return nil
	default:
		return fmt.Errorf("%w to the neighbour: %s", errWrong, text)
	}
}

// nest has the neighbour make one of some calls from now on, or none.
func (o *soak) nest(calls []string) {
	command := []string{"NEIGHBOUR.DO"}
	if calls != nil {
		command = append(command, oneOf(calls)...)
	}
	o.insist(command...)
}

// callerOfNested makes calls in whose middle there are calls on the same key.
func (o *soak) callerOfNested(c *resp.Conn) error {
	calls := make([][]string, 1+rand.IntN(16))
	for i := range calls {
		calls[i] = oneOf(nestingCalls)
	}
	return o.ask(c, calls)
}
