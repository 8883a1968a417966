// The bytes: what is written, that nothing else is read, and how many there are.
package stack_test

import (
	"encoding/binary"
	"encoding/hex"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/internal/chance"
	"redis-throttle/internal/civil"
	"redis-throttle/limiter/stack"
)

// monthsInUTC is the number that calendar months in UTC are stored under.
const monthsInUTC = "a725bbd0dafe77f7"

// unhex reads hexadecimal digits, with spaces between fields for the reader.
func unhex(t testing.TB, digits string) []byte {
	b, err := hex.DecodeString(strings.ReplaceAll(digits, " ", ""))
	require.NoError(t, err)
	return b
}

func TestTheEncodingByteByByte(t *testing.T) {
	const at = int64(0x0102030405060708)
	for _, tt := range []struct {
		what  string
		specs []spec
		takes []stack.Request
		want  string // "": no key; digits only: text
	}{
		{"nothing taken", []spec{rate(1, 0x1000, 1)}, nil, ""},
		{"a lone rate is its TAT in digits", []spec{rate(1, 0x1000, 1)}, []stack.Request{cost(1)},
			strconv.FormatInt(at+0x1000, 10)},
		{"a lone rate with a reservation", []spec{rate(1, 0x1000, 1)}, []stack.Request{cost(1), {Cost: 1, MaxWaitNs: 0x1000}},
			"01 01  01 0010000000000000 1000  0827060504030201 0010000000000000"},
		{"two rates", []spec{rate(1, 0x1000, 1), rate(4, 0x0102, 4)}, []stack.Request{cost(1)},
			"01 02  01 0010000000000000 0800 0817060504030201  01 0201000000000000 0800 4907060504030201"},
		{"a rate that waits for another", []spec{rate(1, 0x1000, 1), rate(4, 0x0102, 4)}, []stack.Request{cost(1), {Cost: 1, MaxWaitNs: 0x1000}},
			"01 02  01 0010000000000000 1000 0827060504030201 0010000000000000" +
				"  01 0201000000000000 2000 4917060504030201 3d0f000000000000 bf0f000000000000 4100000000000000"},
		{"a window", []spec{window(2, 0x1000)}, []stack.Request{cost(2)},
			"01 01  02 0010000000000000 0b00 01 01 02 0807060504030201"},
		{"a calendar window", []spec{fixed(3, 1<<48)}, []stack.Request{cost(2)},
			"01 01  03 0000000000000100 0300 8202 02"},
		{"a month of the calendar", []spec{in(calendars[5], 3)}, []stack.Request{cost(2)},
			"01 01  03 " + monthsInUTC + " 0200 1d 02"},
		{"a window from the first unit on", []spec{first(300, 1<<48)}, []stack.Request{cost(200)},
			"01 01  04 0000000000000100 0a00 0807060504030201 c801"},
		{"one untouched beside one that is not", []spec{rate(1, 0x1000, 1), fixed(200, 1<<48)},
			[]stack.Request{cost(1), {Cost: 199, Strict: true}},
			"01 02  01 0010000000000000 0800 0817060504030201  03 0000000000000100 0400 8202 c801"},
	} {
		k := key{t: t}
		for _, r := range tt.takes {
			k.take(limits(t, tt.specs...), r, at)
		}
		if strings.Contains(tt.want, " ") {
			assert.Equal(t, hex.EncodeToString(unhex(t, tt.want)), hex.EncodeToString(k.value), tt.what)
		} else {
			assert.Equal(t, tt.want, string(k.value), tt.what)
		}
	}
}

func TestAppendFollowsWhatIsThere(t *testing.T) {
	k := key{t: t}
	k.take(limits(t, window(5, minute), rate(1, second, 1)), cost(1), start)
	assert.Equal(t, "before"+string(k.value), string(k.s.Append([]byte("before"))))
}

