package functions_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"redis-throttle/internal/chance"
	"redis-throttle/internal/size"
	"redis-throttle/limiter/calendar"
	"redis-throttle/tests/clock"
	"redis-throttle/tests/kit"
	"redis-throttle/tests/resp"
	"redis-throttle/tests/server"
)

// beside is a server with the module and the functions, whose clock stands still between calls.
type beside struct {
	*rand.Rand
	t     *testing.T
	clock *clock.Clock
	conn  *resp.Conn
	now   int64
	// called is how many calls both decided, and refused how many the functions left to the module.
	called, refused int
}

func startBeside(t *testing.T) *beside {
	t.Helper()
	server.NeedsServer(t, "functions")
	b := &beside{Rand: chance.New(t), t: t, now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano()}
	b.clock = clock.New(t, b.now)
	s := b.clock.Start()
	kit.LoadFunctions(t, s)
	b.conn = s.Raw()
	kit.Do(t, b.conn, "DEBUG SET-ACTIVE-EXPIRE 0")
	return b
}

// pass moves the clock, by whole microseconds.
func (b *beside) pass(by time.Duration) {
	b.now += int64(by) / 1000 * 1000
	b.clock.Set(b.now)
}

func (b *beside) do(words ...string) resp.Value {
	b.t.Helper()
	v, err := b.conn.Do(words...)
	require.NoError(b.t, err)
	return v
}

// both has the module decide a call on the key {m}k, and a function on {f}k, and compares the replies and what the keys
// hold. Words may name k.
func (b *beside) both(words ...string) resp.Value {
	b.t.Helper()
	on := func(prefix string) (call []string) {
		for _, word := range words {
			if word == "k" || word == "l" {
				word = prefix + word
			}
			call = append(call, word)
		}
		return call
	}
	byModule, call := b.do(on("{m}")...), kit.AsFunction(on("{f}"))
	byFunction := b.do(call...)
	text := strings.Join(call, " ")
	if kit.NeedsModule(byFunction) {
		b.refused++
		require.NotContains(b.t, byModule.String(), "WRONGTYPE", "at %d: %q is refused, which the module takes for no state", b.now, text)
		for _, key := range []string{"k", "l"} { // as if the module had not decided either
			b.do("COPY", "{f}"+key, "{m}"+key, "REPLACE")
			if b.do("EXISTS", "{f}"+key).Int == 0 {
				b.do("DEL", "{m}"+key)
			}
		}
		return byFunction
	}
	b.called++
	require.Equal(b.t, strings.ReplaceAll(byModule.String(), "{m}", "{f}"), byFunction.String(), "at %d: %q", b.now, text)
	for _, key := range []string{"k", "l"} {
		require.Equal(b.t, b.holds("{m}"+key), b.holds("{f}"+key), "at %d, after %q", b.now, text)
	}
	return byFunction
}

// holds is what a key holds and when it expires.
func (b *beside) holds(key string) string {
	b.t.Helper()
	return fmt.Sprint(b.do("DUMP", key), b.do("PEXPIRETIME", key))
}

// put makes both keys hold a value.
func (b *beside) put(value string) {
	b.do("SET", "{m}k", value, "PX", "3600000000")
	b.do("SET", "{f}k", value, "PX", "3600000000")
}

// state is the bytes of a limit of an hour: its kind, and then numbers of four bytes, or one byte below 256 as it is.
func state(kind byte, numbers ...any) string {
	var bytes []byte
	for _, n := range numbers {
		switch n := n.(type) {
		case int:
			bytes = append(bytes, byte(n))
		case uint32:
			bytes = binary.LittleEndian.AppendUint32(bytes, n)
		}
	}
	limits, behind := byte(1), ""
	if kind == 1 && len(bytes) > 16 { // a RATE alone has no lifts
		limits, behind = 2, string(binary.LittleEndian.AppendUint64([]byte{4}, uint64(time.Hour)))+"\x00\x00"
	}
	head := binary.LittleEndian.AppendUint64([]byte{1, limits, kind}, uint64(time.Hour))
	return string(binary.LittleEndian.AppendUint16(head, uint16(len(bytes)))) + string(bytes) + behind
}

