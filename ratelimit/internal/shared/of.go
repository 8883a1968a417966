package shared

import (
	"runtime"
	"sync"
	"weak"

	"github.com/redis/go-redis/v9"
)

// known are the Clients of Of, as weak pointers by weak pointers: nothing here keeps a client alive.
var known sync.Map

// Of is the Client for client, with the zero Options. It is the same one for all that ask while somebody uses it, so
// that a program which makes many limiters on one client has one line of calls to each server.
func Of[C redis.Client | redis.ClusterClient | redis.Ring](client *C) *Client {
	key := weak.Make(client)
	for {
		value, ok := known.Load(key)
		if ok {
			if s := value.(weak.Pointer[Client]).Value(); s != nil {
				return s
			}
		}
		fresh := New(any(client).(redis.UniversalClient), Options{})
		if !ok {
			if _, raced := known.LoadOrStore(key, weak.Make(fresh)); raced {
				continue
			}
			runtime.AddCleanup(client, func(key weak.Pointer[C]) { known.Delete(key) }, key)
			return fresh
		}
		if known.CompareAndSwap(key, value, weak.Make(fresh)) {
			return fresh
		}
	}
}
