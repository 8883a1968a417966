package ratelimit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"redis-throttle/ratelimit/internal/doors"
	"redis-throttle/ratelimit/internal/shared"
)

// A call that waits is sent over a connection of its own. In the client's pool, callers that wait, and those that have
// long left, would keep everybody else from the server.

const (
	// defaultPatience is Options.Patience.
	defaultPatience = 3 * time.Second
	// answering is how long before the deadline of a context the server has to answer: otherwise the end of a
	// wait could be a read that timed out, which looks like an outage.
	answering = 100 * time.Millisecond
	// lineBuffer is for one command and its reply, in bytes; what is longer takes more than one read or write.
	lineBuffer = 1 << 10
	// redirects is how often a caller follows its key through a cluster.
	redirects = 5
)

// withinDeadline is timeout, or what ctx leaves of it. Forever and more is as long as it takes.
func withinDeadline(ctx context.Context, timeout time.Duration) (time.Duration, error) {
	deadline, ok := ctx.Deadline()
	if !ok || timeout < 0 {
		return timeout, nil
	}
	left := time.Until(deadline)
	if left <= 0 {
		return 0, context.DeadlineExceeded
	}
	left -= min(answering, left/4)
	return min(left, timeout), nil
}

// wait sends a call that is answered when its turn has come.
func (r *remote) wait(ctx context.Context, call Call) (result Result, err error) {
	name := names[call.Verb]
	if call.Verb == VerbWait && call.MaxWait == 0 {
		call.MaxWait = Forever
	}
	if err = ctx.Err(); err == nil {
		call.MaxWait, err = withinDeadline(ctx, call.MaxWait)
	}
	var cmd command
	if err == nil {
		cmd, err = call.command()
	}
	if err != nil {
		return Result{}, fmt.Errorf("ratelimit: %s: %w", name, err)
	}
	if call.Verb == VerbLease { // most often a slot is free, and no connection of its own is needed; nobody is overtaken
		now := call
		now.MaxWait, now.Group, now.Priority, now.Weight = 0, "", 0, 0
		if result, err := r.Decide(ctx, now); err != nil || !result.Limited || call.MaxWait < 0 {
			return result, err
		}
	}
	if r.doors.WithoutModule(ctx, call.Keys[0].Name) {
		return r.poll(ctx, call)
	}
	if own, ok := r.client.(stander); ok {
		place := standing{cmd: newCmd(ctx, &cmd)}
		place.answers, place.alive, place.leave = own.Stand(ctx, place.cmd, replyWithin(cmd.timeout, r.patience))
		reply, err := r.waitIn(ctx, place, &call, &cmd)
		if doors.Lacks(err) == "" && r.doors.Lacks(err) {
			return r.poll(ctx, call)
		}
		return call.answer(&cmd, reply, err)
	}
	node, err := r.node(ctx, call.Keys[0].Name)
	switch {
	case err != nil:
		return Result{}, explain(name, err)
	case node == nil: // whatever it is, it has to know how to wait
		reply, err := r.send(ctx, &cmd)
		return call.answer(&cmd, reply, err)
	}
	o, asking := *node.Options(), false
	for range redirects {
		place := r.stand(ctx, o, asking, &cmd)
		var reply any
		reply, err = r.waitIn(ctx, place, &call, &cmd)
		if doors.Lacks(err) == "" && r.doors.Lacks(err) {
			return r.poll(ctx, call)
		}
		moved := false
		if o.Addr, asking, moved = redirected(err, o.Addr); !moved {
			return call.answer(&cmd, reply, err)
		}
	}
	return Result{}, explain(name, err)
}

// redirected says where in a cluster the key is. asking is for a key that is on its way there.
func redirected(err error, at string) (addr string, asking, ok bool) {
	if err == nil {
		return at, false, false
	}
	if addr, ok = redis.IsMovedError(err); ok {
		return addr, false, true
	}
	addr, ok = redis.IsAskError(err)
	return addr, ok, ok
}

// stander is a client that has connections of its own for calls that wait, such as that of package rueidislimit.
type stander interface {
	// Stand sends cmd, which waits, and returns at once. answers gets cmd's error, nil for a reply, when that is there.
	// alive asks the server where it waits for a sign of life; none counts once the reply is later than within, 0 being
	// never. leave has the caller leave the line, in the background: answers still gets what comes within patience, or
	// an error.
	Stand(ctx context.Context, cmd *redis.Cmd, within time.Duration) (
		answers <-chan error, alive func(context.Context) error, leave func(patience time.Duration),
	)
}

// standing is a call that waits. See stander.
type standing struct {
	cmd     *redis.Cmd
	answers <-chan error
	alive   func(context.Context) error
	leave   func(patience time.Duration)
}

// node is the client of the server with a key; nil without an error if there is no telling.
func (r *remote) node(ctx context.Context, key string) (*redis.Client, error) {
	client := r.client
	if shared, ok := client.(interface{ Client() redis.UniversalClient }); ok { // of package pipelimit
		client, _ = shared.Client().(sender)
	}
	switch c := client.(type) {
	case *redis.Client:
		return c, nil
	case *redis.ClusterClient:
		return c.MasterForKey(ctx, key)
	case *redis.Ring:
		return c.GetShardClientForKey(key)
	case *redis.Conn, *redis.Tx:
		return nil, fmt.Errorf("a %T is a single connection with a ReadTimeout, where nobody can wait: take the client", c)
	}
	return nil, nil
}

