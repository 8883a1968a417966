package command

import "redis-throttle/limiter/command/words"

// What COMMAND DOCS shows of a command, its words aside.

// perLimit is the complexity of the commands that have limits.
const perLimit = "O(N) where N is the number of limits, at most 8. A WINDOW adds O(1), at most 65 entries."

// manyLimits is the complexity of the commands that have several keys with limits.
const manyLimits = "O(N*M) where N is the number of keys and M the number of limits of a key, each at most 8. A WINDOW adds O(1), at most 65 entries, and SLOTS O(log L) where L is the number of leases."

// keyArgs are the arguments in front of all others.
func keyArgs(keys Keys) []words.Arg {
	switch keys {
	case OneKey:
		return []words.Arg{{Name: "key", Type: words.ArgKey}}
	case CountedKeys:
		return []words.Arg{{Name: "numkeys", Type: words.ArgInteger}, {Name: "key", Type: words.ArgKey, Multiple: true}}
	}
	return nil
}
