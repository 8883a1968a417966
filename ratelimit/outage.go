package ratelimit

import (
	"errors"
	"io"
	"net"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"redis-throttle/ratelimit/internal/shared"
)

// IsOverload reports whether err means that this process has more to do than it can: it asks for more than its pool of
// connections to Redis carries (PoolSize, PoolTimeout), more calls wait than pipelimit.Options.Waiting, it was too busy
// to see a reply in time, or the deadline of a call had passed before it was sent. Redis may well be up, so this is no
// outage. A service that lets requests through at this error has no limit as soon as there are enough of them.
func IsOverload(err error) bool {
	return errors.Is(err, redis.ErrPoolTimeout) || errors.Is(err, redis.ErrPoolExhausted) || errors.As(err, new(*shared.Overload))
}

// IsOutage reports whether err, from a Decider, means that Redis is out of reach or in a state
// in which it does not decide. The connection failed or timed out, or the server replied
// LOADING, READONLY, CLUSTERDOWN or the like, or UNBLOCKED, which a master sends that becomes a replica. Everything
// else is a mistake, in the program or in how the server is set up: a bad limit, a key of another type, a missing
// module or permission, a single-server client for a cluster, a client that was closed.
//
// The difference matters wherever requests are let through while there is no answer. A
// mistake does not go away by itself, and would let everybody through until somebody notices.
func IsOutage(err error) bool {
	if IsOverload(err) {
		return false
	}
	var reply redis.Error
	if errors.As(err, &reply) {
		code, rest, _ := strings.Cut(reply.Error(), " ")
		if code == "ERR" { // which Redis 7.0 puts before what a script has met
			code, _, _ = strings.Cut(rest, " ")
		}
		return slices.Contains(outageCodes, code) || redis.IsMaxClientsError(reply)
	}
	var noAddress *net.AddrError // such as one without a port
	var noNetwork net.UnknownNetworkError
	if errors.As(err, &noAddress) || errors.As(err, &noNetwork) {
		return false
	}
	var network net.Error // deadlines of contexts are such, too
	if errors.As(err, &network) {
		return true
	}
	for _, outage := range []error{io.EOF, io.ErrUnexpectedEOF} {
		if errors.Is(err, outage) {
			return true
		}
	}
	return err != nil && slices.ContainsFunc(outageTexts, func(text string) bool { return strings.Contains(err.Error(), text) })
}

// outageCodes begin the replies of a server that will decide the same call later, or that
// another server decides in its place.
var outageCodes = []string{"BUSY", "CLUSTERDOWN", "LOADING", "MASTERDOWN", "MISCONF", "NOREPLICAS", "OOM", "READONLY", "TRYAGAIN", "UNBLOCKED"}

// outageTexts are the texts of errors that go-redis does not export, or that another client returns.
var outageTexts = []string{
	"the slot has no redis node", // rueidis
	"redis: cluster has no nodes",
	"redis: all ring shards are down",
	"redis: all sentinels specified in configuration are unreachable",
}
