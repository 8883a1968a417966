package durability

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"

	"redis-throttle/internal/size"
	"redis-throttle/tests/resp"
	"redis-throttle/tests/server"
)

// kill -9 in the middle of things, again and again, with every write synced before it
// is answered: what a caller was told holds. Of the calls in flight some may have
// been decided and never answered, but in order, and each once.
func TestKilledUnderLoadKeepsWhatWasAcknowledged(t *testing.T) {
	begin(t)
	const callers, pipelined, most = 8, 8, 800
	cycles := size.Of(10, 60)
	s := server.Start(t, server.AppendOnly("always"))
	limits := map[string]limit{"shared:0": hourly, "shared:1": fine}
	for caller := range callers {
		for n := range ownKeys {
			limits[ownKey(caller, n)] = []limit{hourly, fine}[n%2]
		}
	}
	book := openLedger(t, s, limits)
	var acknowledged atomic.Int64
	var unheardOf int64
	for cycle := range cycles {
		if cycle%4 == 0 {
			s.MustDo("BGREWRITEAOF") // so that some deaths come amid a rewrite
		}
		killUnder(t, s, callers, 1+rand.Int64N(most), func(c *resp.Conn, caller int, answered func()) {
			hammer(t, c, book, caller, pipelined, func() { acknowledged.Add(1); answered() })
		})
		s.Restart()
		unheardOf += book.settle(t, s)
		if t.Failed() {
			return
		}
	}
	t.Logf("%d kills, %d calls acknowledged, none lost; %d units taken by calls in flight at a kill", cycles, acknowledged.Load(), unheardOf)
}

// killUnder kills a server when its callers were answered so many times, or are all gone because they have failed the test.
func killUnder(t *testing.T, s *server.Server, callers int, enough int64, call func(c *resp.Conn, caller int, answered func())) {
	t.Helper()
	var answers atomic.Int64
	reached := make(chan struct{})
	stop := sync.OnceFunc(func() { close(reached) })
	var running sync.WaitGroup
	for caller := range callers {
		c := s.Raw()
		running.Go(func() {
			call(c, caller, func() {
				if answers.Add(1) == enough {
					stop()
				}
			})
		})
	}
	go func() { running.Wait(); stop() }()
	<-reached
	s.Kill()
	running.Wait()
}

// ownKeys is how many keys each caller has to itself.
const ownKeys = 4

func ownKey(caller, n int) string { return fmt.Sprintf("own:%d:%d", caller, n) }

// hammer asks for units, several calls in flight, until the connection breaks. Keys
// of its own show whether calls are lost or doubled within what one caller sent; the
// shared ones, where callers overtake each other, get one unit a call.
func hammer(t *testing.T, c *resp.Conn, book *ledger, caller, pipelined int, answered func()) {
	rnd := rand.New(rand.NewPCG(rand.Uint64(), 0))
	type call struct {
		key      string
		quantity int64
	}
	calls := make([]call, pipelined)
	for {
		for i := range calls {
			calls[i] = call{ownKey(caller, rnd.IntN(ownKeys)), 1 + rnd.Int64N(3)}
			if rnd.IntN(2) == 0 {
				calls[i] = call{fmt.Sprintf("shared:%d", rnd.IntN(2)), 1}
			}
			book.asks(caller, calls[i].key, calls[i].quantity)
			if c.Send(book.limitOf(calls[i].key).call(calls[i].key, calls[i].quantity)...) != nil {
				return
			}
		}
		if c.Flush() != nil {
			return
		}
		for _, sent := range calls {
			v, err := c.Receive()
			if err != nil {
				return
			}
			a, err := answerIn(v)
			if !assert.NoError(t, err) {
				return
			}
			if !assert.NoError(t, book.has(caller, sent.key, a), sent.key) {
				return
			}
			answered()
		}
	}
}
