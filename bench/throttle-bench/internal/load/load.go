// Package load puts calls on a server and says how they fared: through
// redis-benchmark, and through a client of its own where that one is too coarse.
package load

import (
	"fmt"
	"strings"
)

// RandomKey stands in an argument for 12 digits, drawn anew for each occurrence from
// 0 up to Keys. It is redis-benchmark's own word.
const RandomKey = "__rand_int__"

// KeyNumber is what RandomKey becomes.
func KeyNumber(n int) string { return fmt.Sprintf("%0*d", len(RandomKey), n) }

// Calls is what to send.
type Calls struct {
	Addr     string
	Args     []string // the command; RandomKey in it varies
	Keys     int      // RandomKey is below this
	Requests int
	Clients  int
	Pipeline int // calls a client sends before it reads the replies
}

// Report is how the calls fared.
type Report struct {
	CallsPerSecond float64
	Latency        Latency
}

// Latency is how long calls took, as the client saw it, in microseconds.
type Latency struct{ P50, P95, P99, P999 float64 }

func (c Calls) String() string { return strings.Join(c.Args, " ") }