// entries is a WINDOW of an hour with a unit of each instant: the last one, and others so long before it.
func entries(last uint64, ages ...uint64) string {
	numbers := []any{len(ages) + 1, 1}
	for _, age := range ages {
		at := last - age
		numbers = append(numbers, uint32(at), int(at>>32), int(at>>40))
	}
	for range len(ages) + 1 {
		numbers = append(numbers, 1)
	}
	return state(2, append(numbers, uint32(last), uint32(last>>32))...)
}

// crowds are the entries of a WINDOW that has so many that the last stands for all of its slot: as many as there may
// be, one more, and a last one that does not end its slot, as only the last instant of all may be.
func crowds(slot uint64) []string {
	last := uint64(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano())/slot*slot - 1
	var ages []uint64
	for age := uint64(65); age > 0; age-- {
		ages = append(ages, age)
	}
	return []string{entries(last, ages[1:]...), entries(last, ages...), entries(last-1, ages[1:]...), entries(math.MaxInt64, ages[1:]...),
		entries(math.MaxInt64-1, ages[1:]...)}
}

// texts are values at the ends of what may be read at all: the first bytes of a state, TATs as they are written alone,
// bans, and windows.
func texts() (values []string) {
	values = []string{"\x01", "\x01\x00", "\x01\x01\x01", "999999999", "1000000000", "9223372036854775807", "17672256000000000000", "18446744073709551615", "18446744073709551616", "100000000000000000000"}
	for _, at := range []uint64{0, 1, math.MaxInt64, 1 << 63} {
		ban := string(binary.LittleEndian.AppendUint64([]byte{2}, at))
		values = append(values, ban, ban+"0", ban+"1767225660000000000")
	}
	fixed := func(kind byte, period uint64, state ...byte) string {
		head := binary.LittleEndian.AppendUint64([]byte{1, 1, kind}, period)
		return string(append(append(head, byte(len(state)), 0), state...))
	}
	first := []byte{0, 0, 0, 0, 0, 0, 134, 24, 1} // in 2025
	return append(values,
		fixed(4, 1<<63-1, first...), fixed(4, 1<<63, first...),
		fixed(3, 1e9, append(binary.AppendUvarint(nil, 9223372036), 1)...), fixed(3, 1e9, append(binary.AppendUvarint(nil, 9223372037), 1)...),
		fixed(3, 60247241209, append(binary.AppendUvarint(nil, math.MaxInt64/60247241209), 1)...)) // until the last instant
}

// edges are states at the ends of what they may hold, and beyond.
func edges() (values []string) {
	const tat = uint32(411464300) // the high word of an instant in the first minutes of 2026
	for _, word := range []uint32{0, 1, 1<<31 - 1, 1 << 31, 1<<32 - 1} {
		values = append(values,
			state(1, uint32(0), tat, word, uint32(0)), state(1, uint32(0), tat, uint32(0), word), state(1, word, uint32(0), uint32(1), uint32(1)),
			state(1, uint32(0), tat, uint32(9), uint32(0), word, uint32(0), uint32(7), uint32(0)),
			state(1, uint32(0), tat, uint32(9), uint32(0), uint32(7), uint32(0), word, uint32(0)),
			state(1, uint32(0), tat, uint32(9), uint32(0), uint32(0), word, uint32(7), uint32(0)),
			state(1, uint32(0), tat, uint32(9), uint32(0), uint32(7), tat/2, uint32(7), word),
			state(2, 1, 1, 1, uint32(0), word), state(2, 1, 4, word, uint32(0), tat), state(2, 1, 8, uint32(1), word, uint32(0), tat),
			state(4, uint32(0), word, 1), state(4, word, tat, 1),
		)
	}
	const hour, slot, last = 3_600_000_000_000, 56_250_000_001, uint64(tat) << 32
	for _, ages := range [][]uint64{{0}, {1}, {hour + slot - 2}, {hour + slot - 1}, {7, 7}, {8, 7}, {7, 8}} {
		values = append(values, entries(last, ages...))
	}
	values = append(append(append(values, entries(5, 5), entries(5, 6), state(1, uint32(0), tat)), crowds(slot)...), texts()...)
	for _, used := range [][]any{{0}, {127}, {128}, {128, 0}, {128, 1}, {255, 255, 255, 127}, {255, 255, 255, 255, 127}, {128, 128, 128, 128, 16},
		{128, 128, 128, 128, 128, 128, 128, 128, 128, 1}, {1, 1}} {
		values = append(values, state(4, append([]any{uint32(0), tat}, used...)...), state(3, append([]any{144, 251, 29}, used...)...),
			state(3, append(used, 1)...))
	}
	return append(values, state(2, 0, 1, uint32(0), tat), state(2, 1, 0, uint32(0), tat), state(2, 1, 9, 1, uint32(0), uint32(0), uint32(0), tat),
		state(0, uint32(0), tat, 1), state(6, uint32(0), tat, 1))
}

