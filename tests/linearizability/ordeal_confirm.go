package linearizability

import (
	"strconv"
	"time"

	"redis-throttle/tests/resp"
)

// confirm notes again and again that the replicas of a shard have all that was written before, until it is stopped.
func (st *stage) confirm(shard int, stop <-chan struct{}) {
	for {
		select {
		case <-stop:
			return
		case <-time.After(15 * time.Millisecond):
		}
		began := st.history.now()
		if c, err := resp.DialWithin(st.at(shard, 0).Addr(), time.Second); err == nil {
			if st.confirmed(c, shard) {
				st.history.note(0, &replication{st.isOf(shard)}, began, &outcome{})
			}
			_ = c.Close()
		}
	}
}

// confirmed says whether the replicas have a write of this connection: WAIT is about no other.
func (st *stage) confirmed(c *resp.Conn, shard int) bool {
	if v, err := c.DoWithin(2*time.Second, "SET", st.marker(shard), ""); err != nil || v.IsError() {
		return false
	}
	v, err := c.DoWithin(2*time.Second, "WAIT", strconv.Itoa(st.replicas), "200")
	return err == nil && v.Int == int64(st.replicas)
}
