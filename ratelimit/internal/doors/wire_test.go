package doors

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func words(line string) (args []any) {
	for _, word := range strings.Fields(line) {
		args = append(args, word)
	}
	return args
}

// The same words, behind the name of a function and its keys.
func TestHowACommandIsSentOtherwise(t *testing.T) {
	t.Parallel()
	for command, want := range map[string][2]string{
		"CL.LIMIT k RATE 5/s COMPACT":     {"FCALL cl_limit 1 k RATE 5/s COMPACT", "EVALSHA sha 1 k cl_limit RATE 5/s COMPACT"},
		"CL.PEEK k RATE 5/s":              {"FCALL_RO cl_peek 1 k RATE 5/s", "EVALSHA_RO sha 1 k cl_peek RATE 5/s"},
		"CL.INSPECT k":                    {"FCALL_RO cl_inspect 1 k", "EVALSHA_RO sha 1 k cl_inspect"},
		"CL.LEASES k COUNT 5":             {"FCALL_RO cl_leases 1 k COUNT 5", "EVALSHA_RO sha 1 k cl_leases COUNT 5"},
		"CL.MLIMIT 2 a b RATE 5/s":        {"FCALL cl_mlimit 2 a b RATE 5/s", "EVALSHA sha 2 a b cl_mlimit RATE 5/s"},
		"CL.SETTLE 1 a SLOTS ID x":        {"FCALL cl_settle 1 a SLOTS ID x", "EVALSHA sha 1 a cl_settle SLOTS ID x"},
		"CL.THROTTLE k 4 5 60 1":          {"FCALL cl_throttle 1 k 4 5 60 1", "EVALSHA sha 1 k cl_throttle 4 5 60 1"},
		"CL.LEASE k SLOTS 1 TTL 1m ID id": {"FCALL cl_lease 1 k SLOTS 1 TTL 1m ID id", "EVALSHA sha 1 k cl_lease SLOTS 1 TTL 1m ID id"},
	} {
		args := words(command)
		assert.Equal(t, words(want[0]), AsFunction(args))
		assert.Equal(t, words(want[1]), AsScript(args, "sha"))
		assert.Equal(t, words(command), args, "it stays as it is")
	}
}
