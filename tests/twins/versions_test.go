package twins_test

import (
	"encoding/binary"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"redis-throttle/internal/chance"
	"redis-throttle/internal/size"
	"redis-throttle/limiter/command"
	"redis-throttle/tests/kit"
	"redis-throttle/tests/resp"
	"redis-throttle/tests/server"
)

// The same random calls go at the same instants to a server with an older version and to one with this version, and
// both begin each call with the same bytes. Replies, values and expiries are equal, except for what the changelog
// tells. Where values differ, one of the servers gets that of the other, so that each version goes on from what the
// other wrote.
//
// VERSIONS_CALLS is how many calls to make.
func TestEachVersionGoesOnFromWhatTheOtherWrote(t *testing.T) {
	t.Parallel()
	for version, happens := range map[string][]string{
		"0.2.0": {"equal", "a count of 0", "limits left out", "the older one's value here", "this one's value there", "admission"},
		"0.3.0": {"equal", "a count of 0"},
		"0.4.0": {"equal", "a later expiry"},
	} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			goOnFrom(t, version, happens)
		})
	}
}

// The same with the function library of an older version: it goes on from what this version's module wrote, and the
// other way round.
func TestTheModuleGoesOnFromWhatOlderFunctionsWrote(t *testing.T) {
	t.Parallel()
	server.NeedsServer(t, "functions")
	library := kit.OlderLibrary(t, "0.4.0")
	r := newVirtualRun(t)
	r.tick = int64(time.Microsecond) // TIME tells no more
	old := r.clock.Start(server.WithoutModule())
	old.MustDo("FUNCTION", "LOAD", library)
	v := versions{virtualRun: r, version: "0.4.0", old: old.Raw(), byFunctions: true, seen: map[string]int{}}
	v.goOn([]string{"equal", "a later expiry"})
}

func goOnFrom(t *testing.T, version string, happens []string) {
	path := kit.OlderBuild(t, version)
	r := newVirtualRun(t)
	v := versions{virtualRun: r, version: version, old: r.clock.Start(server.Module(path)).Raw(), seen: map[string]int{}}
	v.goOn(happens)
}

// goOn makes the calls.
func (v *versions) goOn(happens []string) {
	r, t := v.virtualRun, v.t
	v.both("DEBUG", "SET-ACTIVE-EXPIRE", "0")
	for calls := chance.Calls(t, "VERSIONS_CALLS", size.Of(3_000, 60_000)); r.made+r.leases.made < calls; {
		v.both("FLUSHALL")
		for range r.beginSeason() {
			r.step()
			v.call()
		}
	}
	t.Logf("%d calls: %v", r.made+r.leases.made, v.seen)
	for _, what := range happens {
		require.Positive(t, v.seen[what], what)
	}
}

// The history of each command names the words that an older version does not know, and no others.
func TestTheHistoryOfCommandsIsWhatAnOlderVersionLacks(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"0.1.0", "0.2.0", "0.3.0", "0.4.0"} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			path := kit.OlderBuild(t, version)
			now, old := server.Start(t), server.Start(t, server.Module(path))
			if !now.Program.AtLeast(7, 0) {
				t.Skip("this server has no COMMAND DOCS")
			}
			for _, cmd := range command.All {
				before, docs := keywordsOf(old, cmd.Name), keywordsOf(now, cmd.Name)
				if cmd.Since > version {
					require.Empty(t, before, cmd.Name)
					continue
				}
				var told []string
				for _, change := range cmd.History {
					if change.Since > version {
						told = append(told, capitals.FindAllString(change.Changes, -1)...)
					}
				}
				later := slices.DeleteFunc(docs, func(word string) bool { return slices.Contains(before, word) })
				require.ElementsMatch(t, later, told, cmd.Name)
			}
		})
	}
}

var (
	capitals = regexp.MustCompile(`[A-Z]{2,}`)
	tokens   = regexp.MustCompile(`"token" "(\w+)"`)
)