// calls has some of every command on strings.
var calls = strings.Split(`CL.THROTTLE k 15 30 60 1
CL.LIMIT k RATE 60/1h
CL.LIMIT k RATE 60/1h RATE 5/1s MAXWAIT 1h COST 3
CL.LIMIT k WINDOW 100/1h COST 2 STRICT
CL.LIMIT k FIXED 5/1d FIXED 5/1h FIRST EACH
CL.LIMIT k RATE 60/1h WINDOW 100/1h FIXED 5/1d FIXED 5/1h FIRST FORCE
CL.LIMIT k FIXED 5/1mo RATE 60/1h BAN 1m
CL.LIMIT k FIXED 5/1d FIXED 0/1h COST 2 BAN 1m AFTER 3/10m
CL.LIMIT k RATE 2/1h COST 2 BAN 1m AFTER 3/10m
CL.PEEK k RATE 60/1h WINDOW 100/1h COMPACT
CL.REFUND k RATE 60/1h WINDOW 100/1h COST 2
CL.BAN k 10s
CL.BAN k 0
CL.MLIMIT 2 k l RATE 60/1h NEXT WINDOW 100/1h FIXED 5/1d UPTO COST 3
CL.MLIMIT 2 k l RATE 60/1h ANY
CL.SETTLE 2 k l WINDOW 100/1h TAKE 1 USED 3 NEXT SLOTS ID a
CL.LEASE k SLOTS 2 TTL 1m ID a
CL.LEASES k
CL.INSPECT k`, "\n")

// A value that is no state, or one that only bad luck or malice makes, is refused by both or read alike by both: with
// the same error, the same reply and the same bytes afterwards.
func TestFunctionsReadHostileValuesAsTheModuleDoes(t *testing.T) {
	t.Parallel()
	b := startBeside(t)
	for i := range 70 { // a window of 65 entries, which has its own rules
		b.both("CL.LIMIT", "k", "WINDOW", "100/1h")
		b.pass(time.Duration(1+i%3) * time.Second)
	}
	crowded := b.do("GET", "{f}k").Text
	for _, value := range edges() {
		for _, call := range calls {
			b.do("DEL", "{m}l", "{f}l")
			b.put(value)
			b.both(strings.Fields(call)...)
		}
	}
	values := []string{crowded, crowded[:len(crowded)-8] + "\x00" + crowded[len(crowded)-7:], "", "0", "00", "1", "-1", "18446744073709551615", "18446744073709551616", "1767225600000000000", "9e18", "17672256000000000000000", " 1", "1\n"}
	for range chance.Calls(t, "HOSTILE_VALUES", size.Of(800, 8000)) {
		value := values[b.IntN(len(values))]
		if len(value) > 12 && value[0] < ' ' && b.IntN(3) > 0 {
			value = b.spoilt(value)
		}
		b.do("DEL", "{m}l", "{f}l")
		b.put(value)
		for range 1 + b.IntN(3) {
			b.both("CL.INSPECT", "k")
			b.both(strings.Fields(calls[b.IntN(len(calls))])...)
		}
		if v := b.do("GET", "{f}k"); v.Kind == resp.BulkString && len(v.Text) > 0 && len(values) < 400 {
			values = append(values, v.Text)
		}
		b.pass(time.Duration(math.Exp(b.Float64() * math.Log(float64(2*time.Hour)))))
	}
	require.Greater(t, b.called, 10*b.refused, "functions refuse little")
	t.Logf("%d calls, %d refused; %d values", b.called, b.refused, len(values))
}

