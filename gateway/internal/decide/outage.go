package decide

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log/slog"
	"net"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"redis-throttle/ratelimit"
)

// IsOutage reports whether err keeps Redis from deciding, whatever is asked: it is out of reach, it refuses the login,
// the commands or the connection, or it has no module. The policy of the domain holds for all of them, since for a
// proxy they are the same. What is wrong with one request, such as a key of another type, is no outage: a client that
// could cause one would choose the policy.
func IsOutage(err error) bool { return err != nil && (ratelimit.IsOutage(err) || Advice(err) != "") }

// Advice is what would be right, for errors that do not go away by themselves; "" for others.
func Advice(err error) string {
	var reply redis.Error
	if errors.As(err, &reply) {
		text := reply.Error()
		for _, w := range wrong {
			if strings.HasPrefix(text, w.begins) && strings.Contains(text, w.holds) {
				return w.advice
			}
		}
		return ""
	}
	var certificate *tls.CertificateVerificationError
	var authority x509.UnknownAuthorityError
	var name x509.HostnameError
	var invalid x509.CertificateInvalidError
	var record tls.RecordHeaderError
	var alert tls.AlertError
	var address *net.AddrError
	var network net.UnknownNetworkError
	switch {
	case errors.As(err, &certificate), errors.As(err, &authority), errors.As(err, &name), errors.As(err, &invalid):
		return "the certificate of the server does not hold: REDIS_TLS_CACERT names who has signed it, and REDIS_URL the host that it is for"
	case errors.As(err, &record):
		return "the server does not speak TLS at this port: check REDIS_TLS and REDIS_URL"
	case errors.As(err, &alert):
		return "the server refuses TLS with this client: REDIS_TLS_CLIENT_CERT and REDIS_TLS_CLIENT_KEY are its certificate"
	case errors.As(err, &address), errors.As(err, &network):
		return "REDIS_URL is no address: expected host:port"
	}
	return ""
}

const loadOrAllow = "the server has no throttle.so: start it with loadmodule /path/to/throttle.so, or allow the user of REDIS_AUTH +fcall +fcall_ro and to load the function library, or +evalsha +evalsha_ro +script|load"

// wrong are the replies of a server that decides nothing until somebody mends its set-up, or that of the gateway.
var wrong = []struct{ begins, holds, advice string }{
	{"ERR unknown command", "", "the server has no throttle.so, or an old one: start it with loadmodule /path/to/throttle.so"},
	{"it takes no function", "", loadOrAllow},
	{"scripts: ", "", loadOrAllow},
	{"WRONGPASS", "", "the server refuses the login: check REDIS_AUTH"},
	{"ERR invalid password", "", "the server refuses the login: check REDIS_AUTH"},
	{"NOAUTH", "", "the server wants a login: set REDIS_AUTH"},
	{"ERR AUTH", "", "the server has no password: unset REDIS_AUTH"},
	{"ERR Client sent AUTH", "", "the server has no password: unset REDIS_AUTH"},
	{"NOPERM", "", "the user of REDIS_AUTH needs +cl.limit +cl.mlimit +cl.refund and the keys of the domains, such as ~{DOMAIN|*"},
	{"DENIED", "", "the server is in protected mode: give it a password, or bind it to an address of its own"},
	{"MOVED", "", "the server is one of a cluster: set REDIS_TYPE=CLUSTER"},
	{"CROSSSLOT", "", "the keys of a request are in several slots of a cluster: set REDIS_TYPE=CLUSTER, or hash_tag: domain in the files where a proxy stands before it"},
	{"ERR", "cluster support disabled", "the server is no cluster: unset REDIS_TYPE"},
}

// Keys makes the keys that Probe asks about: those of the nth attempt, one of each domain, with other slots than the
// attempts before.
type Keys func(n int) []string

