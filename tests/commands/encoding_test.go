package commands_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"redis-throttle/tests/kit"
)

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
