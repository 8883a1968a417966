package tests

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"redis-throttle/tests/resp"
	"redis-throttle/tests/server"
)

// Hundreds of thousands of calls with random bytes for arguments, between commands
// that put random bytes into the same keys. Whatever they mean: each gets exactly one
// well-formed reply, in order, and the server lives.
func TestRandomArgumentsGetWellFormedReplies(t *testing.T) {
	t.Parallel()
	t.Run("module", func(t *testing.T) {
		t.Parallel()
		hammerWithRandomBytes(t, server.Start(t), 300_000)
	})
	t.Run("test build, which checks pointers between Go and C", func(t *testing.T) {
		t.Parallel()
		hammerWithRandomBytes(t, startCheckBuild(t), 50_000)
	})
}

func hammerWithRandomBytes(t *testing.T, s *server.Server, calls int) {
	// RANDOM_SEED repeats a run.
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("RANDOM_SEED"); text != "" {
		var err error
		seed, err = strconv.ParseUint(text, 10, 64)
		require.NoError(t, err)
	}
	t.Logf("RANDOM_SEED=%d", seed)
	g := generator{rand.New(rand.NewPCG(seed, 0))}
	c := s.Raw()
	var answers, errors int
	const batch = 1000
	for sent := 0; sent < calls; sent += batch {
		commands := make([][]string, batch, batch+1)
		for i := range commands {
			commands[i] = g.command()
		}
		marker := fmt.Sprint("marker ", sent)
		replies, err := c.Pipeline(append(commands, []string{"ECHO", marker})...)
		require.NoError(t, err)
		require.Equal(t, marker, replies[batch].Text, "replies are out of step")
		for i, v := range replies[:batch] {
			if commands[i][0] != "CL.THROTTLE" {
				continue
			}
			require.NoError(t, checkAnswer(v), "%.500q answers %v", commands[i], v)
			if v.IsError() {
				errors++
			} else {
				answers++
			}
		}
	}
	t.Logf("%d answers, %d errors", answers, errors)
	require.Greater(t, answers, calls/100, "too few calls got as far as a decision")
	require.Greater(t, errors, calls/100)
}

// checkAnswer is what holds for any reply of CL.THROTTLE, whatever was asked.
func checkAnswer(v resp.Value) error {
	if v.IsError() {
		if strings.HasPrefix(v.Text, "ERR ") || strings.HasPrefix(v.Text, "WRONGTYPE ") {
			return nil
		}
		return fmt.Errorf("error of no known kind")
	}
	a, err := answerIn(v)
	if err != nil {
		return err
	}
	switch {
	case a.Limited != 0 && a.Limited != 1:
		return fmt.Errorf("limited is neither 0 nor 1")
	case a.Limit < 1 || a.Remaining < 0 || a.Remaining > a.Limit:
		return fmt.Errorf("remaining is not within 0..limit")
	case a.Limited == 0 && a.RetryAfter != -1:
		return fmt.Errorf("allowed, and yet retry after %d", a.RetryAfter)
	case a.RetryAfter < -1 || a.RetryAfter == 0:
		return fmt.Errorf("retry after %d", a.RetryAfter)
	case a.ResetAfter < 0 || a.RetryAfter > 9223372037 || a.ResetAfter > 9223372037:
		return fmt.Errorf("a time of more than 292 years, or less than none")
	}
	return nil
}

// generator makes commands that are wrong in all ways, and right often enough to get
// past the first check.
type generator struct{ *rand.Rand }

func (g generator) command() []string {
	key := g.key()
	switch g.IntN(20) {
	case 0:
		return []string{"SET", key, g.word()}
	case 1:
		return []string{"SET", key, strconv.FormatInt(time.Now().UnixNano()+g.Int64N(1e12)-5e11, 10)}
	case 2:
		return []string{"DEL", key}
	case 3:
		return []string{"RPUSH", key, g.word()}
	}
	command := []string{"CL.THROTTLE", key}
	count := 3 + g.IntN(2)
	if g.IntN(10) == 0 {
		count = g.IntN(30)
	}
	oneIsOdd := g.IntN(count + 1)
	for i := range count {
		if i == oneIsOdd || g.IntN(20) == 0 {
			command = append(command, g.word())
		} else {
			command = append(command, strconv.Itoa(g.IntN(100)))
		}
	}
	return command
}

func (g generator) key() string {
	if g.IntN(100) == 0 {
		return g.bytes(g.IntN(5000))
	}
	return fmt.Sprint("key", g.IntN(50))
}

func (g generator) word() string {
	switch g.IntN(8) {
	case 0:
		return g.bytes(g.IntN(300))
	case 1:
		return strconv.FormatInt(int64(g.Uint64())>>g.IntN(64), 10)
	case 2:
		return strconv.FormatInt(g.Int64()>>g.IntN(63), 10) + []string{"ms", "s", "m", "h", "d", "y", "S", " "}[g.IntN(8)]
	case 3: // a number with one byte wrong
		digits := []byte(strconv.Itoa(g.Int()))
		digits[g.IntN(len(digits))] = byte(g.Uint32())
		return string(digits)
	case 4:
		return strings.Repeat("0123456789"[g.IntN(10):][:1], g.IntN(100))
	case 5:
		return strings.Repeat(g.bytes(1), g.IntN(70_000)>>g.IntN(17))
	case 6:
		return []string{"", "+", "-", "+-1", "9223372036854775807", "9223372036854775808", "-9223372036854775808",
			"18446744073709551615", "18446744073709551616", "%n%s", "\r\n", "\x00"}[g.IntN(12)]
	}
	return strconv.Itoa(g.IntN(10))
}

func (g generator) bytes(n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(g.Uint32())
	}
	return string(b)
}
