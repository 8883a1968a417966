package durability

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/server"
	"redis-throttle/tests/topology"
)

// However a server is stopped, and from whatever it reads its data back: every
// bucket is as full as it was.
func TestRestartKeepsEveryBucket(t *testing.T) {
	begin(t)
	rewrite := func(s *server.Server) {
		s.MustDo("BGREWRITEAOF")
		topology.AwaitNoRewrite(t, s)
	}
	stop, kill := (*server.Server).Stop, (*server.Server).Kill
	for _, tc := range []struct {
		from    string
		options []server.Option
		end     func(*server.Server)
	}{
		{"append-only file, always synced", []server.Option{server.AppendOnly("always")}, stop},
		{"append-only file, synced every second", []server.Option{server.AppendOnly("everysec")}, stop},
		{"append-only file of a killed server", []server.Option{server.AppendOnly("always")}, kill},
		{"append-only file rewritten as a snapshot", []server.Option{server.AppendOnly("always")},
			func(s *server.Server) { rewrite(s); s.Kill() }},
		{"append-only file rewritten as commands", []server.Option{server.AppendOnly("always"), server.Config("aof-use-rdb-preamble no")},
			func(s *server.Server) { rewrite(s); s.Kill() }},
		{"snapshot by SAVE", nil, func(s *server.Server) { s.MustDo("SAVE"); s.Kill() }},
		{"snapshot at shutdown", []server.Option{server.Config("save 3600 1")}, stop},
	} {
		for _, module := range []bool{true, false} {
			name := tc.from
			if !module {
				name += ", into a server without the module"
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				s := server.Start(t, tc.options...)
				tr := startTraffic(t, s)
				tr.await(20_000)
				tr.stop()
				before := topology.Read(t, s)
				requireWorthComparing(t, before)
				left := remaining(t, s, hourly, "key:1")

				tc.end(s)
				if !module {
					s.Configure(server.WithoutModule())
				}
				s.Restart()

				after := topology.Read(t, s)
				now := time.Now()
				topology.RequireEqual(t, before.Lasting(now), after.Lasting(now), "before and after")
				if module {
					assert.Equal(t, left, remaining(t, s, hourly, "key:1"))
				}
				for _, command := range s.AOF() {
					require.NotContains(t, strings.ToLower(command[0]), "cl.", "a call would take its units again on replay")
				}
				t.Logf("%d keys equal", len(before.Lasting(now)))
			})
		}
	}
}
