package doors

import (
	"context"
	"fmt"
	"slices"

	"github.com/redis/go-redis/v9"
)

// Node is one server.
type Node interface {
	// Addr is empty if nobody knows it.
	Addr() string
	Do(ctx context.Context, args ...any) (any, error)
	// Atomically runs commands in one transaction, and returns the error of the last one, or of what was refused. Where
	// MULTI is refused, it sends none of them: they would run one by one.
	Atomically(ctx context.Context, commands ...[]any) error
}

// Locator is a client that says by itself which server has a key.
type Locator interface {
	NodeOf(ctx context.Context, key string) (Node, error)
}

// one is what the clients of go-redis for one server have in common, and its connections.
type one interface {
	Sender
	Pipeline() redis.Pipeliner
}

type (
	cluster interface {
		MasterForKey(ctx context.Context, key string) (*redis.Client, error)
	}
	ring interface {
		GetShardClientForKey(key string) (*redis.Client, error)
	}
	shared interface { // of package pipelimit
		Client() redis.UniversalClient
	}
)

// Locates says whether NodeOf knows the servers of a client.
func Locates(client Sender) bool {
	switch client.(type) {
	case Locator, shared, cluster, ring, one:
		return true
	}
	return false
}

// NodeOf is the server of a key.
func NodeOf(ctx context.Context, client any, key string) (Node, error) {
	switch client := client.(type) {
	case Locator:
		return client.NodeOf(ctx, key)
	case shared:
		return NodeOf(ctx, client.Client(), key)
	case cluster:
		master, err := client.MasterForKey(ctx, key)
		return node{master}, err
	case ring:
		shard, err := client.GetShardClientForKey(key)
		return node{shard}, err
	}
	return node{client.(one)}, nil
}

// server is what is known of the server of a key.
func (d *Doors) server(ctx context.Context, key string) (*server, Node, error) {
	node, err := NodeOf(ctx, d.client, key)
	if err != nil {
		return nil, nil, err
	}
	addr := node.Addr()
	known, ok := d.servers.Load(addr)
	if !ok {
		s := &server{addr: addr}
		s.now.Store(new(standing))
		known, _ = d.servers.LoadOrStore(addr, s)
	}
	return known.(*server), node, nil
}

// node is a Node of go-redis.
type node struct{ one }

func (n node) Addr() string {
	if client, ok := n.one.(interface{ Options() *redis.Options }); ok {
		return client.Options().Addr
	}
	return ""
}

func (n node) Do(ctx context.Context, args ...any) (any, error) {
	cmd := redis.NewCmd(ctx, args...)
	_ = n.Process(ctx, cmd)
	return cmd.Result()
}

func (n node) Atomically(ctx context.Context, commands ...[]any) error {
	conn := n.one
	if client, ok := conn.(interface{ EphemeralConn() *redis.Conn }); ok { // one that nobody gets who would then be amid a transaction
		own := client.EphemeralConn()
		defer own.Close()
		conn = own
	}
	if _, err := (node{conn}).Do(ctx, "MULTI"); err != nil {
		return err
	}
	pipe := conn.Pipeline()
	var exec *redis.Cmd
	for _, args := range append(slices.Clone(commands), []any{"EXEC"}) {
		exec = redis.NewCmd(ctx, args...)
		_ = pipe.Process(ctx, Once{exec})
	}
	queued, _ := pipe.Exec(ctx) // each command holds its error
	for _, cmd := range queued {
		if err := cmd.Err(); err != nil {
			return err
		}
	}
	replies, _ := exec.Val().([]any)
	if len(replies) < len(commands) {
		return fmt.Errorf("EXEC answers %v", exec.Val())
	}
	err, _ := replies[len(commands)-1].(error)
	return err
}
