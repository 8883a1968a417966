package ratelimit_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/charge"
	"redis-throttle/tests/calls"
	"redis-throttle/tests/resp"
	"redis-throttle/tests/server"
)

// table is spec/clients/calls.json, which says what it holds.
type table struct {
	Cases []struct {
		Name      string
		Call      tableCall
		Exchanges []exchange
		Result    map[string]any
		Error     string
		Says      string
	}
	Sessions []struct {
		Name  string
		Steps []struct {
			Call   tableCall
			Result map[string]any
		}
	}
}

type tableCall struct {
	Verb string
	Keys []struct {
		Name   string
		Limits []struct {
			Kind, Period, Offset, Zone string
			Count, Spare               int64
			Burst, Take, Used          *int64
			First, Shadow              bool
		}
		Slots int64
		TTL   string
	}
	Cost                           *int64
	UpTo, Strict, Force, Any, Each bool
	Ban                            string
	BanAfter                       string `json:"ban_after"`
	MaxWait                        string `json:"max_wait"`
	Group, ID                      string
	Priority, Weight               int64
}

type exchange struct {
	Sends []string
	Reply any
}

var tableVerbs = map[string]ratelimit.Verb{
	"limit": ratelimit.VerbLimit, "peek": ratelimit.VerbPeek, "refund": ratelimit.VerbRefund, "wait": ratelimit.VerbWait, "ban": ratelimit.VerbBan,
	"lease": ratelimit.VerbLease, "renew": ratelimit.VerbRenew, "release": ratelimit.VerbRelease, "settle": ratelimit.VerbSettle, "reset": ratelimit.VerbReset,
}

func (c tableCall) mode() charge.Mode {
	switch {
	case c.UpTo:
		return charge.UpTo
	case c.Strict:
		return charge.Strict
	case c.Force:
		return charge.Force
	}
	return ""
}

func (c tableCall) call(t *testing.T) ratelimit.Call {
	verb, known := tableVerbs[c.Verb]
	require.True(t, known, c.Verb)
	call := ratelimit.Call{Verb: verb, Charge: c.mode(), Any: c.Any, Each: c.Each, Group: c.Group, ID: c.ID,
		Priority: c.Priority, Weight: c.Weight, Ban: lengthOf(t, c.Ban), BanAfter: c.BanAfter, MaxWait: lengthOf(t, c.MaxWait)}
	if c.Cost != nil {
		call.Cost, call.NoCost = *c.Cost, *c.Cost == 0
	}
	for _, key := range c.Keys {
		k := ratelimit.Key{Name: key.Name, Slots: key.Slots, TTL: lengthOf(t, key.TTL)}
		for _, l := range key.Limits {
			var limit ratelimit.Limit
			number, unit := l.Period[:len(l.Period)-1], l.Period[len(l.Period)-1:]
			if strings.HasSuffix(l.Period, "mo") {
				number, unit = strings.TrimSuffix(l.Period, "mo"), "mo"
			}
			switch n, _ := strconv.ParseInt(number, 10, 64); { // only of calendar units
			case unit == "mo":
				limit = ratelimit.FixedMonths(l.Count, n)
			case unit == "w":
				limit = ratelimit.FixedWeeks(l.Count, n)
			case unit == "y":
				limit = ratelimit.FixedYears(l.Count, n)
			case l.Kind == "RATE":
				limit = ratelimit.Rate(l.Count, lengthOf(t, l.Period))
			case l.Kind == "WINDOW":
				limit = ratelimit.Window(l.Count, lengthOf(t, l.Period))
			default:
				limit = ratelimit.Fixed(l.Count, lengthOf(t, l.Period))
			}
			if l.Burst != nil {
				limit = limit.Burst(*l.Burst)
			}
			if l.First {
				limit = limit.First()
			}
			if l.Offset != "" {
				limit = limit.Offset(lengthOf(t, l.Offset))
			}
			if l.Zone != "" {
				limit = limit.Zone(l.Zone)
			}
			if l.Take != nil {
				limit = limit.Take(*l.Take)
			}
			if l.Used != nil {
				limit = limit.Used(*l.Used)
			}
			if l.Spare != 0 {
				limit = limit.Spare(l.Spare)
			}
			if l.Shadow {
				limit = limit.Shadow()
			}
			k.Limits = append(k.Limits, limit)
		}
		call.Keys = append(call.Keys, k)
	}
	return call
}