// spoilt is a value with some bytes changed, added or left out.
func (b *beside) spoilt(value string) string {
	bytes := []byte(value)
	for range 1 + b.IntN(3) {
		at := b.IntN(len(bytes))
		switch b.IntN(4) {
		case 0:
			bytes[at] = byte(b.IntN(256))
		case 1:
			bytes[at] ^= 1 << b.IntN(8)
		case 2:
			bytes = append(bytes[:at], bytes[at+1:]...)
		default:
			bytes = append(bytes, byte(b.IntN(256)))
		}
		if len(bytes) == 0 {
			return "\x01"
		}
	}
	return string(bytes)
}

// crowding are calls that leave many entries in a WINDOW.
var crowding = []string{
	"CL.LIMIT k %s", "CL.LIMIT k %s COMPACT", "CL.LIMIT k %s COST %d", "CL.LIMIT k %s COST %d COMPACT", "CL.LIMIT k %s COST %d STRICT",
	"CL.LIMIT k %s EACH", "CL.LIMIT k %s COST %d FORCE", "CL.REFUND k %s COST %d", "CL.PEEK k %s COST %d",
}

// Windows with as many entries as there may be are kept byte for byte: of periods whose instants take four bytes and of
// those that take seven, of more than 52 and of more than 104 days, whose numbers are wide, and with units of several
// bytes.
func TestFunctionsKeepCrowdedWindowsAsTheModuleDoes(t *testing.T) {
	t.Parallel()
	b := startBeside(t)
	crowded := 0
	for _, period := range []time.Duration{time.Second, time.Minute, 17 * time.Minute, time.Hour, 72 * time.Hour, 7 * 24 * time.Hour,
		60 * 24 * time.Hour, 120 * 24 * time.Hour} {
		b.do("DEL", "{m}k", "{f}k")
		limit := fmt.Sprintf("WINDOW 3000/%dms", period.Milliseconds())
		for range chance.Calls(t, "WINDOW_CALLS", size.Of(300, 2000)) {
			call := crowding[b.IntN(len(crowding))]
			cost := []int{1, 1, 2, 2, 3, 40, 300}[b.IntN(7)]
			if strings.Count(call, "%") == 2 {
				call = fmt.Sprintf(call, limit, cost)
			} else {
				call = fmt.Sprintf(call, limit)
			}
			b.both(strings.Fields(call)...)
			if value := b.do("GET", "{f}k").Text; len(value) > 13 && value[1] == 1 && value[13] == 65 {
				crowded++
			}
			step := time.Duration(b.Float64() * float64(period) / 80)
			switch b.IntN(60) {
			case 0:
				step = -step
			case 1:
				step *= 20
			case 2:
				step = 0
			}
			b.pass(step)
		}
	}
	// Entries that stand for all of their slots are the oldest, in front of a crowd.
	b.do("DEL", "{m}k", "{f}k")
	for _, burst := range []struct {
		calls       int
		every, then time.Duration
	}{{64, time.Second, 10 * time.Minute}, {8, 61 * time.Second, 46 * time.Minute}, {60, 100 * time.Millisecond, time.Minute}, {3, 61 * time.Second, 0}} {
		for range burst.calls {
			b.both("CL.LIMIT", "k", "WINDOW", "3000/64m")
			b.pass(burst.every)
		}
		b.pass(burst.then)
	}
	t.Logf("%d calls, %d of them left 65 entries", b.called, crowded)
	require.Greater(t, crowded, b.called/20)
}

