package rueidislimit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"

	"redis-throttle/ratelimit/internal/shared"
)

const (
	// redirects is how often a caller follows its key through a cluster.
	redirects = 5
	// unblockPause is between two attempts to have a caller leave: the first may overtake the command that waits.
	unblockPause = 20 * time.Millisecond
)

// Stand is for package ratelimit: it sends a command that waits, and returns at once. answers gets the command's error,
// nil for a reply. alive asks the server where it waits for a sign of life; none counts once the reply is later than
// within, 0 being never. leave has the caller leave the line, in the background: answers still gets what comes within
// patience.
//
// rueidis itself drops the reply of a command whose context has ended, and with it the units that the command got.
func (s sender) Stand(ctx context.Context, cmd *redis.Cmd, within time.Duration) (
	answers <-chan error, alive func(context.Context) error, leave func(patience time.Duration),
) {
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	p := &place{stop: stop, answered: make(chan struct{}), node: s.client, master: s.master(), within: within}
	all := make(chan error, 1)
	go func() {
		defer stop()
		reply, err := s.stand(ctx, p, cmd.Args())
		if err == nil {
			cmd.SetVal(reply)
		}
		close(p.answered)
		all <- err
	}()
	return all, p.alive, func(patience time.Duration) { go p.leave(patience) }
}

// stand waits for the reply, wherever in a cluster the key goes. A node to which the command could not be sent is
// passed by for another one, as the key may have a new master.
func (s sender) stand(ctx context.Context, p *place, args []any) (any, error) {
	to, asking, key, away := "", false, args[1].(string), map[string]bool{}
	var last error
	for range redirects {
		at, node, err := s.node(ctx, to, key, away)
		if err != nil {
			return nil, cmp.Or(last, err)
		}
		p.goTo(node)
		reply, sent, err := s.standAt(ctx, p, node, asking, args)
		var fromServer *rueidis.RedisError
		switch {
		case err == nil:
			return reply, nil
		case !errors.As(err, &fromServer):
			s.owners.CompareAndDelete(s.slot(key), at)
			if sent || ctx.Err() != nil || s.client.Mode() != rueidis.ClientModeCluster {
				return nil, err
			}
			to, asking, away[at], last = "", false, true, err
			continue
		}
		last = nil
		if addr, ok := fromServer.IsMoved(); ok {
			to, asking = addr, false
			s.owners.Store(s.slot(key), addr)
		} else if addr, ok := fromServer.IsAsk(); ok {
			to, asking = addr, true
		} else {
			return nil, replyError{fromServer}
		}
	}
	return nil, cmp.Or(last, fmt.Errorf("the key moved more than %d times", redirects))
}

// node is the client of the node at addr, or, if that is empty, of one that may have the key and is not away. at is its
// address.
func (s sender) node(ctx context.Context, addr, key string, away map[string]bool) (at string, node rueidis.Client, err error) {
	if s.client.Mode() != rueidis.ClientModeCluster {
		return "", s.client, nil
	}
	if addr == "" {
		if owner, ok := s.owners.Load(s.slot(key)); ok && !away[owner.(string)] {
			if node := s.client.Nodes()[owner.(string)]; node != nil {
				return owner.(string), node, nil
			}
		}
	}
	for fresh := false; ; fresh = true {
		nodes := s.client.Nodes()
		if node := nodes[addr]; node != nil {
			return addr, node, nil
		}
		if addr == "" {
			for at, node := range nodes { // it says where to go
				if !away[at] {
					return at, node, nil
				}
			}
		}
		if fresh {
			return "", nil, cmp.Or(err, fmt.Errorf("the client knows no node at %q", addr))
		}
		peek := s.client.B().Arbitrary("CL.PEEK").Keys(key).Args("RATE", "1/s").ReadOnly() // the client follows it, and learns who is there
		err = s.client.Do(ctx, peek).NonRedisError()
	}
}

func (s sender) slot(key string) uint16 {
	command := s.client.B().Arbitrary("CL.PEEK").Keys(key).Build()
	return command.Slot()
}

