// Package masters says which master of a cluster has a key, without waiting for the network.
package masters

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"redis-throttle/ratelimit/internal/lag"
)

// Masters are the masters of a cluster, as its client knows them.
type Masters struct {
	client *redis.ClusterClient
	known  atomic.Bool // from then on the client answers from memory, and asks the cluster in the background
	asking atomic.Bool
	asked  atomic.Int64 // when the last answer came, by lag.Ns
}

// Of returns the masters that client knows.
func Of(client *redis.ClusterClient) *Masters { return &Masters{client: client} }

// pause is how long the cluster is left alone after it has not answered.
const pause = 100 * time.Millisecond

// Addr returns the address of the master that has key. It is empty while nobody knows the cluster, and then asks in the
// background: go-redis asks each time for as long as dialling takes, and not only for as long as the caller's context
// lasts.
func (m *Masters) Addr(key string) string {
	if !m.known.Load() {
		if lag.Ns(time.Now())-m.asked.Load() > int64(pause) && m.asking.CompareAndSwap(false, true) {
			go m.ask(key)
		}
		return ""
	}
	master, err := m.client.MasterForKey(context.Background(), key)
	if err != nil {
		return ""
	}
	return master.Options().Addr
}

func (m *Masters) ask(key string) {
	defer m.asking.Store(false)
	_, err := m.client.MasterForKey(context.Background(), key)
	m.known.Store(err == nil)
	m.asked.Store(lag.Ns(time.Now()))
}
