package durability

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"

	"redis-throttle/tests/server"
	"redis-throttle/tests/topology"
)

// After a full resync a server rewrites its append-only file. Until that is done it appends to a temporary file, which
// a restart does not read. A replica that is promoted and killed in that time forgets what it has acknowledged, the
// buckets of this module and any other keys alike. From the end of the rewrite on it forgets nothing.
func TestAPromotedReplicaKeepsWhatItAcknowledgedOnceItsFileIsRewritten(t *testing.T) {
	begin(t)
	for _, rewritten := range []bool{false, true} {
		t.Run(fmt.Sprintf("rewritten=%t", rewritten), func(t *testing.T) {
			t.Parallel()
			master := server.Start(t, topology.QuietLinks())
			for i := range 20 {
				master.MustDo("SET", fmt.Sprint("filler:", i), "x")
			}
			replica := server.Start(t, topology.QuietLinks(), server.AppendOnly("always"))
			replica.MustDo("CONFIG", "SET", "rdb-key-save-delay", "100000") // of each key, in microseconds
			replica.MustDo("REPLICAOF", master.Host, strconv.Itoa(master.Port))
			topology.AwaitReplicas(t, master, replica)
			replica.MustDo("REPLICAOF", "NO", "ONE")
			if rewritten {
				topology.AwaitNoRewrite(t, replica)
			}
			replica.MustDo("SET", "plain", "acknowledged")
			replica.MustDo(hourly.call("bucket", 1)...)
			t.Logf("rewrites in progress: %s", replica.Info("persistence")["aof_rewrite_in_progress"])
			replica.Kill()
			replica.Restart()

			plain, bucket := replica.MustDo("EXISTS", "plain").Int, replica.MustDo("EXISTS", "bucket").Int
			t.Logf("%d of 1 plain key is left, and %d of 1 bucket", plain, bucket)
			assert.Equal(t, plain, bucket, "what holds for any key holds for a bucket")
			if rewritten {
				assert.EqualValues(t, 1, bucket)
			}
		})
	}
}
