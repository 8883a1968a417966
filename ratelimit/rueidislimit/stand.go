package rueidislimit

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
)

const (
	// redirects is how often a caller follows its key through a cluster.
	redirects = 5
	// unblockPause is between two attempts to have a caller leave: the first may overtake the command that waits.
	unblockPause = 20 * time.Millisecond
)

// Stand is for package ratelimit: it sends a command that waits, and returns at once. answers gets the command's error, nil for a reply. leave
// has the caller leave the line, in the background: answers still gets what comes within patience.
//
// rueidis itself drops the reply of a command whose context has ended, and with it the units that the command got.
func (s sender) Stand(ctx context.Context, cmd *redis.Cmd) (answers <-chan error, leave func(patience time.Duration)) {
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	p := &place{stop: stop, answered: make(chan struct{})}
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
	return all, func(patience time.Duration) { go p.leave(patience) }
}

// Alive is for package ratelimit: it asks the server with a key for a sign of life.
func (s sender) Alive(ctx context.Context, key string) error {
	node, err := s.node(ctx, "", key)
	if err != nil {
		return err
	}
	return node.Do(ctx, node.B().Ping().Build()).Error()
}

// stand waits for the reply, wherever in a cluster the key goes.
func (s sender) stand(ctx context.Context, p *place, args []any) (any, error) {
	addr, asking, key := "", false, args[1].(string)
	for range redirects {
		node, err := s.node(ctx, addr, key)
		if err != nil {
			return nil, err
		}
		reply, err := s.standAt(ctx, p, node, asking, args)
		var fromServer *rueidis.RedisError
		if !errors.As(err, &fromServer) {
			return reply, err
		}
		if to, ok := fromServer.IsMoved(); ok {
			addr, asking = to, false
			s.owners.Store(s.slot(key), to)
		} else if to, ok := fromServer.IsAsk(); ok {
			addr, asking = to, true
		} else {
			return nil, replyError{fromServer}
		}
	}
	return nil, fmt.Errorf("the key moved more than %d times", redirects)
}

// node is the client of the node at addr, or, if that is empty, of one that may have the key.
func (s sender) node(ctx context.Context, addr, key string) (rueidis.Client, error) {
	if s.client.Mode() != rueidis.ClientModeCluster {
		return s.client, nil
	}
	if addr == "" {
		if owner, ok := s.owners.Load(s.slot(key)); ok {
			addr = owner.(string)
		}
	}
	for fresh := false; ; fresh = true {
		nodes := s.client.Nodes()
		if node := nodes[addr]; node != nil {
			return node, nil
		}
		if addr == "" {
			for _, node := range nodes { // it says where to go
				return node, nil
			}
		}
		if fresh {
			return nil, fmt.Errorf("the client knows no node at %q", addr)
		}
		peek := s.client.B().Arbitrary("CL.PEEK").Keys(key).Args("RATE", "1/s").ReadOnly() // the client follows it, and learns who is there
		_ = s.client.Do(ctx, peek).Error()
	}
}

func (s sender) slot(key string) uint16 {
	command := s.client.B().Arbitrary("CL.PEEK").Keys(key).Build()
	return command.Slot()
}

// standAt waits at one node, with a connection of its own.
func (s sender) standAt(ctx context.Context, p *place, node rueidis.Client, asking bool, args []any) (any, error) {
	command, err := s.build(args)
	if err != nil {
		return nil, err
	}
	conn, release := node.Dedicate()
	defer release()
	id, err := conn.Do(ctx, node.B().ClientId().Build()).AsInt64()
	var fromServer *rueidis.RedisError
	if err != nil && !errors.As(err, &fromServer) {
		return nil, err
	}
	if !p.begin(node, conn, id) {
		return nil, context.Canceled
	}
	defer p.end()
	if asking {
		return conn.DoMulti(ctx, node.B().Asking().Build(), command)[1].ToAny()
	}
	return conn.Do(ctx, command).ToAny()
}

// place is where a caller waits.
type place struct {
	stop     context.CancelFunc
	answered chan struct{}

	mu   sync.Mutex // held while the caller is told to leave: then its connection is not for others yet
	node rueidis.Client
	conn rueidis.DedicatedClient // nil while the command is not under way
	id   int64                   // of the connection; 0 if it is unknown
	left bool
}

func (p *place) begin(node rueidis.Client, conn rueidis.DedicatedClient, id int64) (ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.left {
		return false
	}
	p.node, p.conn, p.id = node, conn, id
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

// unblock asks the server to answer the caller. It returns whether to ask again: the command may not have got there yet.
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
