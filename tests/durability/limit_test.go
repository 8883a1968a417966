package durability

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"redis-throttle/tests/resp"
)

// limit is a rate limit: how to ask for it, and what it comes to.
type limit struct {
	args     string // max_burst count period
	capacity int64
}

// Nothing comes back while a test runs: what is left is the capacity less what was taken, and what is stored grows by
// an hour with each unit.
var hourly = limit{"99999 1 1h", 100_000}

// call is CL.THROTTLE as a client sends it.
func (l limit) call(key string, quantity int64) []string {
	return append(append([]string{"CL.THROTTLE", key}, strings.Fields(l.args)...), strconv.FormatInt(quantity, 10))
}

// allowedIn reads whether a call was allowed from the reply of any of the commands, which has to make sense by itself.
func allowedIn(v resp.Value) (bool, error) {
	if n, err := v.Ints(); err == nil && len(n) == 5 { // of CL.THROTTLE: limited, limit, remaining, retry after, reset after
		ok := (n[0] == 0 || n[0] == 1) && n[1] >= 1 && n[2] >= 0 && n[2] <= n[1] && n[4] >= 0 && (n[3] == -1 || n[0] == 1 && n[3] > 0)
		if !ok {
			return false, fmt.Errorf("%v makes no sense", v)
		}
		return n[0] == 0, nil
	}
	if v.Kind != resp.Array || len(v.Elems) < 18 || v.Elems[0].Text != "limited" || v.Elems[1].Int|1 != 1 {
		return false, fmt.Errorf("%v makes no sense", v)
	}
	return v.Elems[1].Int == 0, nil
}

// tatIn is the theoretical arrival time in a stored value, in ns since the epoch.
func tatIn(t testing.TB, value string) int64 {
	t.Helper()
	tat, err := strconv.ParseInt(value, 10, 64)
	require.NoError(t, err)
	return tat
}
