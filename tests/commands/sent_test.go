package commands_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/internal/chance"
	"redis-throttle/tests/kit"
	"redis-throttle/tests/resp"
	"redis-throttle/tests/server"
)

// The module writes replies itself and has the server send them in one piece (send.c). They are byte for byte what the
// server would have written: short numbers and long ones, and those too long for one piece.
func TestRepliesInOnePieceAreWhatTheServerWrites(t *testing.T) {
	t.Parallel()
	for _, protocol := range []string{"2", "3"} {
		t.Run("RESP"+protocol, func(t *testing.T) {
			t.Parallel()
			s := kit.StartCheckBuild(t)
			if !s.Program.IsDev() && s.Program.AtLeast(7, 0) {
				require.GreaterOrEqual(t, s.InfoInt("throttle", "throttle_carriers"), int64(300))
			}
			random := chance.New(t)
			number := func() string { return strconv.FormatInt(random.Int64()>>random.IntN(63), 10) }
			var calls []string
			for range 400 {
				count, burst := number(), number()
				for _, call := range []string{
					"CL.THROTTLE k %[2]s %[1]s 1000000000",
					"CL.LIMIT k RATE %[1]s/1000000000s BURST %[2]s", "CL.LIMIT k RATE %[1]s/1000000000s BURST %[2]s COMPACT",
					"CL.LIMIT k WINDOW %[1]s/100000d COST %[2]s FORCE EACH", "CL.PEEK k FIXED %[1]s/100000d RATE 7/s COST %[2]s COMPACT EACH",
					"CL.REFUND k FIXED %[1]s/100000d COST %[2]s", "CL.MLIMIT 2 {k}1 {k}2 WINDOW %[1]s/1000s COST %[2]s UPTO EACH",
				} {
					calls = append(calls, fmt.Sprintf(call, count, burst))
				}
				calls = append(calls, "DEL k {k}1 {k}2")
			}
			calls = append(calls, "CL.LIMIT k WINDOW 1000000000000000000/100000d COST 100 COMPACT")
			lengths, refused := map[int]bool{}, 0
			for i, v := range assertCanonical(t, s, protocol, calls) {
				lengths[len(canonical(v))] = true
				if v.IsError() {
					refused++
				} else {
					assert.NotContains(t, calls[i], "-")
				}
			}
			assert.Less(t, refused, len(calls)/3, "most numbers are not too large")
			assert.Contains(t, lengths, 107, "for which there is no piece")
			assert.Greater(t, slices.Max(slices.Collect(maps.Keys(lengths))), 320, "the longest of one piece")
			// Around each power of 10 a number has one digit more.
			for n := int64(1); n <= math.MaxInt64/10; n *= 10 {
				for _, count := range []int64{n - 1, n, n + 1} {
					v := assertCanonical(t, s, protocol, []string{fmt.Sprintf("CL.PEEK absent FIXED %d/5s COMPACT", count)})[0]
					ints, err := v.Ints()
					require.NoError(t, err)
					assert.Equal(t, []int64{count, count}, ints[2:4])
				}
			}
		})
	}
}

// assertCanonical sends calls, and compares the bytes of their replies with the only ones that say the same.
func assertCanonical(t *testing.T, s *server.Server, protocol string, calls []string) (values []resp.Value) {
	conn, err := net.Dial("tcp", s.Addr())
	require.NoError(t, err)
	defer conn.Close()
	require.NoError(t, conn.SetDeadline(time.Now().Add(time.Minute)))
	if _, err = conn.Write(resp.AppendCommand(nil, "HELLO", protocol)); err == nil {
		_, err = resp.NewReader(conn).Read()
	}
	require.NoError(t, err)
	var sent []byte
	for _, call := range calls {
		sent = resp.AppendCommand(sent, strings.Fields(call)...)
	}
	go conn.Write(resp.AppendCommand(sent, "QUIT")) // while replies are read, so that neither waits for the other
	received, err := io.ReadAll(conn)
	require.NoError(t, err)
	var expected []byte
	r := resp.NewReader(bytes.NewReader(received))
	for {
		v, err := r.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		values, expected = append(values, v), append(expected, canonical(v)...)
	}
	require.Len(t, values, len(calls)+1)
	require.Equal(t, string(expected), string(received))
	return values[:len(calls)]
}

// canonical is a value as a server writes it.
func canonical(v resp.Value) string {
	switch v.Kind {
	case resp.BulkString:
		return fmt.Sprintf("$%d\r\n%s\r\n", len(v.Text), v.Text)
	case resp.Integer:
		return fmt.Sprintf(":%d\r\n", v.Int)
	case resp.Array, resp.Map:
		var b strings.Builder
		count := len(v.Elems)
		if v.Kind == resp.Map {
			count /= 2
		}
		fmt.Fprintf(&b, "%c%d\r\n", v.Kind, count)
		for _, e := range v.Elems {
			b.WriteString(canonical(e))
		}
		return b.String()
	default:
		return fmt.Sprintf("%c%s\r\n", v.Kind, v.Text)
	}
}
