package kit

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/resp"
)

// Tester is what *testing.T and *rapid.T have in common.
type Tester interface {
	require.TestingT
	Helper()
}

// Do sends a command given as one types it.
func Do(t Tester, c *resp.Conn, command string, args ...any) resp.Value {
	t.Helper()
	text := fmt.Sprintf(command, args...)
	v, err := c.Do(strings.Fields(text)...)
	require.NoError(t, err, text)
	return v
}

// MustDoAll sends commands that must not fail.
func MustDoAll(t *testing.T, c *resp.Conn, commands ...string) {
	t.Helper()
	for _, command := range commands {
		v := Do(t, c, "%s", command)
		require.False(t, v.IsError(), "%s answers %v", command, v)
	}
}

// RawCallOf is the words of CL.THROTTLE with arguments given as one text.
func RawCallOf(key, args string) []string {
	return append([]string{"CL.THROTTLE", key}, strings.Fields(args)...)
}

// CallOf is RawCallOf for go-redis.
func CallOf(key, args string) []any {
	var call []any
	for _, word := range RawCallOf(key, args) {
		call = append(call, word)
	}
	return call
}

// Throttle sends CL.THROTTLE with the arguments given as one text, as one would type
// them: "15 30 60 1".
func Throttle(ctx context.Context, c redis.UniversalClient, key, args string) (Answer, error) {
	integers, err := c.Do(ctx, CallOf(key, args)...).Int64Slice()
	if err != nil {
		return Answer{}, err
	}
	return AnswerOf(integers)
}

// CeilMs is a length of time in ns as a reply shows it.
func CeilMs(ns int64) int64 { return (ns + int64(time.Millisecond) - 1) / int64(time.Millisecond) }

// Send sends a call whose reply may come later.
func Send(t *testing.T, c *resp.Conn, call string) {
	t.Helper()
	require.NoError(t, c.Send(strings.Fields(call)...))
	require.NoError(t, c.Flush())
}

// CallsOfAll is a call of each command that decides; %s stands for its key.
var CallsOfAll = []string{"CL.THROTTLE %s 15 30 60", "CL.LIMIT %s RATE 5/s WINDOW 9/m", "CL.PEEK %s RATE 5/s COST 2",
	"CL.REFUND %s FIXED 5/s", "CL.WAIT %s RATE 5/s TIMEOUT 1s"}

// CeilSeconds is a length of time in ns as a reply of CL.THROTTLE shows it.
func CeilSeconds(ns int64) int64 {
	return (ns + int64(time.Second) - 1) / int64(time.Second)
}

// AnyCall is a well-formed call of any command that does not block, on one of 200 keys,
// and now and then a command of the server's own on such a key. Limits last long enough
// for no key to expire in a test.
func AnyCall(random *rand.Rand) []string {
	i := random.IntN(200)
	key := fmt.Sprint("key", i)
	limits := []string{
		"RATE 100/h", "RATE 100/h BURST 500", "WINDOW 100/h", "FIXED 1000/365d", "RATE 50/h RATE 1000/d",
		"RATE 50/h WINDOW 100/d FIXED 10000/365d", "WINDOW 1000/h WINDOW 5000/d",
		"FIXED 1000/5y TZ Europe/Berlin OFFSET 6h FIXED 5000/300w", "FIXED 1000/365d FIRST RATE 100/h",
	}[i%9]
	cost := strconv.Itoa([]int{0, 1, 1, 1, 2, 3, 10, 1000}[random.IntN(8)])
	words := strings.Fields(limits + " COST " + cost)
	switch random.IntN(10) {
	case 0:
		return append([]string{"CL.PEEK", key}, words...)
	case 1:
		return append([]string{"CL.REFUND", key}, words...)
	case 2:
		return append(append([]string{"CL.LIMIT", key}, words...), "STRICT")
	case 3:
		return append(append([]string{"CL.LIMIT", key}, words...), "UPTO")
	case 4, 5:
		if i%9 < 2 {
			return append([]string{"CL.THROTTLE", key}, "99", "100", "1h", cost)
		}
	case 6:
		if i%9 < 2 || i%9 == 4 {
			return append(append([]string{"CL.LIMIT", key}, words...), "MAXWAIT", "1d")
		}
	case 7:
		if random.IntN(20) == 0 {
			return [][]string{{"DEL", key}, {"PERSIST", key}, {"EXPIRE", key, "100000"}}[random.IntN(3)]
		}
	}
	return append([]string{"CL.LIMIT", key}, words...)
}

// Number is the integer that a text is, such as a field of INFO.
func Number(t Tester, text string) int {
	t.Helper()
	n, err := strconv.Atoi(text)
	require.NoError(t, err)
	return n
}