// keywordsOf are the words of a command in COMMAND DOCS.
func keywordsOf(s *server.Server, name string) (words []string) {
	for _, match := range tokens.FindAllStringSubmatch(s.MustDo("COMMAND", "DOCS", name).String(), -1) {
		words = append(words, match[1])
	}
	slices.Sort(words)
	return slices.Compact(words)
}

// versions are a run's server and one with an older version, on which the run's keys hold the same.
type versions struct {
	*virtualRun
	version string // the older one
	old     *resp.Conn
	// The older one is called by functions.
	byFunctions bool
	seen        map[string]int
	past        past
}

// both sends the same words to both servers.
func (v *versions) both(words ...string) (now, old resp.Value) {
	v.t.Helper()
	now, err := v.conn.Do(words...)
	require.NoError(v.t, err)
	if v.byFunctions && strings.HasPrefix(words[0], "CL.") {
		words = kit.AsFunction(words)
	}
	old, err = v.old.Do(words...)
	require.NoError(v.t, err)
	return now, old
}

// call makes up a call, sends it to both, and compares what came of it. What the older version does not know goes to
// this version alone.
func (v *versions) call() {
	v.t.Helper()
	var c virtualCall
	switch kind := v.IntN(10); {
	case kind < 2 && v.leases.key != "":
		c = v.callOfLeases()
	case kind == 2 && v.leases.key != "" && !v.crowded:
		c = v.callOfAdmission()
	case kind == 3 && !v.crowded:
		c = v.callOfKeys()
	default:
		c = v.virtualRun.call(v.keys[v.IntN(len(v.keys))])
	}
	words := slices.DeleteFunc(slices.Clone(c.words), func(w string) bool { return w == "EACH" || w == "COMPACT" })
	if at := slices.Index(words, "AFTER"); at > 0 && v.version < "0.4.0" { // these refuse a key with a count of denials
		words = slices.Delete(words, at, at+2)
	}
	if v.byFunctions && !v.knowsClocks(words) {
		return
	}
	keys := words[1:2]
	if n, err := strconv.Atoi(words[1]); err == nil {
		keys = words[2 : 2+n]
	}
	if what := v.unknown(words); what != "" {
		reply, refused := v.both(words...)
		require.True(v.t, refused.IsError(), "%s does not refuse %q: %v", v.version, words, refused)
		v.seen[what]++
		v.past.add(fmt.Sprint(v.now, words, reply))
		for _, key := range keys {
			v.move(key, v.conn, v.old)
		}
		return
	}
	var before [][]string
	for _, key := range keys {
		_, value := v.both("GET", key)
		before = append(before, limitsIn(value))
	}
	now, old := v.both(words...)
	if v.byFunctions && kit.NeedsModule(old) {
		v.seen["the module alone"]++
		for _, key := range keys {
			v.move(key, v.conn, v.old)
		}
		return
	}
	line := fmt.Sprintf("%d %q\n%q\n%s\n%s", v.now, words, before, shown(now), shown(old))
	v.past.add(line)
	fields := differing(now, old)
	excused := v.excuse(words, slices.Concat(before...), fields, old)
	if len(fields) > 0 {
		require.NotEmpty(v.t, excused, "the versions answer differently: %v\n%s\n\nafter\n%s", fields, line, strings.Join(v.past, "\n"))
	}
	for _, key := range keys {
		v.compareKey(key, words, line, excused)
	}
}

// unknown names what the older version does not know in a call, or nothing.
func (v *versions) unknown(words []string) string {
	switch {
	case v.version < "0.3.0" && (words[0] == "CL.SETTLE" || slices.Contains(words, "SLOTS") && words[0] == "CL.MLIMIT"):
		return "admission"
	case v.version < "0.4.0" && slices.ContainsFunc(words, func(w string) bool { return strings.HasPrefix(w, "0/") }):
		return "a count of 0"
	}
	return ""
}