// Calls at the ends of what words may be are those of the module.
func TestFunctionsCountWordsAsTheModuleDoes(t *testing.T) {
	t.Parallel()
	b := startBeside(t)
	zeros := strings.Repeat("0", 70)
	for _, n := range []int{0, 1} {
		many := func(word string, n int) []string { return strings.Fields(strings.Repeat(word+" ", n)) }
		for _, words := range [][]string{
			{"CL.LIMIT", "k", "RATE", "5/1." + zeros[:61+n] + "s"},
			{"CL.LIMIT", "k", "FIXED", "5/1" + zeros[:61+n] + "mo"},
			{"CL.LIMIT", "k", "FIXED", "5/d", "TZ", zeros[:64+n]},
			{"CL.LEASE", "k", "SLOTS", "2", "TTL", "0.0001", "ID", "a"},
			{"CL.LIMIT", "k", "RATE", "5/1." + zeros[:38+n]},
			{"CL.LIMIT", "k", "RATE", "5/1." + zeros[:59+n] + "S"},
			{"CL.LIMIT", "k", "RATE", "1" + zeros[:62+n] + "/s"},
			{"CL.LIMIT", "k", "RATE", "5/s", "COST", "1" + zeros[:19+n]},
			{"CL.BAN", "k", "1." + zeros[:38+n]},
			{"CL.THROTTLE", "k", "-1", "30", "60"},
			{"CL.THROTTLE", "k", "9223372036854775807", "30", "60"},
			{"CL.LEASE", "k", "SLOTS", "2", "TTL", "1m", "ID", zeros + zeros + zeros + zeros + zeros + zeros + zeros + zeros[:22+n]},
			append([]string{"CL.LIMIT", "k"}, many("x", 95+n)...),
			append([]string{"CL.RELEASE", "k", "ID"}, many("x", 94+n)...),
			append([]string{"CL.MLIMIT", "1", "k"}, many("x", 798+n)...),
			strings.Fields([]string{"CL.MLIMIT 8 k l a b c d e f FIXED 5/d COST 0", "CL.MLIMIT 9 k l a b c d e f g FIXED 5/d"}[n]),
		} {
			b.do("DEL", "{m}k", "{f}k")
			b.both(words...)
		}
	}
	require.Zero(t, b.refused)
}

// Functions refuse numbers that Lua does not hold exactly, and decide those that it does as the module does.
func TestFunctionsRefuseLargeNumbers(t *testing.T) {
	t.Parallel()
	b := startBeside(t)
	for _, c := range []struct{ call, holds, exceeds, refusal string }{
		{"CL.LIMIT k WINDOW %s/m", "9007199254740991", "9007199254740992", "numbers above 9007199254740991 need the module"},
		{"CL.LIMIT k FIXED 5/m COST %s", "9007199254740991", "9007199254740992", "numbers above 9007199254740991 need the module"},
		{"CL.LIMIT k RATE 5/s BAN 1m AFTER %s/m", "9007199254740991", "9007199254740992", "numbers above 9007199254740991 need the module"},
		{"CL.THROTTLE k %s 1000000000 1", "9007199254740990", "9007199254740991", "a max_burst of more than 9007199254740990 needs the module"},
		{"CL.THROTTLE k 1 %s 9007200", "9007199254740990", "9007199254740991", "a count_per_period of more than 9007199254740990 needs the module"},
		{"CL.THROTTLE k 1 1 1 %s", "9007199254740991", "9007199254740992", "a quantity of more than 9007199254740990 needs the module"},
		{"CL.THROTTLE k 0 1 %s", "9223372036.854775807", "9223372036.854775808", "a period of more than 292 years needs the module"},
		{"CL.LIMIT k FIXED 5/%sms", "0.001", "0.000999", "a FIXED of less than 1us needs the module"},
	} {
		b.do("DEL", "{m}k", "{f}k")
		require.False(t, kit.NeedsModule(b.both(strings.Fields(fmt.Sprintf(c.call, c.holds))...)))
		v := b.do(kit.AsFunction(strings.Fields(fmt.Sprintf(c.call, c.exceeds)))...)
		require.True(t, kit.NeedsModule(v), "%s: %v", c.call, v)
		require.Contains(t, v.Text, c.refusal)
	}
	// So they do where it is the key that holds so many units, or would hold them.
	for _, kind := range []string{"WINDOW 9007199254740991/m", "FIXED 9007199254740991/d", "FIXED 9007199254740991/d FIRST"} {
		call := strings.Fields("CL.LIMIT k " + kind + " COST 9007199254740991 FORCE COMPACT")
		b.do("DEL", "k")
		require.Equal(t, resp.Array, b.do(kit.AsFunction(call)...).Kind)
		require.Equal(t, resp.Array, b.do(kit.AsFunction(strings.Fields("CL.PEEK k "+kind))...).Kind)
		held := b.holds("k")
		require.Contains(t, b.do(kit.AsFunction(call)...).Text, "a number of units above 9007199254740991", kind)
		require.Equal(t, held, b.holds("k"))
		b.do(call...)
		require.Contains(t, b.do(kit.AsFunction(strings.Fields("CL.PEEK k "+kind))...).Text, "a number of units above 9007199254740991", kind)
		// They keep it beside their own limits.
		require.Equal(t, resp.Array, b.do(kit.AsFunction(strings.Fields("CL.LIMIT k RATE 5/s"))...).Kind)
		require.Contains(t, b.do(kit.AsFunction(strings.Fields("CL.PEEK k "+kind))...).Text, "a number of units above 9007199254740991", kind)
	}
	// A sum that Lua rounds may be of more units than there are.
	b.do("DEL", "k")
	b.do(strings.Fields("CL.LIMIT k WINDOW 9007199254740991/m COST 9007199254740991")...)
	b.pass(time.Second)
	require.Contains(t, b.do(kit.AsFunction(strings.Fields("CL.LIMIT k WINDOW 1/m COST 4 FORCE"))...).Text, "a number of units above 9007199254740991")
}

