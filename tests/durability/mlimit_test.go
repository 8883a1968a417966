package durability

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"redis-throttle/internal/size"
	"redis-throttle/tests/kit"
	"redis-throttle/tests/resp"
	"redis-throttle/tests/server"
	"redis-throttle/tests/topology"
)

// group is keys that are only ever charged together, the same of each. They are full at the same
// instant from the first call on, so their values are the same bytes for as long as no call is
// carried out by half.
type group struct {
	keys             []string
	asked, told      atomic.Int64 // units that were asked for, and that callers know they have
	tatAtNone        int64
	firstUnits, cost int64
}

// An hour puts a unit back: none while a test runs.
const unitsOfGroup, hourNs = 1_000_000, int64(time.Hour)

func newGroup(t *testing.T, do func(command []string) (resp.Value, error), get func(key string) string, prefix string, n int) *group {
	t.Helper()
	g := &group{firstUnits: 3, cost: 1}
	for i := range n {
		g.keys = append(g.keys, fmt.Sprintf("%s:%d", prefix, i))
	}
	g.cost = g.firstUnits
	require.NoError(t, g.take(do))
	g.cost = 1
	g.tatAtNone = tatIn(t, get(g.keys[0])) - g.firstUnits*hourNs
	return g
}

// take asks for units of all keys. There are enough.
func (g *group) take(do func(command []string) (resp.Value, error)) error {
	command := append(append([]string{"CL.MLIMIT", strconv.Itoa(len(g.keys))}, g.keys...),
		"RATE", "1/h", "BURST", strconv.Itoa(unitsOfGroup), "COST", fmt.Sprint(g.cost), "COMPACT")
	g.asked.Add(g.cost)
	v, err := do(command)
	if err != nil {
		return err
	}
	n, err := v.Ints()
	if err != nil {
		return err
	}
	if len(n) != 11 || n[0] != 0 || n[7] != g.cost {
		return fmt.Errorf("%q answers %v", command, v)
	}
	g.told.Add(g.cost)
	return nil
}

// requireWhole judges what a server or a file holds: never half of a call, and no unit more than was
// asked for. atLeast are the units that must be there.
func requireWhole(t *testing.T, groups []*group, state map[string]string, what string, atLeast func(*group) int64) {
	t.Helper()
	for _, g := range groups {
		first := state[g.keys[0]]
		for _, key := range g.keys[1:] {
			require.Equal(t, first, state[key], "%s: half of a call: %s and %s", what, g.keys[0], key)
		}
		if first == "" {
			require.Zero(t, atLeast(g), what)
			continue
		}
		taken := (tatIn(t, first) - g.tatAtNone) / hourNs
		require.GreaterOrEqual(t, taken, atLeast(g), what)
		require.LessOrEqual(t, taken, g.asked.Load(), what)
	}
}

func none(*group) int64 { return 0 }

func (g *group) isTold() int64 { return g.told.Load() }

func valuesOf(t *testing.T, s *server.Server) map[string]string {
	t.Helper()
	values := map[string]string{}
	for key, entry := range topology.Read(t, s) {
		values[key] = entry.Value
	}
	return values
}

// A master dies by kill -9 amid calls on several keys, again and again. No replica has half of one,
// nor has the append-only file, wherever it is cut off.
func TestKilledAmidCallsOnSeveralKeysLeavesNoHalf(t *testing.T) {
	begin(t)
	t.Run("module", func(t *testing.T) {
		t.Parallel()
		s := server.Start(t, server.AppendOnly("always"))
		s.Program.NeedsCountedKeys(t)
		killAmidCalls(t, s, slices.Clone[[]string])
	})
	t.Run("functions", func(t *testing.T) {
		t.Parallel()
		server.NeedsServer(t, "functions")
		s := server.Start(t, server.AppendOnly("always"), server.WithoutModule())
		kit.LoadFunctions(t, s)
		killAmidCalls(t, s, kit.AsFunction)
	})
}