// lengthOf reads a duration of the table.
func lengthOf(t *testing.T, text string) time.Duration {
	switch {
	case text == "" || text == "0":
		return 0
	case text == "forever":
		return ratelimit.Forever
	}
	if days, found := strings.CutSuffix(text, "d"); found {
		n, err := strconv.ParseInt(days, 10, 64)
		require.NoError(t, err)
		return time.Duration(n) * 24 * time.Hour
	}
	d, err := time.ParseDuration(text)
	require.NoError(t, err)
	return d
}

// fieldsOf is a result as the table has it; those that are 0, false or empty are left out.
func fieldsOf(r ratelimit.Result) map[string]any {
	fields := map[string]any{
		"limited": r.Limited, "key": r.KeyIndex, "rule": r.Rule, "banned": r.Banned, "limit": r.Limit, "remaining": r.Remaining,
		"retry_after_ms": ms(r.RetryAfter), "reset_after_ms": ms(r.ResetAfter), "next_after_ms": ms(r.NextAfter), "granted": r.Granted,
		"wait_ms": ms(r.Wait), "lasts_ms": ms(r.Lasts), "shadowed": r.Shadowed, "shadow": r.Shadow, "shadow_key": r.ShadowKeyIndex,
	}
	var each []any
	for _, e := range r.Each {
		each = append(each, fieldsOf(e))
	}
	for name, value := range fields {
		if reflect.ValueOf(value).IsZero() {
			delete(fields, name)
		}
	}
	if each != nil {
		fields["each"] = each
	}
	return fields
}

// assertNamed says that r names the keys that it has the places of.
func assertNamed(t *testing.T, c tableCall, r ratelimit.Result) {
	t.Helper()
	assert.Equal(t, c.Keys[r.KeyIndex].Name, r.Key)
	if r.Shadowed {
		assert.Equal(t, c.Keys[r.ShadowKeyIndex].Name, r.ShadowKey)
	}
	for _, each := range r.Each {
		assertNamed(t, c, each)
	}
}

func ms(d time.Duration) int64 {
	if d == ratelimit.Never {
		return -1
	}
	return d.Milliseconds()
}

func readTable(t *testing.T) (all table) {
	root, err := server.RepositoryRoot()
	require.NoError(t, err)
	text, err := os.ReadFile(filepath.Join(root, "spec/clients/calls.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &all))
	require.NotEmpty(t, all.Cases)
	require.NotEmpty(t, all.Sessions)
	return all
}

// What the Go client sends, and makes of replies, is what the clients of other languages do.
func TestCasesOfAllLanguages(t *testing.T) {
	t.Parallel()
	for _, c := range readTable(t).Cases {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			m := startMadeUp(t, c.Exchanges)
			client := redis.NewClient(&redis.Options{Addr: m.addr, Protocol: 2, DisableIdentity: true})
			defer client.Close()
			result, err := byModule(client).Decide(t.Context(), c.Call.call(t))
			if c.Error != "" {
				assert.Equal(t, c.Error, kindOf(err))
				assert.ErrorContains(t, err, c.Says)
				assert.NotContains(t, err.Error(), "'"+c.Call.Keys[0].Name+"'", "a key in an error")
			} else if assert.NoError(t, err) {
				requireSame(t, c.Result, fieldsOf(result))
				assertNamed(t, c.Call, result)
			}
			m.mu.Lock()
			defer m.mu.Unlock()
			assert.Empty(t, m.left, "not everything was sent")
			assert.Empty(t, m.problems)
		})
	}
}