// Keys of every other type, and sorted sets of other scores, are refused with the same errors.
func TestFunctionsRefuseKeysOfOtherTypes(t *testing.T) {
	t.Parallel()
	b := startBeside(t)
	for _, set := range []string{
		"RPUSH %s a", "HSET %s a 1", "SADD %s a", "ZADD %s 1 a", "ZADD %s 1.5 a", "ZADD %s inf a", "ZADD %s -inf a", "ZADD %s 1767225700000 a 1767225700000.5 b",
		"ZADD %s 999999999999 a", "ZADD %s 8074425600000 a", "ZADD %s 8074425600001 a", "ZADD %s 1767225700000 a 99999999999999 b", "ZADD %s 1767225700000 a 1767225700001 b", "ZADD %s 1000000000000 a",
	} {
		for _, call := range append(calls, "CL.LEASE k SLOTS 1 TTL 1m ID b", "CL.LEASE k SLOTS 2 TTL 1m ID b", "CL.RENEW k ID a TTL 1m", "CL.RELEASE k ID a b", "CL.MLIMIT 1 k SLOTS 3 TTL 1m ID c EACH") {
			b.do("DEL", "{m}k", "{f}k", "{m}l", "{f}l")
			for _, key := range []string{"{m}k", "{f}k"} {
				b.do(strings.Fields(fmt.Sprintf(set, key))...)
			}
			b.both(strings.Fields(call)...)
		}
	}
}

