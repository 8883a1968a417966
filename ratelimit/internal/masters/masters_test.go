package masters

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// While nobody knows the cluster, Addr says so at once: it does not ask anew for each call, and it waits for no answer.
func TestNobodyWaitsForAClusterThatIsUnknown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		asked, answers := 0, make(chan string)
		client := redis.NewClusterClient(&redis.ClusterOptions{ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) {
			asked++
			addr := <-answers
			if addr == "" {
				return nil, errors.New("nobody knows")
			}
			return []redis.ClusterSlot{{End: 16383, Nodes: []redis.ClusterNode{{Addr: addr}}}}, nil
		}})
		defer client.Close()
		m := Of(client)
		for _, addr := range []string{"", "10.0.0.1:7000"} {
			before := asked
			for range 100 {
				require.Empty(t, m.Addr("k"))
				synctest.Wait()
			}
			assert.Equal(t, before+1, asked, "it asks once at a time")
			answers <- addr
			synctest.Wait()
			assert.Equal(t, addr, m.Addr("k"))
			assert.Equal(t, before+1, asked, "it leaves a cluster alone that has no answer")
			time.Sleep(pause + 1)
		}
	})
}