// Probe asks each server for a decision that takes no unit and writes nothing, and notes whether any decides. Where a
// breaker is open it tries the server by it, so an outage ends without traffic. With all it asks about each domain,
// otherwise about one for each server.
func (c *Chain) Probe(ctx context.Context, keys Keys, all bool) {
	errs := make(chan error)
	asked := c.probed(keys, all)
	var up int
	var first error
	for _, key := range asked {
		go func() { errs <- c.probe(ctx, key) }()
	}
	for range asked {
		err := <-errs
		if needs := (*lacking)(nil); err == nil || errors.As(err, &needs) {
			up++
		}
		if first == nil {
			first = err
		}
	}
	if ctx.Err() != nil {
		return // the process stops
	}
	c.up.Store(up > 0)
	c.tell(first, up, len(asked))
}

// Up says whether any server decided when Probe asked last.
func (c *Chain) Up() bool { return c.up.Load() }

// mostProbed bounds the domains whose keys are tried at the start, and the attempts to find a key of each server.
const mostProbed = 300

// probed returns the keys to ask about.
func (c *Chain) probed(keys Keys, all bool) (asked []string) {
	one := keys(0)
	switch {
	case len(one) == 0:
		one = []string{"{throttle-gateway}"} // there is no file yet
	case all:
		one = one[:min(len(one), mostProbed)]
	default:
		one = one[:1]
	}
	if c.node == nil {
		return one
	}
	known := map[string]bool{}
	unknown := 0
	for n := range mostProbed {
		if n > 0 {
			one = keys(n)
		}
		for _, key := range one {
			at := c.node(key)
			if at == "" { // the cluster has not been asked yet: another key may have another master
				unknown++
			}
			if !known[at] || (at == "" && unknown <= mostUnknown) {
				known[at], asked = true, append(asked, key)
			}
		}
	}
	return asked
}

// mostUnknown is how many keys are asked about whose masters are not known: with some masters gone, one key could have
// one of these.
const mostUnknown = 16

// lacking is the error of a server that decides, but not everything.
type lacking struct{ err error }

func (l *lacking) Error() string { return l.err.Error() }
func (l *lacking) Unwrap() error { return l.err }

// probedLimit is a limit of which nothing is taken.
var probedLimit = ratelimit.Rate(1, time.Second)

// probe asks the server of a key with each of the commands that requests need.
func (c *Chain) probe(ctx context.Context, key string) error {
	ctx, cancel := context.WithTimeout(ctx, c.settings.Redis.Timeout)
	defer cancel()
	nothing := ratelimit.Limits{probedLimit.Take(0)}
	pair := []ratelimit.Key{{Name: key, Limits: nothing}, {Name: key + "|=", Limits: nothing}} // of one slot
	look := ratelimit.Call{Keys: pair[:1], Cost: 1}
	if _, err := c.server.Decide(ctx, look); err != nil {
		return err
	}
	for _, g := range c.guards {
		if g.Out() {
			_, _ = g.Decide(ctx, look)
		}
	}
	for _, call := range []ratelimit.Call{
		{Keys: pair, Cost: 1},
		{Verb: ratelimit.VerbRefund, Keys: []ratelimit.Key{{Name: key, Limits: ratelimit.Limits{probedLimit}}}, Cost: 1}, // full is as full as it gets
	} {
		if _, err := c.server.Decide(ctx, call); err != nil {
			return &lacking{err}
		}
	}
	return nil
}

// tell logs what Probe found, once.
func (c *Chain) tell(err error, up, asked int) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if c.told == text {
		return
	}
	c.told = text
	if err == nil {
		slog.Info("Redis decides")
		return
	}
	attrs := []any{"error", err}
	if a := Advice(err); a != "" {
		attrs = append(attrs, "advice", a)
	}
	if asked > 1 {
		attrs = append(attrs, "asked", asked, "decide", up)
	}
	slog.Error("Redis does not decide: redis_down of each domain does", attrs...)
}
