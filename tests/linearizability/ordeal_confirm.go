package linearizability

import (
	"strconv"
	"time"

	"redis-throttle/tests/resp"
)

// confirm notes again and again that the replicas of a shard have all that was written before, until it is stopped.
func (st *stage) confirm(shard int, stop <-chan struct{}) {
	var c *resp.Conn
	var at *node
	defer func() {
		if c != nil {
			_ = c.Close()
		}
	}()
	for {
		select {
		case <-stop:
			return
		case <-time.After(15 * time.Millisecond):
		}
		if master := st.at(shard, 0); c == nil || at != master {
			if c != nil {
				_ = c.Close()
			}
			var err error
			if c, err = resp.DialWithin(master.Addr(), time.Second); err != nil {
				c = nil
				continue
			}
			at = master
		}
		began := st.history.now()
		// WAIT is about what its own connection has written.
		v, err := c.DoWithin(2*time.Second, "SET", st.marker(shard), "")
		if err == nil && !v.IsError() {
			if v, err = c.DoWithin(2*time.Second, "WAIT", strconv.Itoa(st.replicas), "200"); err == nil && v.Int == int64(st.replicas) {
				st.history.note(0, &replication{st.isOf(shard)}, began, &outcome{})
			}
		}
		if err != nil {
			_ = c.Close()
			c = nil
		}
	}
}
