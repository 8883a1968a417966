--------------------------------------------------------------------------------------------------------------------
-- Numbers. An instant has 64 bits, and a number of Lua is exact below 2^53. So a call is decided in plain numbers if
-- all its times, seen from now, are short; otherwise in wide ones: seconds, and nanoseconds below a second. The
-- formulas are the same for both, and none mixes them. Whatever is short but not short enough sets "long", and the
-- call is decided once more.

local EXACT = 2 ^ 53 - 1 -- the highest number of units
local WORD = 2 ^ 32 -- a number of 64 bits is a high and a low word of 32
local LARGE = 2 ^ 52 -- ns, 52 days: no plain number is kept that is not below, so that the sum of two is exact
local LARGE_RATE = 2 ^ 51 -- and what a RATE adds up
local MAX_S, MAX_NS = 9223372036, 854775807 -- 2^63 - 1, the last instant
local LAST -- the same as a wide number
local TOO_FAR = 2 ^ 40 -- seconds: longer than anything of 64 bits, and stands for all that is

local Wide = {} -- the metatable of wide numbers

local function wide(s, ns) return setmetatable({ s = s, ns = ns }, Wide) end

function Wide.__add(a, b)
  local s, ns = a.s + b.s, a.ns + b.ns
  if ns >= 1e9 then return wide(s + 1, ns - 1e9) end
  return wide(s, ns)
end

function Wide.__sub(a, b)
  local s, ns = a.s - b.s, a.ns - b.ns
  if ns < 0 then return wide(s - 1, ns + 1e9) end
  return wide(s, ns)
end

function Wide.__eq(a, b) return a.s == b.s and a.ns == b.ns end
function Wide.__lt(a, b) return a.s < b.s or a.s == b.s and a.ns < b.ns end
function Wide.__le(a, b) return a.s < b.s or a.s == b.s and a.ns <= b.ns end

-- A product with a whole number from 0 to 2^63, six decimal digits at a time, so that no step exceeds 2^53. It is near
-- where n exceeds that.
function Wide.__mul(a, n)
  local s, ns, scale = 0, 0, n < 1e18 and 1e12 or 1e18
  while scale >= 1 do
    local digits = floor(n / scale) % 1e6
    s, ns = s * 1e6 + a.s * digits, ns * 1e6 + a.ns * digits
    local carry = floor(ns / 1e9)
    s, ns = s + carry, ns - carry * 1e9
    if s > TOO_FAR then s = TOO_FAR end
    scale = scale / 1e6
  end
  return wide(s, ns)
end

local function approximately(a) return a.s * 1e9 + a.ns end
local function wide_of(n) return wide(floor(n / 1e9), n % 1e9) end

-- What is known of the call that is decided. Each call begins with a table of its own, so that none finds what another
-- one left: the clock, read once, as seconds "s" and nanoseconds "ns", as a wide number "now", and, once they are
-- needed, as words "high" and "low"; "is_wide" says in which numbers it is decided, and "zero", "one", the longest time
-- "endless" and that until the "last_instant" are in these, the latter two infinite in plain ones. Decided it may turn
-- out that plain numbers were too "long", that a number of units is "beyond" EXACT, or that a window reaches beyond the
-- years of which the clocks of zones are known ("clocks_unknown").
local this = {}

local function begin(is_wide)
  local time = call('TIME')
  local s, ns = time[1] + 0, time[2] * 1000
  local now = wide(s, ns)
  if is_wide then
    this = { s = s, ns = ns, now = now, is_wide = true, zero = wide(0, 0), one = wide(0, 1), endless = LAST, last_instant = LAST - now }
  else
    this = { s = s, ns = ns, now = now, zero = 0, one = 1, endless = huge, last_instant = huge }
  end
end

local function least(a, b) if b < a then return b end return a end
local function most(a, b) if b > a then return b end return a end
local function longer(a, b) return a and b and most(a, b) end -- of two times, of which false never ends

