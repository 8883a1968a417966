package durability

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"redis-throttle/tests/resp"
	"redis-throttle/tests/topology"
)

// follower is a cluster client reduced to what clusters ask of one: it goes where it
// is sent, asks again where it is told to, and counts how often. Any other error ends it.
type follower struct {
	conns map[string]*resp.Conn // by address
	at    string
	sent  *redirections
}

type redirections struct{ moved, ask, tryAgain, down atomic.Int64 }

func (r *redirections) String() string {
	return fmt.Sprintf("%d MOVED, %d ASK, %d TRYAGAIN, %d CLUSTERDOWN", r.moved.Load(), r.ask.Load(), r.tryAgain.Load(), r.down.Load())
}

// newFollower connects to every node of a cluster.
func newFollower(t *testing.T, c *topology.Cluster, sent *redirections) *follower {
	t.Helper()
	f := &follower{conns: map[string]*resp.Conn{}, at: c.Nodes[0].Addr(), sent: sent}
	for _, n := range c.Nodes {
		f.conns[n.Addr()] = n.Raw()
	}
	return f
}

// do sends a command until somebody answers it.
func (f *follower) do(command []string) (resp.Value, error) {
	v, err := f.conns[f.at].Do(command...)
	for err == nil && v.IsError() {
		words := strings.Fields(v.Text)
		switch words[0] {
		case "MOVED":
			f.sent.moved.Add(1)
			f.at = words[2]
			v, err = f.conns[f.at].Do(command...)
		case "ASK": // there for this once
			f.sent.ask.Add(1)
			var replies []resp.Value
			if replies, err = f.conns[words[2]].Pipeline([]string{"ASKING"}, command); err == nil {
				v = replies[1]
			}
		case "TRYAGAIN":
			f.sent.tryAgain.Add(1)
			v, err = f.conns[f.at].Do(command...)
		case "CLUSTERDOWN": // a node refuses calls while it does not hear from most masters
			f.sent.down.Add(1)
			time.Sleep(time.Millisecond)
			v, err = f.conns[f.at].Do(command...)
		default:
			return v, fmt.Errorf("%q answers %v", command, v)
		}
	}
	return v, err
}