// Every zone's days, weeks, months and years end when they end for the module, as long as the library knows the clocks.
func TestFunctionsKnowTheClocksOfEveryZone(t *testing.T) {
	t.Parallel()
	b := startBeside(t)
	first, last := time.Date(2021, 1, 3, 0, 0, 0, 0, time.UTC), time.Date(2050, 12, 28, 0, 0, 0, 0, time.UTC)
	for name, location := range calendar.BuiltIn().All() {
		for range size.Of(2, 30) {
			at := first.Add(time.Duration(b.Int64N(int64(last.Sub(first)))))
			if _, change := at.In(location).ZoneBounds(); b.IntN(2) == 0 && change.Before(last) && !change.IsZero() {
				at = change.Add(time.Duration(b.Int64N(int64(60*time.Hour))) - 30*time.Hour) // about when clocks are changed
			}
			b.now = at.UnixNano() / 1000 * 1000
			b.clock.Set(b.now)
			words := []string{"CL.LIMIT", "k", "FIXED", []string{"5/1d", "5/3d", "5/w", "5/mo", "5/y", "5/d"}[b.IntN(6)], "TZ", name, "COMPACT"}
			if b.IntN(2) == 0 {
				words = append(words[:6], "OFFSET", []string{"6h", "1.5ms", "30m"}[b.IntN(3)], "COMPACT")
			}
			b.both(words...)
			b.do("DEL", "{m}k", "{f}k")
		}
	}
	require.Greater(t, b.called, 50*b.refused)
	for _, year := range []int{2020, 2020, 2051, 2051, 2060} { // what was refused is not remembered
		b.now = time.Date(year, 6, 1, 0, 0, 0, 0, time.UTC).UnixNano()
		b.clock.Set(b.now)
		v := b.do(kit.AsFunction(strings.Fields("CL.LIMIT f FIXED 5/d TZ Europe/Berlin"))...)
		require.Contains(t, v.Text, "ERR the clocks of time zones are known from 2021 to 2051", year)
		require.EqualValues(t, 0, b.do("EXISTS", "f").Int)
	}
	b.now = time.Date(2021, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano()
	b.clock.Set(b.now)
	require.False(t, kit.NeedsModule(b.both(strings.Fields("CL.LIMIT k FIXED 5/d TZ Europe/Berlin")...)), "in the first second of those years")
	b.now = time.Date(2049, 6, 1, 0, 0, 0, 0, time.UTC).UnixNano()
	b.clock.Set(b.now)
	for range 2 {
		require.Contains(t, b.do(kit.AsFunction(strings.Fields("CL.LIMIT f FIXED 5/7y TZ Europe/Berlin"))...).Text, "known from")
	}
}

// What no zone is called is refused, whatever bytes it has: the library looks zones up in one long text.
func TestFunctionsRefuseHostileNamesOfZones(t *testing.T) {
	t.Parallel()
	b := startBeside(t)
	for _, name := range []string{
		"\x00", "Europe/Berlin\x00", "\xff", "", "%", "%s", ".", ".*", "[", "(", "^UTC", "UTC$", "UTC=1", "=1", "Africa/Banjul=1\nAfrica/Bissau", "\nUTC", "UTC\n", "EST-", "-", "europe/berlin",
		strings.Repeat("x", 5000),
	} {
		v := b.both("CL.LIMIT", "k", "FIXED", "5/d", "TZ", name)
		require.Contains(t, v.Text, "ERR syntax error near", "%q", name)
	}
}

// Limits and instants of any size are decided alike, or refused: those of more than 52 days, or of many years, too.
func TestFunctionsDecideAtTheEndsOfTheirRanges(t *testing.T) {
	t.Parallel()
	b := startBeside(t)
	periods := []string{"7.3ms", "127.000001ms", "1ms", "0.000001ms", "0.001ms", "1s", "26d", "27d", "52d", "53d", "104d", "105d", "365d", "36500d", "106751d", "0.125d", "1.000000001s", "71583s", "4295s"}
	counts := []string{"1", "2", "3", "7", "1000", "1000000", "9007199254740991", "9007199254740992", "999999999", "4294967295", "4294967296"}
	costs := []string{"0", "1", "2", "1000", "4503599627370496", "9007199254740991", "9223372036854775807"}
	for range chance.Calls(t, "RANGES_CALLS", size.Of(2000, 20000)) {
		pick := func(of []string) string { return of[b.IntN(len(of))] }
		var words []string
		if b.IntN(5) == 0 {
			words = []string{"CL.THROTTLE", "k", pick(costs), pick(counts), pick(periods), pick(costs)}
		} else {
			words = []string{pick([]string{"CL.LIMIT", "CL.LIMIT", "CL.LIMIT", "CL.PEEK", "CL.REFUND"}), "k"}
			for range 1 + b.IntN(3) {
				words = append(words, strings.Fields(pick([]string{"RATE %s", "WINDOW %s", "FIXED %s", "FIXED %s FIRST", "RATE %s BURST 30"}))...)
				words[len(words)-1] = strings.Replace(words[len(words)-1], "%s", pick(counts)+"/"+pick(periods), 1)
				for i, word := range words {
					if word == "%s" {
						words[i] = pick(counts) + "/" + pick(periods)
					}
				}
			}
			words = append(words, "COST", pick(costs))
			if words[0] == "CL.LIMIT" {
				words = append(words, strings.Fields(pick([]string{"", "STRICT", "FORCE", "UPTO", "MAXWAIT 36500d", "BAN 1m", "BAN 36500d", "BAN 1m AFTER " + pick(counts) + "/" + pick(periods)}))...)
			}
		}
		b.both(words...)
		switch b.IntN(4) {
		case 0:
			b.pass(time.Duration(math.Exp(b.Float64() * math.Log(float64(400*24*time.Hour)))))
		case 1:
			b.do("DEL", "{m}k", "{f}k")
		}
		if b.now > int64(80*365*24*time.Hour) {
			b.now = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano()
			b.pass(time.Duration(b.Int64N(1e15)))
		}
	}
	t.Logf("%d calls, %d refused", b.called, b.refused)
	require.Greater(t, b.called, b.refused)
}