// waitIn waits for the answer to a call in line.
func (r *remote) waitIn(ctx context.Context, line standing, call *Call, cmd *command) (any, error) {
	leave := func() {
		line.leave(r.patience)
		go func() { r.undo(ctx, *call, cmd, line.cmd, <-line.answers) }()
	}
	signs := make(chan error, 1)
	pulse := time.NewTicker(r.patience)
	defer pulse.Stop()
	for asking := false; ; {
		select {
		case err := <-line.answers:
			return line.cmd.Val(), err
		case <-pulse.C:
			if !asking {
				asking = true
				go func() { signs <- r.alive(ctx, line.alive) }()
			}
		case err := <-signs:
			asking = false
			if err == nil {
				continue
			}
			leave()
			return nil, err
		case <-ctx.Done():
			leave()
			return nil, ctx.Err()
		}
	}
}

// undo gives back what came too late, or may have come: a slot is given back also where the answer was lost. The server
// takes back by itself what was only reserved.
func (r *remote) undo(ctx context.Context, call Call, cmd *command, answered *redis.Cmd, err error) {
	result, err := call.answer(cmd, answered.Val(), err)
	back := Call{Verb: VerbRefund, Keys: call.Keys, Cost: call.Cost, NoCost: call.NoCost}
	var reply redis.Error
	switch {
	case err == nil && result.Limited, errors.As(err, &reply):
		return
	case call.Verb == VerbLease:
		back = Call{Verb: VerbRelease, Keys: []Key{{Name: call.Keys[0].Name}}, ID: call.ID}
	case err != nil || result.Granted < 1:
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.patience)
	defer cancel()
	_, _ = r.Decide(ctx, back)
}

// line is the connection of one caller that waits.
type line struct {
	client *redis.Client

	mu   sync.Mutex
	conn net.Conn
	run  string // which server it is, see spot
	left bool
}

// stand sends a command that waits over a connection of its own, to the server that o leads to.
func (r *remote) stand(ctx context.Context, o redis.Options, asking bool, cmd *command) standing {
	line := newLine(o, cmd.timeout, r.patience)
	answers := make(chan error, 1)
	sending, stop := context.WithCancel(context.WithoutCancel(ctx))
	c := newCmd(sending, cmd)
	go func() {
		defer stop()
		defer line.client.Close()
		if asking { // for the next command on the connection: its pool has no other
			if err := line.client.Do(sending, "ASKING").Err(); err != nil {
				answers <- err
				return
			}
		}
		_ = line.client.Process(sending, doors.Once{Cmd: c})
		answers <- c.Err()
	}()
	alive := func(ctx context.Context) error {
		at := line.spot()
		if at.addr == "" { // it still connects
			return signOf(ctx, o, at)
		}
		return r.signs.of(at, r.patience/2, func() error { return signOf(ctx, o, at) })
	}
	return standing{cmd: c, answers: answers, alive: alive, leave: func(patience time.Duration) { line.leave(stop, patience) }}
}

// replyWithin is how late a reply to a call that waits may be before it counts as lost, 0 being forever.
func replyWithin(timeout, patience time.Duration) time.Duration {
	if timeout <= 0 || timeout >= longest-patience {
		return 0
	}
	return timeout + patience
}

// single makes the options of a client those of one connection. What a client has once is not for it: go-redis panics
// where two clients have one PushNotificationProcessor and are to be told of maintenance.
func single(o *redis.Options) {
	o.PoolSize, o.MinIdleConns, o.MaxIdleConns, o.MaxActiveConns = 1, 0, 0, 0
	o.PushNotificationProcessor, o.MaintNotificationsConfig = nil, &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	o.ClientSideCache, o.ClientSideCacheConfig = nil, nil
}

// newLine prepares a connection with the options o, for a wait of up to timeout, 0 being forever.
func newLine(o redis.Options, timeout, patience time.Duration) *line {
	l := &line{}
	single(&o)
	o.MaxRetries = -1
	o.ReadBufferSize, o.WriteBufferSize, o.PipelineReadBufferSize, o.PipelineWriteBufferSize = lineBuffer, lineBuffer, 0, 0
	o.ReadTimeout = cmp.Or(replyWithin(timeout, patience), -1)
	if o.WriteTimeout <= 0 { // what go-redis makes of none is not what it takes for none
		o.WriteTimeout = -1
	}
	o.ContextTimeoutEnabled = false
	dial := o.Dialer
	o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		l.mu.Lock()
		defer l.mu.Unlock()
		if err == nil && l.left {
			_ = conn.Close()
			return nil, context.Canceled
		}
		if err == nil {
			l.conn = conn
		}
		return conn, err
	}
	o.OnConnect = l.identify(o.OnConnect)
	l.client = redis.NewClient(&o)
	return l
}

// identify asks the server which one it is, before the caller stands in line there.
func (l *line) identify(after func(context.Context, *redis.Conn) error) func(context.Context, *redis.Conn) error {
	return func(ctx context.Context, conn *redis.Conn) error {
		if after != nil {
			if err := after(ctx, conn); err != nil {
				return err
			}
		}
		info, err := conn.Info(ctx, "server").Result()
		if err != nil && !errors.As(err, new(redis.Error)) { // such as for a user who may not ask
			return err
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		l.run = shared.RunID(info)
		return nil
	}
}

// spot is where the caller waits; nowhere while it is not connected.
func (l *line) spot() spot {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := spotOf(l.conn)
	at.run = l.run
	return at
}

// leave tells the server that the caller has gone. It closes one direction only, as an answer may be on its way that
// has to be undone; where the server does not close the other one within patience, that is given up.
func (l *line) leave(stop context.CancelFunc, patience time.Duration) {
	stop()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.left = true
	if conn := l.conn; conn != nil {
		time.AfterFunc(patience, func() { _ = conn.Close() }) // a deadline would be overwritten by that of a read that begins now
		if half, ok := conn.(interface{ CloseWrite() error }); !ok || half.CloseWrite() != nil {
			_ = conn.Close()
		}
	}
}
