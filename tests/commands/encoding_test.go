package commands_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/kit"
	"redis-throttle/tests/server"
)

// A value that lies in one piece with its object is replaced when a module first reads it. The
// values of new keys are not of that kind, whatever their length.
func TestTheFirstReaderOfAKeyFindsItAsItIs(t *testing.T) {
	t.Parallel()
	c := server.Start(t).Client()
	for key, limit := range map[string]string{
		"rate":   "RATE 1/h",
		"fixed":  "FIXED 1/d",
		"window": "WINDOW 1/h",
		"two":    "RATE 1/h RATE 1/d",
		"three":  "RATE 1/h RATE 1/d FIXED 1/d",
	} {
		ctx := t.Context()
		for range 2 { // a new key after another of the same length
			require.NoError(t, c.Del(ctx, key).Err())
			require.NoError(t, c.Do(ctx, words("CL.LIMIT "+key+" "+limit)...).Err())
			was := c.ObjectEncoding(ctx, key).Val()
			value, size := c.Get(ctx, key).Val(), c.MemoryUsage(ctx, key).Val()
			require.NoError(t, c.Do(ctx, words("CL.LIMIT "+key+" "+limit)...).Err())
			assert.Equal(t, was, c.ObjectEncoding(ctx, key).Val(), limit)
			assert.Equal(t, size, c.MemoryUsage(ctx, key).Val(), limit)
			assert.Equal(t, value, c.Get(ctx, key).Val(), limit)
		}
	}
}

// Of every length that a value may have, in the test build, where a value can be any text.
func TestTheFirstReaderFindsValuesOfEveryLengthAsTheyAre(t *testing.T) {
	t.Parallel()
	s := kit.StartCheckBuild(t)
	s.Program.NeedsCountedKeys(t)
	c := s.Raw()
	for length := 1; length <= 300; length++ {
		for range 2 {
			kit.Do(t, c, "DEL k")
			kit.Do(t, c, "CL.PROBE 1 k %s", strings.Repeat("x", length))
			encoding, size := kit.Do(t, c, "OBJECT ENCODING k").Text, kit.Do(t, c, "MEMORY USAGE k").Int
			kit.Do(t, c, "CL.PEEK k RATE 1/h") // refuses it, having read it
			assert.Equal(t, encoding, kit.Do(t, c, "OBJECT ENCODING k").Text, "%d bytes", length)
			assert.Equal(t, size, kit.Do(t, c, "MEMORY USAGE k").Int, "%d bytes", length)
		}
	}
}

func words(line string) (all []any) {
	for _, word := range strings.Fields(line) {
		all = append(all, word)
	}
	return all
}