// standAt waits at one node, with a connection of its own. sent says that the node may have the command.
func (s sender) standAt(ctx context.Context, p *place, node rueidis.Client, asking bool, args []any) (reply any, sent bool, err error) {
	command, err := s.build(args)
	if err != nil {
		return nil, true, err
	}
	conn, release := node.Dedicate()
	defer release()
	asked := conn.DoMulti(ctx, node.B().ClientId().Build(), node.B().Info().Section("server").Build())
	id, err := asked[0].AsInt64()
	var fromServer *rueidis.RedisError
	if err != nil && !errors.As(err, &fromServer) {
		return nil, false, err
	}
	info, _ := asked[1].ToString() // nothing for a user who may not ask
	if !p.begin(conn, id, shared.RunID(info)) {
		return nil, true, context.Canceled
	}
	defer p.end()
	if asking {
		reply, err = conn.DoMulti(ctx, node.B().Asking().Build(), command)[1].ToAny()
	} else {
		reply, err = conn.Do(ctx, command).ToAny()
	}
	if errors.As(err, &fromServer) && leadsElsewhere(fromServer) {
		conn.Close() // nobody else gets it from the pool
	}
	return reply, true, err
}

// place is where a caller waits.
type place struct {
	stop     context.CancelFunc
	answered chan struct{}
	master   string // see sender.master
	within   time.Duration

	mu   sync.Mutex              // held while the caller is told to leave: then its connection is not for others yet
	node rueidis.Client          // where the command goes or is
	conn rueidis.DedicatedClient // nil while the command is not under way
	id   int64                   // of the connection; 0 if it is unknown
	run  string                  // which server it is, see shared.RunID; empty if that is unknown
	ends time.Time               // by when there is a reply; zero for never
	left bool
}

func (p *place) goTo(node rueidis.Client) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.node = node
}

// alive asks where the caller waits for a sign of life. That another server answers at the address by now is none.
func (p *place) alive(ctx context.Context) error {
	p.mu.Lock()
	node, run, ends := p.node, p.run, p.ends
	p.mu.Unlock()
	isOver := !ends.IsZero() && time.Now().After(ends)
	info, err := node.Do(ctx, node.B().Info().Section("server").Build()).ToString()
	there := shared.RunID(info)
	if err == nil && run != "" && there != "" && there != run || p.master != "" && node.Nodes()[p.master] == nil {
		return shared.Elsewhere(nil)
	}
	if err == nil && isOver { // it would have come before this
		return fmt.Errorf("no reply within %v: %w", p.within, os.ErrDeadlineExceeded)
	}
	return err
}

// master is the address of the master that Sentinels name; empty without Sentinels, and where there are replicas as
// well.
func (s sender) master() (addr string) {
	if s.client.Mode() != rueidis.ClientModeSentinel {
		return ""
	}
	nodes := s.client.Nodes()
	for addr = range nodes {
	}
	if len(nodes) != 1 {
		return ""
	}
	return addr
}

func (p *place) begin(conn rueidis.DedicatedClient, id int64, run string) (ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.left {
		return false
	}
	p.conn, p.id, p.run = conn, id, run
	if p.within > 0 {
		p.ends = time.Now().Add(p.within)
	}
	return true
}

func (p *place) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conn = nil
}

// leave has the server answer the caller now. Where it does not within patience, the connection is closed.
func (p *place) leave(patience time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	pause := time.NewTicker(unblockPause)
	defer pause.Stop()
	for p.unblock(ctx) {
		select {
		case <-p.answered:
			return
		case <-pause.C:
		case <-ctx.Done():
		}
	}
}

// unblock asks the server to answer the caller. It returns whether to ask again: the command may not have got there
// yet.
func (p *place) unblock(ctx context.Context) (again bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.left = true
	if p.conn == nil { // it is not under way, or has been answered
		p.stop()
		return false
	}
	if p.id != 0 {
		if p.node.Do(ctx, p.node.B().ClientUnblock().ClientId(p.id).Build()).Error() == nil {
			return true
		}
	}
	p.stop()
	p.conn.Close() // its id never comes back, so an UNBLOCK that is late hits nobody else
	return false
}
