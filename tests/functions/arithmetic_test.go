package functions_test

import (
	"fmt"
	"math"
	"math/big"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"redis-throttle/internal/chance"
	"redis-throttle/internal/size"
	"redis-throttle/tests/kit"
)

// arithmetic is the part of the library that is about numbers, and below it what prints the results of all operations
// for lines of operands: the words of two numbers of 64 bits, and a whole number.
func arithmetic(t *testing.T) string {
	t.Helper()
	numbers, _, ok := strings.Cut(kit.Script(t), "-- RATE, the generic cell rate algorithm")
	require.True(t, ok, "the library has a part about numbers before that about RATE")
	return numbers + `
floor, huge, pack, format, concat = math.floor, math.huge, struct.pack, string.format, table.concat
LAST = wide(9223372036, 854775807)
call = function() return { '1767225600', '123456' } end -- TIME
local function shown(a) return format('%.0f %.0f', a.s, a.ns) end
local function words(high, low) return format('%.0f %.0f', high, low) end
local out = {}
for i = 1, #ARGV, 5 do
  local ah, al, bh, bl, n = tonumber(ARGV[i]), tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2]), tonumber(ARGV[i + 3]), tonumber(ARGV[i + 4])
  begin(true)
  local a, b = wide(of_words(ah, al)), wide(of_words(bh, bl))
  local line = { shown(a), words(words_of(a.s, a.ns)), shown(a + b), shown(a - b), (a * n).s > TOO_FAR - 1 and 'far' or shown(a * n), tostring(a < b), tostring(a <= b), tostring(a == b) }
  if b.s + b.ns > 0 then
    local times, rest = divide(a, b)
    line[#line + 1] = this.beyond and 'beyond' or format('%.0f ', times) .. shown(rest)
    line[#line + 1] = shown(remainder(a.s, a.ns, b))
  end
  -- The same in plain numbers, where they do.
  begin(false)
  local ahead, length = instant_of_words(ah, al), time_of_words(bh, bl)
  if this.long then line[#line + 1] = 'long' else
    line[#line + 1] = format('%.0f', ahead) .. (ahead > -LARGE and ' ' .. words(words_of_instant(ahead)) or '')
  end
  if length > 0 and length < LARGE then
    line[#line + 1] = format('%.0f', remainder(a.s, a.ns, length))
    if ahead >= 0 and ahead < LARGE then line[#line + 1] = format('%.0f', whole(ahead, length)) end
  end
  line[#line + 1] = this.beyond and 'beyond' or ''
  out[#out + 1] = concat(line, '|')
end
return out`
}

// Numbers of 64 bits in seconds and nanoseconds are what they are in Go, and so are instants seen from now in numbers
// of Lua.
func TestWideNumbersAreThoseOf64Bits(t *testing.T) {
	t.Parallel()
	r := chance.New(t)
	c := start(t).Raw()
	script := arithmetic(t)
	const now = 1767225600_123456000
	edges := []uint64{0, 1, 2, 999_999_999, 1e9, 1e9 + 1, 1<<26 - 1, 1 << 26, 1<<31 - 1, 1 << 32, 1<<52 - 1, 1 << 52, 1<<53 + 1, math.MaxInt64 - 1,
		math.MaxInt64, 1 << 63, math.MaxUint64 - 1, math.MaxUint64,
		now - 1, now, now + 1, now + 1<<52 - 1, now + 1<<52, now - 1<<52, 1<<52 + 999_999_999}
	number := func() uint64 {
		switch r.IntN(3) {
		case 0:
			return edges[r.IntN(len(edges))]
		case 1:
			return now + uint64(r.Int64N(1<<54)) - 1<<53
		}
		return r.Uint64() >> r.IntN(64)
	}
	for range size.Of(50, 2000) {
		args, wants := []string{"EVAL", script, "0"}, []string{}
		for range 100 {
			a, b, n := number(), number(), r.Int64N(1<<53)>>r.IntN(53)
			if ahead := r.Uint64N(1 << 52); b > 0 && b <= ahead && r.IntN(2) == 0 { // next to a multiple, where a quotient is rounded most
				a = now + ahead - ahead%b - 1 + r.Uint64N(3)
			} else if r.IntN(8) == 0 { // about as often in it as units can be counted
				b = 1 + r.Uint64N(1<<11-1)
				a = b*(1<<53-20+r.Uint64N(20)) + r.Uint64N(b)
			}
			args = append(args, fmt.Sprint(a>>32), fmt.Sprint(a&math.MaxUint32), fmt.Sprint(b>>32), fmt.Sprint(b&math.MaxUint32), fmt.Sprint(n))
			wants = append(wants, wanted(a, b, n, now))
		}
		v, err := c.Do(args...)
		require.NoError(t, err)
		require.Len(t, v.Elems, len(wants), "%v", v)
		for i, want := range wants {
			require.Equal(t, want, v.Elems[i].Text, "%q", args[3+5*i:8+5*i])
		}
	}
}

func wanted(a, b uint64, n, now int64) string {
	x, y := new(big.Int).SetUint64(a), new(big.Int).SetUint64(b)
	shown := func(z *big.Int) string {
		s, ns := new(big.Int).DivMod(z, big.NewInt(1e9), new(big.Int)) // of a negative number, the nanoseconds are not
		return fmt.Sprint(s, " ", ns)
	}
	product := new(big.Int).Mul(x, big.NewInt(n))
	if s := new(big.Int).Div(product, big.NewInt(1e9)); s.Cmp(big.NewInt(1<<40-1)) > 0 {
		product = nil // too far
	}
	line := []string{shown(x), fmt.Sprint(a>>32, " ", a&math.MaxUint32), shown(new(big.Int).Add(x, y)), shown(new(big.Int).Sub(x, y))}
	if product == nil {
		line = append(line, "far")
	} else {
		line = append(line, shown(product))
	}
	line = append(line, fmt.Sprint(a < b), fmt.Sprint(a <= b), fmt.Sprint(a == b))
	if b > 0 {
		if a/b > 1<<53-1 {
			line = append(line, "beyond", "0 0")
		} else {
			line = append(line, fmt.Sprint(a/b, " ")+shown(new(big.Int).SetUint64(a%b)), shown(new(big.Int).SetUint64(a%b)))
		}
	}
	ahead := new(big.Int).Sub(x, big.NewInt(now))
	const large = 1 << 52
	switch {
	case ahead.Cmp(big.NewInt(large)) >= 0:
		line = append(line, "long")
	case ahead.Cmp(big.NewInt(-large)) <= 0:
		line = append(line, fmt.Sprint(-large))
	default:
		line = append(line, fmt.Sprint(ahead, " ", a>>32, " ", a&math.MaxUint32))
	}
	if b > 0 && b < large {
		line = append(line, fmt.Sprint(a%b))
		if ahead.Sign() >= 0 && ahead.Cmp(big.NewInt(large)) < 0 {
			line = append(line, fmt.Sprint(ahead.Uint64()/b))
		}
	}
	return strings.Join(append(line, ""), "|")
}
