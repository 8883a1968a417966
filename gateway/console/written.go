package console

import (
	"context"
	"errors"
	"net"
	"strings"

	"github.com/redis/go-redis/v9"
)

// partly is an error after something was done.
type partly struct{ text string }

func (p *partly) Error() string { return p.text }

// unsent is what an operator reads when Redis was asked something before the act, and failed. The errors of connections
// hold addresses.
func unsent(err error) error {
	if isReply(err) {
		return err
	}
	return errors.New("Redis does not answer: nothing was done")
}

// lost is what an operator reads when the answer to an act did not come.
func lost(err error) error {
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "dial" || errors.Is(err, redis.ErrPoolTimeout) {
		return unsent(err)
	}
	return errors.New("the answer of Redis did not come: it may have happened. Look before you try again")
}

// transaction is an act and its entry in the log, which are sent as one.
type transaction struct {
	act     redis.Cmder
	version redis.Cmder // raises @version; nil where there is none
	entry   redis.Cmder
}

func (t transaction) commands() []redis.Cmder {
	all := []redis.Cmder{t.act, t.entry}
	if t.version != nil {
		all = append(all, t.version)
	}
	return all
}

// outcome says what became of t, by the answers to its commands: the others are run when one fails. failed is the error
// of EXEC.
func (t transaction) outcome(failed error) error {
	if failed == nil || errors.Is(failed, redis.TxFailedErr) {
		return failed
	}
	aborted := false
	for _, cmd := range t.commands() {
		if err := cmd.Err(); err != nil && !isReply(err) {
			return lost(err)
		} else if redis.IsExecAbortError(err) {
			aborted = true
		}
	}
	for _, cmd := range t.commands() {
		if err := cmd.Err(); aborted && err != nil && !redis.IsExecAbortError(err) {
			return err // it was not queued, and nothing was run
		}
	}
	var text []string
	switch {
	case t.act.Err() != nil:
		return t.act.Err()
	case t.version != nil && t.version.Err() != nil:
		text = append(text, "@version could not be raised, by which programs see changes: "+said(t.version.Err()))
	}
	if t.entry.Err() != nil {
		text = append(text, "it could not be written down: "+said(t.entry.Err()))
	}
	return &partly{strings.Join(text, "; ")}
}

// written runs an act and writes its entry in the same transaction. In a cluster the key and the log are on two
// servers: the entry is written first there, so that nothing happens without one.
func (c *Console) written(ctx context.Context, on redis.Cmdable, entry []any, run func(redis.Cmdable) redis.Cmder) error {
	p := on.TxPipeline()
	t := transaction{}
	if _, ok := c.client.(*redis.ClusterClient); ok {
		t.entry = c.write(ctx, c.client, entry)
		if err := t.entry.Err(); err != nil {
			return unsent(err)
		}
		t.act = run(p)
	} else {
		t.act, t.entry = run(p), c.write(ctx, p, entry)
	}
	_, failed := p.Exec(ctx)
	err := t.outcome(failed)
	if failed := t.act.Err(); failed != nil && isReply(failed) && t.entry.Err() == nil { // the entry is there, and the act did not happen
		_ = c.write(ctx, c.client, append(entry, "failed", said(failed))).Err()
	}
	return err
}

// write adds an entry to the log.
func (c *Console) write(ctx context.Context, p redis.Cmdable, entry []any) *redis.StringCmd {
	return p.XAdd(ctx, &redis.XAddArgs{Stream: c.logKey(), MaxLen: longestLog, Approx: true, Values: entry})
}

// watched runs act if check has found nothing wrong. Its transaction fails if key changes meanwhile.
func (c *Console) watched(ctx context.Context, key, changed string, check, act func(tx *redis.Tx) error) error {
	began := false
	err := c.client.Watch(ctx, func(tx *redis.Tx) error {
		began = true
		if err := check(tx); err != nil {
			release(ctx, tx)
			return err
		}
		return act(tx)
	}, key)
	switch {
	case errors.Is(err, redis.TxFailedErr):
		return errors.New(changed)
	case !began:
		return unsent(err)
	}
	return err
}

// release ends the watch of a connection, which others use after it. The end of any transaction does, also where
// UNWATCH is refused.
func release(ctx context.Context, tx *redis.Tx) {
	_, _ = tx.TxPipelined(ctx, func(p redis.Pipeliner) error {
		return p.Process(ctx, redis.NewStatusCmd(ctx, "UNWATCH"))
	})
}