// killAmidCalls makes the calls in the form of a door.
func killAmidCalls(t *testing.T, s *server.Server, as func(command []string) []string) {
	const callers, most = 6, 400
	cycles := size.Of(3, 12)
	replicas := []*server.Server{server.Start(t, server.ReplicaOf(s)), server.Start(t, server.ReplicaOf(s), server.WithoutModule())}
	c := s.Raw()
	direct := func(command []string) (resp.Value, error) { return c.Do(as(command)...) }
	get := func(key string) string { return s.MustDo("GET", key).Text }
	var groups []*group
	for i := range 6 {
		groups = append(groups, newGroup(t, direct, get, fmt.Sprint("g", i), 2+i%4*2))
	}
	judgedPrefixes, loaded := 0, 0
	for cycle := range cycles {
		topology.AwaitReplicas(t, s, replicas...)
		cr := gather(t, callers, func(int) func() error {
			c := s.Raw()
			do := func(command []string) (resp.Value, error) { return c.Do(as(command)...) }
			return func() error { return groups[rand.IntN(len(groups))].take(do) }
		})
		cr.awaitAnswers(1 + rand.Int64N(most))
		s.Kill()
		cr.disperse()
		for _, replica := range replicas {
			require.Eventually(t, func() bool { return replica.Info("replication")["master_link_status"] == "down" }, time.Minute, time.Millisecond)
			requireWhole(t, groups, valuesOf(t, replica), fmt.Sprintf("replica on port %d", replica.Port), none)
		}
		values := map[string]string{}
		judgedPrefixes += prefixes(t, s, func(command []string) {
			require.Equal(t, "SET", strings.ToUpper(command[0]), "unexpected in the file")
			values[command[1]] = command[2]
		}, func() { requireWhole(t, groups, values, "a prefix of the file", none) })
		if cycle%3 == 0 {
			loaded += requireWholeWhenCut(t, groups, s)
		}
		s.Restart()
		requireWhole(t, groups, valuesOf(t, s), "the server that loaded its file", (*group).isTold)
	}
	t.Logf("%d kills; %d prefixes of the file judged, %d cuts loaded by a server", cycles, judgedPrefixes, loaded)
}

func aofPath(t *testing.T, s *server.Server) string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(s.Dir, "appendonlydir", "*.incr.aof"))
	require.NoError(t, err)
	require.Len(t, paths, 1)
	return paths[0]
}

// prefixes reads the append-only file as a server would: each command is applied, and judged is called after each that
// is in no transaction, and after each transaction.
func prefixes(t *testing.T, s *server.Server, apply func(command []string), judge func()) (judged int) {
	t.Helper()
	file, err := os.ReadFile(aofPath(t, s))
	require.NoError(t, err)
	inMulti := false
	for r := resp.NewReader(bytes.NewReader(file)); ; {
		v, err := r.Read()
		if err != nil {
			return judged // the end, maybe amid a command
		}
		switch command := kit.TextsOf(v); strings.ToUpper(command[0]) {
		case "MULTI", "EXEC":
			require.Equal(t, inMulti, strings.EqualFold(command[0], "EXEC"))
			inMulti = !inMulti
		case "SELECT", "FUNCTION":
		default:
			apply(command)
		}
		if !inMulti {
			judge()
			judged++
		}
	}
}

// requireWholeWhenCut has servers load the file cut off anywhere, amid a transaction and amid a
// command, too.
func requireWholeWhenCut(t *testing.T, groups []*group, s *server.Server) (loaded int) {
	t.Helper()
	file, err := os.ReadFile(aofPath(t, s))
	require.NoError(t, err)
	inside := bytes.LastIndex(file, []byte("MULTI\r\n"))
	require.Positive(t, inside)
	cuts := []int{inside + len("MULTI\r\n"), inside + len("MULTI\r\n") + 20}
	for range 2 {
		cuts = append(cuts, rand.IntN(len(file)))
	}
	for _, cut := range cuts {
		dir := t.TempDir()
		require.NoError(t, os.CopyFS(filepath.Join(dir, "appendonlydir"), os.DirFS(filepath.Join(s.Dir, "appendonlydir"))))
		require.NoError(t, os.Truncate(filepath.Join(dir, "appendonlydir", filepath.Base(aofPath(t, s))), int64(min(cut, len(file)))))
		reader := server.Start(t, server.Dir(dir), server.AppendOnly("no"), server.Config("aof-load-truncated yes"))
		requireWhole(t, groups, valuesOf(t, reader), fmt.Sprintf("a server that loaded the file up to byte %d of %d", cut, len(file)), none)
		reader.Stop()
		loaded++
	}
	return loaded
}