func TestDecodeRefusesWhatWasNeverWritten(t *testing.T) {
	const rate8, window11 = "01 00ca9a3b00000000 0800 0807060504030201", "02 00ca9a3b00000000 0b00 01 01 01 0807060504030201"
	const untouched = "01 00ca9a3b00000000 0000"
	for _, value := range []string{
		"01 02" + rate8 + window11,
		"01 02" + window11 + untouched,
		"01 01" + "01 00ca9a3b00000000 1000 0807060504030201 0100000000000000",
		"01 08" + strings.Repeat(window11, 8),
		"01 01 03 ffffffffffffff7f 0200 00 01",
		"01 01 03 ffffffffffffffff 0200 00 01",
		"01 01 03 " + monthsInUTC + " 0200 00 01",
		"01 01 04 00ca9a3b00000000 0900 0807060504030201 01",
	} {
		var s stack.Stack
		assert.NoError(t, s.Decode(unhex(t, value)), value)
	}
	for _, tt := range []struct{ what, value string }{
		{"nothing", ""},
		{"a word", hex.EncodeToString([]byte("bar"))},
		{"digits and a line break", hex.EncodeToString([]byte("1700000000000000000\n"))},
		{"a version", "01"},
		{"an unknown version", "02 02" + rate8 + window11},
		{"version 0", "00 02" + rate8 + window11},
		{"no limits", "01 00"},
		{"nine limits", "01 09" + strings.Repeat(window11, 9)},
		{"fewer limits than announced", "01 03" + rate8 + window11},
		{"more limits than announced", "01 01" + rate8 + window11},
		{"cut short in a limit", "01 02" + rate8 + "02 00ca9a3b000000"},
		{"cut short in a state", "01 02" + rate8 + "02 00ca9a3b00000000 0b00 01 01 01 08070605040302"},
		{"a byte too many", "01 02" + rate8 + window11 + "00"},
		{"a length beyond the end", "01 01 02 00ca9a3b00000000 ffff 01 01 01 0807060504030201"},
		{"kind 0", "01 01 00 00ca9a3b00000000 0800 0807060504030201"},
		{"kind 5", "01 01 05 00ca9a3b00000000 0800 0807060504030201"},
		{"kind 4 of a period of 2^63", "01 01 04 0000000000000080 0900 0807060504030201 01"},
		{"kind 4 without units", "01 01 04 00ca9a3b00000000 0800 0807060504030201"},
		{"a damaged month", "01 01 03 " + monthsInUTC + " 0200 01 00"},
		{"a kind in capitals", "01 01 52 00ca9a3b00000000 0800 0807060504030201"},
		{"no period", "01 02 01 0000000000000000 0800 0807060504030201" + window11},
		{"no period of a calendar window", "01 01 03 0000000000000000 0200 00 01"},
		{"a period of 2^63", "01 02 01 0000000000000080 0800 0807060504030201" + window11},
		{"a damaged rate", "01 02 01 00ca9a3b00000000 0700 07060504030201" + window11},
		{"a damaged lone rate", "01 01 01 00ca9a3b00000000 1000 0000000000000000 0100000000000000"},
		{"a damaged window", "01 01 02 00ca9a3b00000000 0b00 01 01 00 0807060504030201"},
		{"a damaged calendar window", "01 01 03 00ca9a3b00000000 0200 01 00"},
		{"a lone rate without reservations, which is written as digits", "01 01" + rate8},
		{"a lone rate that is untouched", "01 01" + untouched},
		{"a lone rate that waited for another", "01 01 01 00ca9a3b00000000 2000 0807060504030201 0100000000000000 0100000000000000 0100000000000000"},
	} {
		for _, specs := range [][]spec{nil, {rate(1, second, 1)}, {window(1, second)}, {fixed(1, second), window(1, second)}} {
			var s stack.Stack
			s.Load(limits(t, specs...))
			assert.Equal(t, stack.ErrEncoding, s.Decode(unhex(t, tt.value)), tt.what)
		}
	}
}

func TestHoldsLimitsTellsOtherValuesFromANumber(t *testing.T) {
	for _, specs := range [][]spec{{window(5, second)}, {fixed(5, second)}, {rate(1, second, 1), rate(1, minute, 1)}} {
		k := key{t: t}
		k.take(limits(t, specs...), cost(1), start)
		assert.True(t, stack.HoldsLimits(k.value), "%+v", specs)
	}
	for _, value := range []string{"", "1", strconv.FormatInt(start, 10), "\x02"} {
		assert.False(t, stack.HoldsLimits([]byte(value)), "%q", value)
	}
}

// describes reads kinds and periods out of a value by the documented layout. It ends where
// that is broken, and at windows that are none of the tests' calendars.
func describes(value []byte) (limits []spec) {
	if len(value) < 2 || value[0] != 1 {
		return []spec{rate(1, second, 1)}
	}
	for rest := value[2:]; len(rest) >= 11 && len(limits) < stack.MaxLimits; {
		s := spec{kind: stack.Kind(rest[0]), periodNs: int64(binary.LittleEndian.Uint64(rest[1:])), count: 1, capacity: 1}
		if s.kind == stack.Fixed && s.periodNs < 0 {
			id := uint64(s.periodNs)
			at := slices.IndexFunc(calendars, func(c *civil.Windows) bool { return windowsOf(panics{}, c).ID() == id })
			if at < 0 {
				break
			}
			s.calendar, s.periodNs = calendars[at], 1
		}
		if s.kind < stack.Rate || s.kind > stack.First || s.periodNs < 1 {
			break
		}
		limits = append(limits, s)
		rest = rest[min(11+int(binary.LittleEndian.Uint16(rest[9:])), len(rest)):]
	}
	return limits
}

