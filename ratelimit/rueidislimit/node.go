package rueidislimit

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/rueidis"

	"redis-throttle/ratelimit/internal/doors"
)

// NodeOf is for package ratelimit: the server of a key, where it has no module and gets the function library.
func (s sender) NodeOf(ctx context.Context, key string) (doors.Node, error) {
	if s.client.Mode() != rueidis.ClientModeCluster {
		return node{s.client, "", func(string) {}}, nil
	}
	slot := s.slot(key)
	for range redirects {
		at, client, err := s.node(ctx, "", key, nil)
		if err != nil {
			return nil, err
		}
		if owner, ok := s.owners.Load(slot); ok && owner == at {
			return node{client, at, func(to string) { s.owners.CompareAndSwap(slot, at, to) }}, nil
		}
		// The node says where the key is, if it is not there.
		err = client.Do(ctx, client.B().Exists().Key(key).Build()).Error()
		var reply *rueidis.RedisError
		if errors.As(err, &reply) {
			if addr, ok := reply.IsMoved(); ok {
				at = addr
			}
		} else if err != nil {
			return nil, err
		}
		s.owners.Store(slot, at)
	}
	return nil, fmt.Errorf("rueidislimit: the key moved more than %d times", redirects)
}

// node is one server.
type node struct {
	client rueidis.Client
	addr   string
	moved  func(to string) // the key is there now
}

func (n node) Addr() string { return n.addr }

func (n node) Do(ctx context.Context, args ...any) (any, error) {
	reply, err := n.client.Do(ctx, n.build(args)).ToAny()
	var refused *rueidis.RedisError
	if errors.As(err, &refused) {
		if to, ok := refused.IsMoved(); ok {
			n.moved(to)
		}
	}
	return reply, asReply(err)
}

func (n node) Atomically(ctx context.Context, commands ...[]any) (err error) {
	var all rueidis.Commands
	for _, args := range commands {
		all = append(all, n.build(args))
	}
	all = append(all, n.client.B().Exec().Build())
	err = n.client.Dedicated(func(conn rueidis.DedicatedClient) error {
		// Nobody else gets the connection amid a transaction, which may have begun also where no reply says so.
		defer conn.Close()
		if err := conn.Do(ctx, conn.B().Multi().Build()).Error(); err != nil {
			return err
		}
		replies := conn.DoMulti(ctx, all...)
		for _, queued := range replies {
			if err := queued.Error(); err != nil {
				return err
			}
		}
		results, err := replies[len(replies)-1].ToArray()
		if err != nil {
			return err
		}
		return results[len(results)-1].Error()
	})
	return asReply(err)
}

func (n node) build(args []any) rueidis.Completed {
	words := make([]string, len(args))
	for i, arg := range args {
		words[i] = fmt.Sprint(arg)
	}
	return n.client.B().Arbitrary(words...).Build()
}

// asReply is an error that package ratelimit knows for a reply, if it is one.
func asReply(err error) error {
	var reply *rueidis.RedisError
	if errors.As(err, &reply) {
		return replyError{reply}
	}
	return err
}