// differing names the fields in which two replies differ. CL.LEASES has new ones at its end.
func differing(now, old resp.Value) (fields []string) {
	if now.Kind != resp.Array || old.Kind != resp.Array {
		if now.String() != old.String() {
			return []string{"all"}
		}
		return nil
	}
	if len(old.Elems) == 5 { // CL.THROTTLE
		for i, name := range []string{"limited", "limit", "remaining", "retry_after_ms", "reset_after_ms"} {
			if now.Elems[i].Int != old.Elems[i].Int {
				fields = append(fields, name)
			}
		}
		return fields
	}
	for i := 0; i < len(old.Elems); i += 2 {
		if now.Elems[i].Text != old.Elems[i].Text || now.Elems[i+1].String() != old.Elems[i+1].String() {
			fields = append(fields, old.Elems[i].Text)
		}
	}
	return fields
}

// excuses are what the changelog tells: where versions before another answer differently, and in which fields. "*" is
// any of them.
var excuses = []struct {
	before, name, fields string
	applies              func(words, limits []string, old resp.Value) bool
}{
	{"0.4.0", "units that come back to a rate left alone, by a call that names another rate", "*", func(words, limits []string, _ resp.Value) bool {
		isOther := strings.Count(strings.Join(words, " "), " RATE ") > 1
		return isOther && (words[0] == "CL.REFUND" || words[0] == "CL.SETTLE") && slices.ContainsFunc(limits, func(l string) bool { return strings.HasPrefix(l, unknownRate) })
	}},
	{"0.3.0", "CL.THROTTLE beside others", "*", func(words, limits []string, old resp.Value) bool {
		return words[0] == "CL.THROTTLE" && strings.HasPrefix(old.Text, "WRONGTYPE") && slices.ContainsFunc(limits, func(l string) bool { return !isBan(l) })
	}},
	{"0.3.0", "a rate of unknown period", "*", func(words, limits []string, old resp.Value) bool {
		return len(limits) > 1 && slices.ContainsFunc(limits, func(l string) bool { return strings.HasPrefix(l, unknownRate) })
	}},
	{"0.3.0", "lifts, which 0.2.0 forgets with the other limits", "*", func(words, limits []string, _ resp.Value) bool {
		return words[0] == "CL.REFUND" && len(limits) > 1 && slices.ContainsFunc(limits, func(l string) bool { return l[0] == 1 && len(l) > 19 })
	}},
	{"0.3.0", "the wait for a banned key", "retry_after_ms", func(_, limits []string, _ resp.Value) bool { return slices.ContainsFunc(limits, isBan) }},
	{"0.3.0", "ANY of a banned key", "*", func(words, limits []string, _ resp.Value) bool {
		return slices.Contains(words, "ANY") && slices.ContainsFunc(limits, isBan)
	}},
	{"0.3.0", "STRICT with SHADOW", "granted", func(words, _ []string, _ resp.Value) bool {
		return slices.Contains(words, "STRICT") && slices.Contains(words, "SHADOW")
	}},
	{"0.3.0", "SLOTS 0", "retry_after_ms", func(words, _ []string, _ resp.Value) bool { return words[0] == "CL.LEASE" && words[3] == "0" }},
	{"0.3.0", "ANY FORCE", "retry_after_ms", func(words, _ []string, _ resp.Value) bool {
		return slices.Contains(words, "ANY") && slices.Contains(words, "FORCE")
	}},
	{"0.3.0", "a SHADOW that corrects", "*", func(words, _ []string, _ resp.Value) bool { return slices.Contains(words, "SHADOW") }},
	{"0.3.0", "newer data of a time zone", "*", func(words, _ []string, _ resp.Value) bool { return slices.Contains(words, "Africa/Casablanca") }},
	{"0.3.0", "SPARE beyond 63 bits", "*", func(words, _ []string, _ resp.Value) bool {
		return slices.Contains(words, "SPARE") && strings.Contains(fmt.Sprint(words), "92233720368547758")
	}},
}

// excuse names why replies may differ in these fields, or nothing. Where they are equal, it names why values may
// differ.
func (v *versions) excuse(words, limits, fields []string, old resp.Value) string {
	for _, e := range excuses {
		if v.version < e.before && e.applies(words, limits, old) &&
			(e.fields == "*" || len(fields) > 0 && !slices.ContainsFunc(fields, func(f string) bool { return f != e.fields })) {
			if len(fields) > 0 {
				v.seen[e.name]++
			}
			return e.name
		}
	}
	return ""
}

