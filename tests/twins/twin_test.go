// The embedded host beside a server: the same calls at the same instants.
package twins_test

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"redis-throttle/limiter/command"
	"redis-throttle/limiter/embedded"
	"redis-throttle/tests/resp"
	"redis-throttle/tests/server"
)

// twin answers commands as a server does, in RESP2: those of the module by the embedded host, and the few of the
// server's own that tests look at keys with.
type twin struct {
	host  embedded.Host
	nowNs int64
	isDev bool // the server is throttle-dev, which cuts off the longest expiries there are
}

func (w *twin) Do(words ...string) resp.Value {
	switch words[0] {
	case "FLUSHALL":
		w.host = embedded.Host{}
		return resp.Value{Kind: resp.SimpleString, Text: "OK"}
	case "DEL":
		existed := w.host.Get(w.nowNs, 0, words[1]) != nil
		w.host.Delete(0, words[1])
		return integer(map[bool]int64{true: 1}[existed])
	case "GET":
		return w.get(words[1])
	case "PEXPIRETIME":
		return w.expireTime(words[1])
	case "ZRANGE":
		return w.members(words[1])
	}
	call := embedded.Call{NowNs: w.nowNs, MayBlock: true}
	for _, word := range words {
		call.Words = append(call.Words, []byte(word))
	}
	return valueOf(w.host.Do(call))
}

func (w *twin) get(key string) resp.Value {
	k := w.host.Get(w.nowNs, 0, key)
	switch {
	case k == nil:
		return resp.Value{Kind: resp.BulkString, IsNull: true}
	case k.Value == nil:
		return wrongKind
	}
	return text(string(k.Value))
}

var wrongKind = resp.Value{Kind: resp.Error, Text: "WRONGTYPE Operation against a key holding the wrong kind of value"}

func (w *twin) expireTime(key string) resp.Value {
	k := w.host.Get(w.nowNs, 0, key)
	if k == nil {
		return integer(-2)
	}
	return integer(cmp.Or(k.ExpireAtMs, -1))
}

func (w *twin) members(key string) resp.Value {
	all := resp.Value{Kind: resp.Array, Elems: []resp.Value{}}
	if k := w.host.Get(w.nowNs, 0, key); k != nil {
		if k.Leases == nil {
			return wrongKind
		}
		for _, l := range k.Leases {
			all.Elems = append(all.Elems, text(l.ID), text(strconv.FormatFloat(l.Score, 'f', -1, 64)))
		}
	}
	return all
}

// valueOf is a reply as a server sends it in RESP2.
func valueOf(r embedded.Reply) resp.Value {
	if r.Kind == command.ReplyError {
		return resp.Value{Kind: resp.Error, Text: r.Error}
	}
	return inRESP2(r.Value())
}

func inRESP2(value any) resp.Value {
	array := resp.Value{Kind: resp.Array, Elems: []resp.Value{}}
	switch v := value.(type) {
	case int64:
		return integer(v)
	case string:
		return text(v)
	case embedded.Map:
		return inRESP2([]any(v))
	case []any:
		for _, e := range v {
			array.Elems = append(array.Elems, inRESP2(e))
		}
	}
	return array
}

func text(s string) resp.Value { return resp.Value{Kind: resp.BulkString, Text: s} }

func integer(n int64) resp.Value {
	return resp.Value{Kind: resp.Integer, Int: n, Text: strconv.FormatInt(n, 10)}
}

// alike reports whether two values are the same to the byte.
func alike(a, b resp.Value) bool {
	return a.Kind == b.Kind && a.Text == b.Text && a.Int == b.Int && a.IsNull == b.IsNull && slices.EqualFunc(a.Elems, b.Elems, alike)
}

// writeScoresPlainly rewrites the scores of a reply to ZRANGE in digits. From Redis 7.2 on, and on throttle-dev, a
// score that ends in zeros has an exponent.
func writeScoresPlainly(v resp.Value) {
	for i := 1; i < len(v.Elems); i += 2 {
		if score, err := strconv.ParseFloat(v.Elems[i].Text, 64); err == nil {
			v.Elems[i].Text = strconv.FormatFloat(score, 'f', -1, 64)
		}
	}
}

// requireStats compares the numbers of INFO throttle. The host has those that count its calls and callers. Its bound of
// callers is not the server's, which goes by the memory of that.
func (w *twin) requireStats(t *testing.T, s *server.Server) {
	t.Helper()
	info := s.Info("throttle")
	for _, stat := range w.host.Stats() {
		if stat.Name == "max_waiting" {
			continue
		}
		require.Equal(t, info["throttle_"+stat.Name], fmt.Sprint(stat.Count), stat.Name)
	}
}

// cutAs is a reply with its instants after 2286 as throttle-dev has them, which holds no more than 292 years: it cuts
// off the last second, and what a key in use stays longer, and so moves an expiry at another call.
func cutAs(own, server resp.Value) resp.Value {
	const in2286, most = 10_000_000_000_000, 3_601_000
	if min(own.Int, server.Int) > in2286 && max(own.Int-server.Int, server.Int-own.Int) <= most {
		return server
	}
	if len(own.Elems) == len(server.Elems) {
		own.Elems = slices.Clone(own.Elems)
		for i := range own.Elems {
			own.Elems[i] = cutAs(own.Elems[i], server.Elems[i])
		}
	}
	return own
}

// differences runs the calls on the twin, and names the first whose reply differs from the server's.
func (w *twin) differences(calls [][]string, server []resp.Value) string {
	for i, words := range calls {
		own := w.Do(words...)
		if w.isDev && (words[0] == "PEXPIRETIME" || words[0] == "CL.INSPECT") {
			own = cutAs(own, server[i])
		}
		if !alike(own, server[i]) {
			return fmt.Sprintf("%d %s\nserver   %v\nembedded %v", w.nowNs, strings.Join(words, " "), server[i], own)
		}
	}
	return ""
}
