package main

import (
	"bytes"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A client that disconnects while it waits leaves its line, however many commands it sent behind.
func TestAClientThatWaitsLeavesWithWhatItSentBehind(t *testing.T) {
	s := start(t, "")
	c := connect(t, s)
	for name, waits := range map[string][]string{
		"a slot":     {"CL.LEASE", "k", "SLOTS", "0", "TTL", "1h", "ID", "a", "TIMEOUT", "0"},
		"a list":     {"BLPOP", "k", "0"},
		"some units": {"CL.WAIT", "k", "WINDOW", "1/h", "TIMEOUT", "0"},
	} {
		c.do("FLUSHALL")
		c.do("CL.LIMIT units WINDOW 1/h")
		if name == "some units" {
			c.do("RENAME units k")
		}
		behind := bytes.Repeat(encoded([]string{"SET", "behind", "1"}), 20*readAhead)
		conn := sends(t, s, append(encoded(waits), behind...))
		awaitWaiting(t, c, 1)
		require.NoError(t, conn.Close())
		awaitWaiting(t, c, 0)
		assert.Equal(t, ":0", c.do("EXISTS behind"), "%s: nothing behind was run", name)
	}
}

// What a client sent while it waited is run afterwards, in order.
func TestCommandsBehindOneThatWaitsAreRun(t *testing.T) {
	s := start(t, "")
	c := connect(t, s)
	const behind = 5 * readAhead
	sends(t, s, append(encoded([]string{"BLPOP", "k", "0"}), bytes.Repeat(encoded([]string{"INCR", "n"}), behind)...))
	awaitWaiting(t, c, 1)
	c.do("RPUSH k x")
	require.Eventually(t, func() bool { return c.do("GET n") == fmt.Sprintf("$4 %d", behind) }, within1m, time.Millisecond)
}

// What is read ahead has bounds: a number of commands, and of bytes. A client that waits is disconnected beyond these,
// and any other one has to wait until its commands are run.
func TestAnInboxIsBounded(t *testing.T) {
	for _, c := range []struct{ bytes, fits, fitsWaiting int }{{1, readAhead, -1}, {600 << 10, readAhead, 1747}, {4 << 20, 255, 255}, {2 * mostAhead, 1, 0}} {
		synctest.Test(t, func(t *testing.T) {
			words := [][]byte{make([]byte, c.bytes)}
			b := newInbox()
			fits, open := 0, true
			fill := func() {
				for open = b.put(request{words: words}); open && fits < 4*readAhead; open = b.put(request{words: words}) {
					fits++
				}
			}
			go fill()
			synctest.Wait()
			assert.Equal(t, c.fits, fits)
			b.pop()
			synctest.Wait()
			assert.Equal(t, c.fits+1, fits)
			assert.True(t, open)
			b.wait(true)
			synctest.Wait()
			if c.fitsWaiting >= 0 {
				assert.Equal(t, max(c.fits, c.fitsWaiting)+1, fits)
				assert.False(t, open)
			} else {
				assert.True(t, open)
			}
		})
	}
}

// The goroutines that read for a client and run its commands end with it.
func TestAnInboxEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		full, empty := newInbox(), newInbox()
		go func() {
			for full.put(request{}) {
			}
		}()
		go empty.pop()
		synctest.Wait()
		full.end()
		empty.end()
	})
}