-- How often b goes into a, and what is left. An estimate is wrong by a few at most if the quotient is one of units
-- that can be counted.
local function divide(a, b)
  local n = floor(approximately(a) / approximately(b))
  if n <= EXACT + 16 then
    if n > EXACT then n = EXACT end
    local rest = a - b * n
    while rest.s < 0 do n, rest = n - 1, rest + b end
    while rest >= b do n, rest = n + 1, rest - b end
    if n <= EXACT then return n, rest end
  end
  this.beyond = true
  return n, wide(0, 0)
end

-- How many whole units of time there are in a time.
local function whole(ns, unit)
  if this.is_wide then return (divide(ns, unit)) end
  return floor(ns / unit)
end

-- What is left over where an instant is divided into stretches of a length.
local function remainder(s, ns, length)
  if not this.is_wide and length < 2 ^ 26 then return (s % length * (1e9 % length) + ns) % length end
  local _, rest = divide(wide(s, ns), this.is_wide and length or wide_of(length))
  return this.is_wide and rest or approximately(rest)
end

-- A time in plain numbers that is kept: what is further back is over in any case.
local function kept_plain(ns)
  if ns >= LARGE then this.long = true end
  return most(ns, -LARGE)
end

-- The numbers of a call in those that it is decided in.
local function from_wide(a)
  if this.is_wide then return a end
  return kept_plain(approximately(a))
end

-- An instant that is so far from now, as seconds and nanoseconds since the Unix epoch.
local function instant(ns)
  if this.is_wide then
    local at = this.now + ns
    return at.s, at.ns
  end
  local sum = this.ns + ns
  local s = floor(sum / 1e9)
  return this.s + s, sum - s * 1e9
end

-- The words of seconds and nanoseconds, and back.
local function words_of(s, ns)
  local high, low = floor(s / 65536) * 1e9, s % 65536 * 1e9 + ns
  low = high % 65536 * 65536 + low
  local carry = floor(low / WORD)
  return floor(high / 65536) + carry, low - carry * WORD
end

local function of_words(high, low)
  local s = floor((high * WORD + low) / 1e9) -- or one more or less
  local at, below = words_of(s, 0)
  local ns = (high - at) * WORD + low - below
  if ns < 0 then return s - 1, ns + 1e9 end
  if ns >= 1e9 then return s + 1, ns - 1e9 end
  return s, ns
end

local function time_of_words(high, low)
  if this.is_wide then return wide(of_words(high, low)) end
  return high * WORD + low
end

local function words_of_time(ns)
  if this.is_wide then return words_of(ns.s, ns.ns) end
  local high = floor(ns / WORD)
  return high, ns - high * WORD
end

local function find_now()
  if not this.high then this.high, this.low = words_of(this.s, this.ns) end
end

local function instant_of_words(high, low)
  if this.is_wide then return wide(of_words(high, low)) - this.now end
  find_now()
  return kept_plain((high - this.high) * WORD + low - this.low)
end

local function words_of_instant(ns)
  if this.is_wide then return words_of(instant(ns)) end
  find_now()
  local low = this.low + ns
  local carry = floor(low / WORD)
  return this.high + carry, low - carry * WORD
end

local function eight_bytes(high, low) return pack('<I4I4', low, high) end
local function wide_bytes(a) return eight_bytes(words_of(a.s, a.ns)) end

local function read_wide(bytes, at)
  local low, high = unpack('<I4I4', bytes, at)
  return wide(of_words(high, low))
end

-- Times in whole units, rounded up; -1 of one that never comes.
local function seconds_up(s, ns) return ns > 0 and s + 1 or s end

local function seconds(ns)
  if not ns then return -1 end
  if this.is_wide then return seconds_up(ns.s, ns.ns) end
  return floor((ns + 999999999) / 1e9)
end

local function ms_up(a) return a.s * 1000 + floor((a.ns + 999999) / 1e6) end

local function milliseconds(ns)
  if not ns then return -1 end
  if this.is_wide then return ms_up(ns) end
  return floor((ns + 999999) / 1e6)
end
