package durability

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
)

// The limits of those keys, in turn: what lasts, what crosses a second now and then,
// and what expires and is made again all the time.
var randomLimits = []limit{
	hourly,
	hourly,
	{"999 1000 86400", 1000},
	{"999 1000 100", 1000},
	{"9 10 1s", 10},
	{"0 2000 1", 1},
}

// What CL.LIMIT keeps at a fifth of the keys: several limits in one value, of all
// kinds and lengths.
var randomStacks = []string{
	"RATE 5/s BURST 10 RATE 100000/h",
	"WINDOW 100/h",
	"WINDOW 20/1s",
	"FIXED 1000/d",
	"RATE 100/h BURST 20 WINDOW 50/10m FIXED 100/d",
}

// callFor is about key i, and asks for nothing, for a unit, for some or for too many; or it gives units back.
func callFor(i int, rnd *rand.Rand) []string {
	key := fmt.Sprintf("key:%d", i)
	l := randomLimits[i%len(randomLimits)]
	quantity := int64(1)
	switch rnd.IntN(10) {
	case 0:
		quantity = 0
	case 1, 2:
		quantity = rnd.Int64N(10)
	case 3:
		quantity = rnd.Int64N(l.capacity) + 2
	}
	if i%5 > 0 {
		return l.call(key, quantity)
	}
	stack := strings.Fields(randomStacks[i/5%len(randomStacks)])
	command := []string{"CL.LIMIT", "CL.LIMIT", "CL.LIMIT", "CL.PEEK", "CL.REFUND"}[rnd.IntN(5)]
	call := append(append([]string{command, key}, stack...), "COST", strconv.FormatInt(quantity, 10))
	if command == "CL.LIMIT" {
		call = append(call, [][]string{nil, {"UPTO"}, {"STRICT"}}[rnd.IntN(3)]...)
	}
	return call
}