func TestSessionsOfAllLanguages(t *testing.T) {
	t.Parallel()
	for _, session := range readTable(t).Sessions {
		for _, protocol := range []int{2, 3} {
			t.Run(fmt.Sprint(session.Name, ", RESP", protocol), func(t *testing.T) {
				t.Parallel()
				limiter := ratelimit.New(server.Start(t).Client(server.Protocol(protocol)), ratelimit.Options{})
				for number, step := range session.Steps {
					result := calls.Ask(t, limiter, step.Call.call(t))
					requireFields(t, step.Result, fieldsOf(result), fmt.Sprintf("step %d", number+1))
					assertNamed(t, step.Call, result)
				}
			})
		}
	}
}

func kindOf(err error) string {
	switch {
	case err == nil:
		return ""
	case ratelimit.IsOutage(err):
		return "outage"
	case ratelimit.IsOverload(err):
		return "overload"
	}
	return "mistake"
}

func requireSame(t *testing.T, want, got map[string]any) {
	a, err := json.Marshal(want)
	require.NoError(t, err)
	b, err := json.Marshal(got)
	require.NoError(t, err)
	require.JSONEq(t, string(a), string(b))
}

func requireFields(t *testing.T, want, got map[string]any, where string) {
	for name, value := range want {
		if several, ok := value.([]any); ok {
			each := got[name].([]any)
			require.Len(t, each, len(several), where)
			for i := range several {
				requireFields(t, several[i].(map[string]any), each[i].(map[string]any), where)
			}
			continue
		}
		if found, there := got[name]; there {
			require.EqualValues(t, value, found, "%s: %s of %v", where, name, got)
		} else {
			require.Zero(t, value, "%s: %s of %v", where, name, got)
		}
	}
}

// madeUp is a server that expects words and answers with replies, one exchange after the other.
type madeUp struct {
	addr     string
	mu       sync.Mutex
	left     []exchange
	problems []string
}

func startMadeUp(t *testing.T, exchanges []exchange) *madeUp {
	var listen net.ListenConfig
	listener, err := listen.Listen(context.Background(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	m := &madeUp{addr: listener.Addr().String(), left: slices.Clone(exchanges)}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return // the test is over
			}
			go m.serve(conn)
		}
	}()
	return m
}

func (m *madeUp) serve(conn net.Conn) {
	defer conn.Close()
	for from := resp.NewReader(conn); ; {
		command, err := from.Read()
		if err != nil {
			return
		}
		words := make([]string, len(command.Elems))
		for i, word := range command.Elems {
			words[i] = word.Text
		}
		reply, open := m.answer(words)
		if !open {
			return
		}
		if _, err := io.WriteString(conn, reply); err != nil {
			return
		}
	}
}

func (m *madeUp) answer(words []string) (reply string, open bool) {
	switch {
	case words[0] == "hello":
		return "-ERR unknown command 'HELLO'\r\n", true
	case !strings.HasPrefix(words[0], "CL."):
		return "+OK\r\n", true
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.left) == 0 {
		m.problems = append(m.problems, fmt.Sprintf("nothing more was expected, and %q came", words))
		return "-ERR unexpected\r\n", true
	}
	e := m.left[0]
	m.left = m.left[1:]
	if !slices.Equal(e.Sends, words) {
		m.problems = append(m.problems, fmt.Sprintf("expected %q, and %q came", e.Sends, words))
	}
	if object, ok := e.Reply.(map[string]any); ok && object["closes"] == true {
		return "", false
	}
	return encode(e.Reply), true
}

// encode is a reply as RESP has it.
func encode(reply any) string {
	switch r := reply.(type) {
	case map[string]any:
		return fmt.Sprintf("-%s\r\n", r["error"])
	case float64:
		return fmt.Sprintf(":%d\r\n", int64(r))
	case string:
		return fmt.Sprintf("$%d\r\n%s\r\n", len(r), r)
	case []any:
		text := fmt.Sprintf("*%d\r\n", len(r))
		for _, element := range r {
			text += encode(element)
		}
		return text
	}
	panic(fmt.Sprintf("%v is no reply", reply))
}