const unknownRate = "\x01\xff\xff\xff\xff\xff\xff\xff\x7f"

// compareKey requires that both hold the same, except for limits that the call left out, and has both go on from the
// value of one.
func (v *versions) compareKey(key string, words []string, line, excused string) {
	v.t.Helper()
	now, old := v.both("DUMP", key)
	expires, expired := v.both("PEXPIRETIME", key)
	if now.Text == old.Text && expires.Int == expired.Int {
		v.seen["equal"]++
		return
	}
	a, b := v.both("GET", key)
	rest, stored := limitsIn(a), limitsIn(b)
	if words[0] == "CL.REFUND" || words[0] == "CL.SETTLE" { // 0.2.0 and 0.3.0 add the limits that the key did not hold, as full ones
		isFull := func(l string) bool { return len(l) == 11 }
		stored, rest = slices.DeleteFunc(stored, isFull), slices.DeleteFunc(rest, isFull)
	}
	isAlike := true
	for i, limit := range stored {
		isAlike = isAlike && i < len(rest) && limitsAlike(limit, rest[i])
	}
	require.True(v.t, excused != "" || isAlike && expires.Int >= expired.Int, "the versions store different values\n%s\n%s\n%q until %d\n%q until %d", line, key,
		a.Text, expires.Int, b.Text, expired.Int)
	if now.Text == old.Text {
		v.seen["a later expiry"]++
	} else {
		v.seen["limits left out"]++
	}
	if v.IntN(2) == 0 {
		v.seen["this one's value there"]++
		v.move(key, v.conn, v.old)
	} else {
		v.seen["the older one's value here"]++
		v.move(key, v.old, v.conn)
	}
}

// move gives a server the value that another one has.
func (v *versions) move(key string, from, to *resp.Conn) {
	v.t.Helper()
	dump, err := from.Do("DUMP", key)
	require.NoError(v.t, err)
	words := []string{"DEL", key}
	if !dump.IsNull {
		expires, err := from.Do("PEXPIRETIME", key)
		require.NoError(v.t, err)
		words = []string{"RESTORE", key, fmt.Sprint(expires.Int), dump.Text, "REPLACE", "ABSTTL"}
	}
	reply, err := to.Do(words...)
	require.NoError(v.t, err)
	require.False(v.t, reply.IsError(), "%v", reply)
	if reply, err = to.Do("EXISTS", key); reply.Int == 0 { // in its last millisecond RESTORE takes a key for expired, but GET does not
		_, err = from.Do("DEL", key)
	}
	require.NoError(v.t, err)
}

// limitsIn divides a value into its ban, if there is one, and its limits: kind, period and state. A number is a RATE of
// unknown period.
func limitsIn(reply resp.Value) (limits []string) {
	if reply.IsError() {
		return nil // leases
	}
	value := reply.Text
	if strings.HasPrefix(value, "\x02") {
		limits, value = append(limits, value[:9]), value[9:]
	}
	if tat, err := strconv.ParseUint(value, 10, 64); err == nil {
		return append(limits, unknownRate+"\x08\x00"+string(binary.LittleEndian.AppendUint64(nil, tat)))
	}
	for rest := value[min(2, len(value)):]; len(rest) > 0; {
		length := 11 + int(binary.LittleEndian.Uint16([]byte(rest[9:])))
		limits, rest = append(limits, rest[:length]), rest[length:]
	}
	return limits
}

func isBan(limit string) bool { return len(limit) == 9 }

// limitsAlike says whether two limits are the same. Only beside others has a RATE a period, and lifts.
func limitsAlike(a, b string) bool {
	if a[0] != 1 || b[0] != 1 {
		return a == b
	}
	isPeriod := a[:9] == b[:9] || a[:9] == unknownRate || b[:9] == unknownRate
	return isPeriod && strings.HasPrefix(b[11:], a[11:])
}
