package ratelimit

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"redis-throttle/ratelimit/internal/lag"
	"redis-throttle/ratelimit/internal/shared"
)

// A caller in line asks for a sign of life of its server. The client's address may lead to a new master by then, whose
// replies say nothing about the old one, which may hang. So the caller keeps where its connection leads, and which
// server that is.

// spot is where a connection leads.
type spot struct {
	network, addr string // those of the other end, which may be a balancer
	tls           bool
	run           string // which server it is, see shared.RunID; empty if its user may not ask
}

// Network and String are those of a net.Addr.
func (s spot) Network() string { return s.network }
func (s spot) String() string  { return s.addr }

// spotOf returns where conn leads; nowhere, if that is nil.
func spotOf(conn net.Conn) (at spot) {
	if conn == nil || conn.RemoteAddr() == nil {
		return at
	}
	_, encrypted := conn.(*tls.Conn)
	return spot{network: conn.RemoteAddr().Network(), addr: conn.RemoteAddr().String(), tls: encrypted}
}

// alive asks the server for a sign of life. Any reply is one.
func (r *remote) alive(ctx context.Context, ask func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.patience)
	defer cancel()
	watch := lag.Begin()
	err := ask(ctx)
	late := watch.End()
	var reply redis.Error
	if err == nil || errors.As(err, &reply) || !IsOutage(err) || shared.TimedOut(err) && 2*late >= r.patience { // it is asked again soon
		return nil
	}
	return err
}

// signs are the questions for a sign of life. One serves all who wait at the same spot.
type signs struct {
	mu    sync.Mutex
	asked map[spot]*sign
}

// sign is the answer to a question.
type sign struct {
	there chan struct{} // closed when it is there
	at    time.Time     // when it came, 0 before
	err   error
}

// of returns the answer of ask about a spot, or that of another caller who has asked within age.
func (s *signs) of(at spot, age time.Duration, ask func() error) error {
	answer, known := s.begin(at, age)
	if !known {
		err := ask()
		s.mu.Lock()
		answer.at, answer.err = time.Now(), err
		s.mu.Unlock()
		close(answer.there)
	}
	<-answer.there
	return answer.err
}

func (s *signs) begin(at spot, age time.Duration) (answer *sign, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for spot, old := range s.asked {
		if !old.at.IsZero() && time.Since(old.at) > age {
			delete(s.asked, spot)
		}
	}
	if answer, known = s.asked[at]; known {
		return answer, true
	}
	if s.asked == nil {
		s.asked = map[spot]*sign{}
	}
	answer = &sign{there: make(chan struct{})}
	s.asked[at] = answer
	return answer, false
}

// signOf asks the server at a spot, to which o has led, for a sign of life. Where o leads elsewhere by now, or nowhere,
// it asks at the spot itself.
func signOf(ctx context.Context, o redis.Options, at spot) error {
	there, err := lookAt(ctx, o)
	switch {
	case err == nil && at.run != "" && there.run != "" && there.run != at.run:
		return shared.Elsewhere(at)
	case at.addr == "", there.addr == at.addr && there.network == at.network, err == nil && at.run != "" && there.run == at.run:
		return err
	}
	return listenAt(ctx, at)
}

// lookAt returns where o leads, and the error of a server that does not answer there.
func lookAt(ctx context.Context, o redis.Options) (there spot, err error) {
	single(&o)
	o.MaxRetries, o.DialerRetries, o.ContextTimeoutEnabled = -1, 1, true
	dial := o.Dialer
	var mu sync.Mutex
	o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dialInHalf(ctx, dial, network, addr)
		mu.Lock()
		defer mu.Unlock()
		there = spotOf(conn)
		return conn, err
	}
	client := redis.NewClient(&o)
	defer client.Close()
	info, err := client.Info(ctx, "server").Result()
	if errors.As(err, new(redis.Error)) { // its user may not ask
		err = nil
	}
	mu.Lock()
	defer mu.Unlock()
	there.run = shared.RunID(info)
	return there, err
}

// dialInHalf dials in half of the time that ctx leaves: the other half is for another place.
func dialInHalf(ctx context.Context, dial func(context.Context, string, string) (net.Conn, error), network, addr string) (net.Conn, error) {
	if deadline, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(deadline)/2)
		defer cancel()
	}
	return dial(ctx, network, addr)
}

// listenAt connects to a spot and waits for any word of it. It does not log in, so that no password reaches whoever has
// the address by now: that it has to log in is a sign of life, too.
func listenAt(ctx context.Context, at spot) error {
	conn, err := new(net.Dialer).DialContext(ctx, at.network, at.addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	if deadline, ok := ctx.Deadline(); ok {
		_ = conn.SetDeadline(deadline)
	}
	hears := &hearing{Conn: conn}
	if at.tls {
		err = tls.Client(hears, &tls.Config{InsecureSkipVerify: true}).HandshakeContext(ctx) // nothing is told to whoever answers
	} else if _, err = conn.Write([]byte("PING\r\n")); err == nil {
		_, err = hears.Read(make([]byte, 1))
	}
	if hears.something {
		return nil
	}
	return err
}

// hearing is a connection that notes whether anything has come.
type hearing struct {
	net.Conn
	something bool
}

func (h *hearing) Read(b []byte) (int, error) {
	n, err := h.Conn.Read(b)
	h.something = h.something || n > 0
	return n, err
}