type panics struct{}

func (panics) Errorf(format string, args ...any) {}
func (panics) FailNow()                          { panic("a calendar that is none") }

// namesUnknown reports whether a value has limits that describes leaves out.
func namesUnknown(value []byte, described int) bool {
	return len(value) > 1 && value[0] == 1 && int(value[1]) > described
}

// requireRefusedOrExact fails if a value is read as anything but what it says. Limits in windows
// that are not known here are read, and dropped.
func requireRefusedOrExact(t require.TestingT, s *stack.Stack, value []byte) (read bool) {
	s.Reset()
	described := describes(value)
	for _, limit := range described {
		s.Add(limit.limit(t))
	}
	if err := s.Decode(value); err != nil {
		if err != stack.ErrEncoding {
			require.ErrorIs(t, err, stack.ErrEncoding)
		}
		return false
	}
	if namesUnknown(value, len(described)) {
		return false
	}
	if got := s.Append(make([]byte, 0, len(value))); !slices.Equal(value, got) {
		require.Equal(t, hex.EncodeToString(value), hex.EncodeToString(got))
	}
	return true
}

// realValues are what a lot of random traffic leaves in keys.
func realValues(t *testing.T, n int) [][]byte {
	pick := chance.FromSeed(t)
	values := [][]byte{}
	for len(values) < n {
		d := newDrawer(pick)
		k := key{t: t}
		specs := d.stack()
		calls := d.Draw("calls", 1, 100)
		for range calls {
			d.moveClock(specs)
			d.last = k.take(limits(t, specs...), d.request(specs), d.nowNs)
		}
		if k.value != nil {
			values = append(values, k.value)
		}
	}
	return values
}

func TestEveryDamagedByteIsRefusedOrMeansWhatItSays(t *testing.T) {
	var s stack.Stack
	read, refused := 0, 0
	tally := func(value []byte) {
		if requireRefusedOrExact(t, &s, value) {
			read++
		} else {
			refused++
		}
	}
	for _, value := range realValues(t, steps(600)) {
		require.True(t, requireRefusedOrExact(t, &s, value))
		for i := range value {
			tally(value[:i]) // cut off
			for bit := range 8 {
				value[i] ^= 1 << bit
				tally(value)
				value[i] ^= 1 << bit
			}
			tally(slices.Delete(slices.Clone(value), i, i+1))
			tally(slices.Insert(slices.Clone(value), i, value[i]))
		}
		for b := range 256 {
			tally(append(slices.Clone(value), byte(b)))
		}
	}
	t.Logf("read %d, refused %d", read, refused)
	assert.Greater(t, refused, read)
	assert.Positive(t, read)
}

func TestAValueHasABoundedLength(t *testing.T) {
	assert.Equal(t, 2+8*(11+1042), stack.MaxEncodedLen)

	// One window, whatever comes: many units, many instants, a long period.
	pick := chance.FromSeed(t)
	longest := 0
	for _, periodNs := range []int64{1, 100, second, minute, hour, 24 * hour, 365 * 24 * hour, math.MaxInt64} {
		for _, count := range []int64{1, 64, 100, 1e6, math.MaxInt64} {
			k, now := key{t: t}, int64(0)
			specs := limits(t, window(count, periodNs))
			for range 2000 {
				now += pick("elapsed", 0, periodNs/100)
				if now > math.MaxInt64/2 {
					break
				}
				k.take(specs, stack.Request{Cost: pick.OfAnyMagnitude("cost", 1, count), UpTo: true}, now)
				longest = max(longest, len(k.value))
			}
		}
	}
	t.Logf("%d bytes", longest)
	assert.LessOrEqual(t, longest, 1200)
	assert.Greater(t, longest, 900)

	// Eight of the longest.
	var eight []spec
	for range 8 {
		eight = append(eight, window(math.MaxInt64, math.MaxInt64))
	}
	k := key{t: t}
	for i := range int64(200) {
		k.take(limits(t, eight...), cost(1<<56), i*(math.MaxInt64/400))
	}
	t.Logf("%d bytes", len(k.value))
	assert.Greater(t, len(k.value), stack.MaxEncodedLen*9/10)
	assert.LessOrEqual(t, len(k.value), stack.MaxEncodedLen)
}
