package durability

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/resp"
	"redis-throttle/tests/server"
	"redis-throttle/tests/topology"
)

// longWait is a caller who asked for a unit that comes in hours or years.
type longWait struct {
	call []string
	c    *resp.Conn
}

// Times between two units: beyond what a server's event loop can sleep at once, which is
// 35.8 minutes or 24.8 days, and less.
var longTimes = []string{"31m", "36m", "1h", "4294080s", "32850d"}

// longWaiter sends one caller more into one of a few lines, or has one leave. They come to a
// unit by being the first of a key, and when the key has been flushed or evicted, at once;
// nobody waits for minutes only, so a caller that is let in after it waited came too early.
func (o *soak) longWaiter(*resp.Conn) error {
	const most = 30
	if rand.IntN(most) >= len(o.inLine) {
		return o.joinLine(rand.IntN(len(longTimes)))
	}
	i := rand.IntN(len(o.inLine))
	w := o.inLine[i]
	o.inLine = append(o.inLine[:i], o.inLine[i+1:]...)
	return o.leaveLine(w)
}

func (o *soak) joinLine(line int) error {
	c, err := resp.Dial(o.s.Addr())
	if err != nil {
		return err
	}
	call := []string{"CL.WAIT", fmt.Sprintf("far:%d", line), "RATE", "1/" + longTimes[line], "TIMEOUT", "0"}
	o.inLine = append(o.inLine, longWait{call, c})
	o.count.longWaits.Add(1)
	if err := c.Send(call...); err != nil {
		return err
	}
	return c.Flush()
}

// leaveLine breaks the connection of one who waits, or who has been answered or killed.
func (o *soak) leaveLine(w longWait) error {
	defer w.c.Close()
	v, err := w.c.ReceiveWithin(time.Millisecond)
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		o.count.longWaitsLeft.Add(1)
		return nil
	case errors.Is(err, resp.ErrMalformed):
		return err
	case err != nil: // killed
		return nil //nolint:nilerr // the killer spares nobody
	case v.IsError() && strings.HasPrefix(v.Text, "OOM "):
		return nil
	}
	if _, err := allowedIn(v); err != nil || v.Elems[17].Int != 0 {
		return fmt.Errorf("%w to %q, minutes after it at most: %v", errWrong, w.call, v)
	}
	return nil
}

// failoverWith begins a failover that cannot end, since the replica stands still, and calls
// it off: writes are paused meanwhile.
func (o *soak) failoverWith(replica *server.Server) func(*resp.Conn) error {
	return func(c *resp.Conn) error {
		replica.Pause()
		defer replica.Resume()
		// Something that the replica will not have said it knows.
		if _, err := c.Do("PUBLISH", "soak", "stand still"); err != nil {
			return err
		}
		_, err := c.Do("FAILOVER", "TIMEOUT", "60000")
		time.Sleep(time.Duration(20+rand.IntN(80)) * time.Millisecond)
		_ = done(&o.count.calledOff, o.insist("FAILOVER", "ABORT"), nil)
		return err
	}
}

// requireIdle is that servers do next to nothing while all of their clients are idle, some of
// whom wait for hours and years.
func requireIdle(t *testing.T, soaks ...*soak) {
	t.Helper()
	const watched = 2 * time.Second
	before := make([]time.Duration, len(soaks))
	for i, o := range soaks {
		for line := range longTimes {
			require.NoError(t, o.joinLine(line))
			require.NoError(t, o.joinLine(line))
		}
		require.Eventually(t, func() bool { return o.waiting() >= int64(len(longTimes)) }, time.Minute, 5*time.Millisecond, "in line")
		require.Eventually(t, func() bool { return o.info("persistence", "rdb_bgsave_in_progress") == "0" }, time.Minute, 5*time.Millisecond)
		topology.AwaitNoRewrite(t, o.s)
		before[i] = o.s.CPUTime()
	}
	time.Sleep(watched)
	for i, o := range soaks {
		used := o.s.CPUTime() - before[i]
		t.Logf("%d in line: %v of processor time in %v", o.waiting(), used, watched)
		assert.Less(t, used, watched/10, "the server is busy with %d callers who wait", o.waiting())
	}
}

func (o *soak) waiting() int64 {
	n, err := strconv.ParseInt(o.info("throttle", "throttle_waiting"), 10, 64)
	assert.NoError(o.t, err)
	return n
}

// goHome has all leave who wait. Nobody is in line then.
func (o *soak) goHome() {
	o.t.Helper()
	for _, w := range o.inLine {
		assert.NoError(o.t, o.leaveLine(w))
	}
	o.inLine = nil
	require.Eventually(o.t, func() bool { return o.waiting() == 0 }, time.Minute, 5*time.Millisecond, "nobody waits")
}
