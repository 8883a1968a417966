#!lua name=throttle
-- redis-throttle as a function library: the limiter of the module, where no module can be loaded. It has the same
-- words, replies and errors, and keeps the same bytes in the keys, so that both can work on a key in turns.
-- docs/functions.md tells how to use it, docs/internals/state.md what a key holds, and the Go packages gcra and limiter
-- why each decision is made as it is.
--
--     FUNCTION LOAD REPLACE <this file>       then  FCALL cl_limit 1 user:42 RATE 5/s BURST 10
--     SCRIPT LOAD <it without its first line> then  EVALSHA <sha> 1 user:42 cl_limit RATE 5/s BURST 10
--
-- Change functions/library, whose files "go generate ./functions" puts together here. Each follows the Go package that
-- it names. It is a block, because Lua has room for 200 local names at a time; what others use of it is declared in
-- front of it.

-- What the language of the commands is made of, from the Go code: go generate ./functions.
-- BEGIN GENERATED: words
local VERSION = 500 -- of the module that it does as: major x 10000 + minor x 100 + patch

local WORDS = {
  RATE = { name = 'RATE', value = 'quota', right = 'takes count/period, such as 5/s, 100/30m or 10/1.5h; units are ms, s, m, h and d', has_unit = true, excluded = {}, owned = { 'BURST' } },
  WINDOW = { name = 'WINDOW', value = 'quota', right = 'takes count/period, such as 5/s, 100/30m or 10/1.5h; units are ms, s, m, h and d', has_unit = true, excluded = {}, owned = {} },
  FIXED = { name = 'FIXED', value = 'calendar_quota', right = 'takes count/period, such as 5/s, 10/1.5h or 1000/mo; units are ms, s, m, h and d, and w, mo and y for whole weeks, months and years', has_unit = true, excluded = {}, owned = { 'FIRST', 'OFFSET', 'TZ' } },
  BURST = { name = 'BURST', value = 'capacity', right = 'takes the capacity, an integer from 1 to 9223372036854775807', excluded = {}, owned = {} },
  FIRST = { name = 'FIRST', excluded = {}, owned = {} },
  OFFSET = { name = 'OFFSET', value = 'offset', right = 'takes a length of time of at most 100 years, such as 6h, 1.5d or 90m; units are ms, s, m, h and d', has_unit = true, excluded = { 'FIRST' }, owned = {} },
  TZ = { name = 'TZ', value = 'zone', right = 'takes the name of a time zone in the IANA database, such as Europe/Berlin', excluded = { 'FIRST' }, owned = {} },
  TAKE = { name = 'TAKE', value = 'units', right = 'takes an integer from 0 to 9223372036854775807', excluded = {}, owned = {} },
  SPARE = { name = 'SPARE', value = 'units', right = 'takes an integer from 0 to 9223372036854775807', excluded = {}, owned = {} },
  USED = { name = 'USED', value = 'units', right = 'takes an integer from 0 to 9223372036854775807', excluded = {}, owned = {} },
  SHADOW = { name = 'SHADOW', excluded = {}, owned = {} },
  NEXT = { name = 'NEXT', excluded = {}, owned = {} },
  ANY = { name = 'ANY', excluded = { 'SLOTS' }, owned = {} },
  COST = { name = 'COST', value = 'units', right = 'takes an integer from 0 to 9223372036854775807', excluded = {}, owned = {} },
  UPTO = { name = 'UPTO', excluded = { 'MAXWAIT', 'STRICT', 'FORCE', 'TAKE', 'SLOTS' }, owned = {} },
  STRICT = { name = 'STRICT', excluded = { 'MAXWAIT', 'FORCE', 'ANY' }, owned = {} },
  FORCE = { name = 'FORCE', excluded = { 'MAXWAIT', 'SLOTS' }, owned = {} },
  MAXWAIT = { name = 'MAXWAIT', value = 'duration', right = 'takes a length of time of at most 100 years, such as 500ms, 1.5s or 1m; units are ms, s, m, h and d', has_unit = true, rates_only = true, excluded = { 'SLOTS' }, owned = {} },
  BAN = { name = 'BAN', value = 'duration', right = 'takes a length of time of at most 100 years, such as 500ms, 1.5s or 1m; units are ms, s, m, h and d', has_unit = true, excluded = { 'MAXWAIT', 'ANY', 'SLOTS' }, owned = {} },
  AFTER = { name = 'AFTER', value = 'denials', right = 'takes count/period, the count at least 1, such as 5/10m; units are ms, s, m, h and d', has_unit = true, with = 'BAN', excluded = {}, owned = {} },
  SLOTS = { name = 'SLOTS', value = 'slots', right = 'takes an integer from 0 to 9223372036854775807', excluded = {}, owned = {} },
  TTL = { name = 'TTL', value = 'ttl', right = 'takes a length of time from 1ms to 100 years, such as 500ms, 30s or 5m; units are ms, s, m, h and d', has_unit = true, excluded = {}, owned = {} },
  ID = { name = 'ID', value = 'id', right = 'takes 1 to 512 bytes', is_name = true, excluded = {}, owned = {} },
  COUNT = { name = 'COUNT', value = 'rows', right = 'takes an integer from 1 to 9223372036854775807', excluded = {}, owned = {} },
  TIMEOUT = { name = 'TIMEOUT', value = 'duration', right = 'takes a length of time of at most 100 years, such as 500ms, 1.5s or 1m; units are ms, s, m, h and d', has_unit = true, excluded = {}, owned = {} },
  GROUP = { name = 'GROUP', value = 'group', right = 'takes 1 to 128 bytes', is_name = true, with = 'TIMEOUT', excluded = {}, owned = {} },
  WEIGHT = { name = 'WEIGHT', value = 'weight', right = 'takes an integer from 1 to 1000', with = 'GROUP', excluded = {}, owned = {} },
  PRIORITY = { name = 'PRIORITY', value = 'priority', right = 'takes an integer from -100 to 100', with = 'TIMEOUT', excluded = {}, owned = {} },
  COMPACT = { name = 'COMPACT', excluded = {}, owned = {} },
  EACH = { name = 'EACH', excluded = {}, owned = {} },
}

local COMMANDS = {
  THROTTLE = {
    name = 'cl.throttle', least = 3, most = 4,
    kinds = {},
    terms = {},
    options = {},
    required = {},
    fields = {},
  },
  LIMIT = {
    name = 'cl.limit', least = 0,
    kinds = { 'RATE', 'WINDOW', 'FIXED' },
    terms = { 'TAKE', 'SPARE', 'SHADOW' },
    options = { 'COST', 'UPTO', 'STRICT', 'FORCE', 'MAXWAIT', 'BAN', 'AFTER', 'COMPACT', 'EACH' },
    required = {},
    fields = { 'limited', 'rule', 'limit', 'remaining', 'retry_after_ms', 'reset_after_ms', 'next_after_ms', 'granted', 'wait_ms', 'shadow' },
  },
  PEEK = {
    name = 'cl.peek', least = 0,
    kinds = { 'RATE', 'WINDOW', 'FIXED' },
    terms = { 'TAKE', 'SPARE', 'SHADOW' },
    options = { 'COST', 'COMPACT', 'EACH' },
    required = {},
    fields = { 'limited', 'rule', 'limit', 'remaining', 'retry_after_ms', 'reset_after_ms', 'next_after_ms', 'granted', 'wait_ms', 'shadow' },
  },
  REFUND = {
    name = 'cl.refund', least = 0,
    kinds = { 'RATE', 'WINDOW', 'FIXED' },
    terms = { 'TAKE', 'SHADOW' },
    options = { 'COST', 'COMPACT', 'EACH' },
    required = {},
    fields = { 'limited', 'rule', 'limit', 'remaining', 'retry_after_ms', 'reset_after_ms', 'next_after_ms', 'granted', 'wait_ms', 'shadow' },
  },
  BAN = {
    name = 'cl.ban', least = 1, most = 1,
    kinds = {},
    terms = {},
    options = {},
    required = {},
    fields = {},
  },
  MLIMIT = {
    name = 'cl.mlimit', least = 1, groups = true, slots = 'with TTL', has_id = true,
    kinds = { 'RATE', 'WINDOW', 'FIXED' },
    terms = { 'TAKE', 'SPARE', 'SHADOW' },
    options = { 'NEXT', 'ANY', 'COST', 'UPTO', 'STRICT', 'FORCE', 'MAXWAIT', 'BAN', 'AFTER', 'ID', 'COMPACT', 'EACH' },
    required = {},
    fields = { 'limited', 'rule', 'limit', 'remaining', 'retry_after_ms', 'reset_after_ms', 'next_after_ms', 'granted', 'wait_ms', 'shadow', 'key' },
  },
  SETTLE = {
    name = 'cl.settle', least = 1, groups = true, slots = 'alone', settles = true, has_id = true,
    kinds = { 'RATE', 'WINDOW', 'FIXED' },
    terms = { 'TAKE', 'USED', 'SHADOW' },
    options = { 'NEXT', 'ID', 'COMPACT', 'EACH' },
    required = { 'ID' },
    fields = { 'settled', 'rule', 'limit', 'remaining', 'retry_after_ms', 'reset_after_ms', 'next_after_ms', 'granted', 'wait_ms', 'shadow', 'key' },
  },
  LEASE = {
    name = 'cl.lease', least = 0, has_id = true,
    kinds = {},
    terms = {},
    options = { 'SLOTS', 'TTL', 'ID', 'TIMEOUT', 'GROUP', 'WEIGHT', 'PRIORITY', 'COMPACT' },
    required = { 'SLOTS', 'TTL', 'ID' },
    fields = { 'limited', 'limit', 'remaining', 'retry_after_ms', 'lease_ms', 'wait_ms' },
  },
  RENEW = {
    name = 'cl.renew', least = 0, has_id = true,
    kinds = {},
    terms = {},
    options = { 'ID', 'TTL', 'COMPACT' },
    required = { 'ID', 'TTL' },
    fields = { 'limited', 'limit', 'remaining', 'retry_after_ms', 'lease_ms', 'wait_ms' },
  },
  RELEASE = {
    name = 'cl.release', least = 0, has_id = true, repeated = 'ID',
    kinds = {},
    terms = {},
    options = { 'ID' },
    required = { 'ID' },
    fields = {},
  },
  LEASES = {
    name = 'cl.leases', least = 0, most = 2,
    kinds = {},
    terms = {},
    options = { 'COUNT' },
    required = {},
    fields = { 'held', 'waiting', 'leases', 'id', 'lease_ms', 'waiting_groups', 'groups', 'group', 'priority', 'waiting', 'weight' },
  },
  INSPECT = {
    name = 'cl.inspect', least = 0, most = 0,
    kinds = {},
    terms = {},
    options = {},
    required = {},
    fields = { 'kind', 'now_ms', 'bytes', 'expires_at_ms', 'banned_until_ms', 'held', 'lapses_at_ms', 'waiting', 'limits', 'kind', 'period_ms', 'used', 'entries', 'next_at_ms', 'reset_at_ms', 'queue_ms' },
  },
}

local TEXT = {
  badBanDuration = 'ERR duration must be a length of time from 0 to 100 years, such as 500ms, 30s, 1m, 1h or 1d',
  badCount = 'ERR count_per_period must be an integer from 1 to 9223372036854775807',
  badFraction = 'ERR period must be a whole number of nanoseconds',
  badMaxBurst = 'ERR max_burst must be an integer from 0 to 9223372036854775806',
  badNumKeys = 'ERR numkeys must be an integer from 1 to 8',
  badPeriod = 'ERR period must be a positive number of seconds, or one with a unit, such as 500ms, 10s, 1m, 1h or 1d',
  badQuantity = 'ERR quantity must be an integer from 0 to 9223372036854775807',
  badRate = 'ERR count_per_period is too high for this period: at most 10^9 units per second',
  badTolerance = 'ERR max_burst and period are too high: a full bucket would take more than 292 years to refill',
  cannotGoWith = 'cannot go with ',
  expected = 'expected ',
  firstHasLength = 'FIRST goes with periods of one length; units are ms, s, m, h, d and w',
  givenTwice = 'given twice',
  isAKey = ' is a key',
  isMissing = ' is missing',
  longOffset = 'OFFSET must be shorter than the period; a month counts as 28 days, a year as 365',
  misplacedOwn = 'must follow the count/period of a ',
  misplacedTerm = 'must follow the limit that it belongs to',
  needsSlots = 'goes with SLOTS',
  noLimit = 'there must be a limit after the key',
  noLimits = 'there must be a limit after the keys',
  noPeriod = 'the period is zero',
  noUnit = ' needs a unit, such as ',
  noZone = 'no time zone has this name; did you mean ',
  numKeysIs = '; numkeys is ',
  oneGroupOrAll = 'there must be one group of limits for all keys, or one for each key',
  onlyRates = 'works with RATE limits only',
  onlyWith = 'works only together with ',
  ownGroup = 'SLOTS is a group of its own; separate groups by NEXT',
  settleOnce = 'there must be a group of SLOTS, or a retry would settle twice',
  severalInOne = 'contains a space; pass each word as an argument of its own',
  slotsNeedID = 'SLOTS needs an ID',
  takeAndUsed = 'TAKE and USED go together',
  takesRoom = 'counts as one of the 8 limits of a key',
  tooFast = 'at most 10^9 units per second',
  tooFine = 'not a whole number of nanoseconds',
  tooLong = 'the period is longer than 292 years',
  tooMany = 'the count is larger than 9223372036854775807',
  tooManyIDs = 'ERR ID takes at most 94 ids at a time',
  tooManyLimits = 'at most 8 limits',
  tooManyWords = 'ERR syntax error: too many arguments',
  tooSlow = 'a full bucket would take more than 292 years to refill',
  twoOfOneKey = 'each key can be given once',
  unitsAreLower = 'units are written in lower case',
  wrongSet = 'WRONGTYPE The sorted set at this key does not hold leases: a score is not the time in ms at which a lease lapses',
  wrongType = 'WRONGTYPE Operation against a key holding the wrong kind of value',
  wrongValue = 'WRONGTYPE The string at this key is not the state of a rate limiter',
  zeroHasNoBurst = 'a count of 0 lets nobody through, so there is no BURST',
  zoneNeedsDays = 'TZ goes with periods of whole days, weeks, months or years, such as 1d, 2w, 1mo or 1y',
}
-- END GENERATED: words

local CLOCKS, read_clocks -- of time zones, at the end of the file

-- A library that is being loaded has no standard functions; they are bound when one of its functions first runs.
-- "unpack" is that of struct from here on.
local function unpack_table(t, from, to) return unpack(t, from, to) end
local byte, char, find, match, sub, rep, upper, lower, gsub, format, concat, floor, huge, pack, unpack, bxor, call, try

local IS_SCRIPT = not redis.register_function -- which is told the name of the function as its first argument

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

--------------------------------------------------------------------------------------------------------------------
-- RATE, the generic cell rate algorithm. "ahead" is by how much the TAT is later than now, nil of a full bucket.
-- "queue" is how far beyond the tolerance it was meant to be. "lifts" are the times by which reservations lifted the
-- bucket, see gcra/lift.go.

local Rate = {}

do
  -- How much of the bucket is to be refilled, and whether the TAT is out of reach.
  local function backlog(l)
    local ahead = l.ahead
    if not ahead or ahead <= this.zero then return this.zero, false end
    local ceiling = l.tolerance
    if l.queue then ceiling = least(ceiling + l.queue, this.endless) end
    if ahead > ceiling then return ceiling, true end
    return ahead, false
  end

  local function set_backlog(l, ns)
    if ns == this.zero then
      l.ahead, l.queue, l.lifts = nil, nil, nil
      return
    end
    if not this.is_wide and ns >= LARGE then this.long = true end
    l.ahead, l.queue = ns, ns > l.tolerance and ns - l.tolerance or nil
  end

  local function units_in(l, ns)
    if ns < l.emission then return 0 end
    return whole(ns, l.emission)
  end

  local function units_in_up(l, ns) -- a part of a unit counts as one
    local n = units_in(l, ns)
    if l.emission * n < ns then return n + 1 end
    return n
  end

  function Rate.settle(l)
    local ns, corrected = backlog(l)
    if corrected or ns == this.zero then
      l.lifts = nil
      set_backlog(l, ns)
    end
    return corrected
  end

  function Rate.available(l) return units_in(l, most(l.tolerance - backlog(l), this.zero)) end

  function Rate.retry(l, quantity)
    if quantity > l.capacity then return false end
    return most(backlog(l) - (l.tolerance - l.emission * quantity), this.zero)
  end

  function Rate.standing(l)
    local reset, nxt = backlog(l), this.zero
    local available = units_in(l, most(l.tolerance - reset, this.zero))
    if reset > this.zero then nxt = reset - (l.tolerance - l.emission * (available + 1)) end
    return l.capacity, available, reset, nxt
  end

  function Rate.longest_wait(l) return this.endless - l.tolerance end

  function Rate.expires(l) return l.ahead end

  -- Forgets the lifts that no longer count: those whose slot has come, or all if the TAT is out of reach.
  local function settle_lifts(l)
    local lifts = l.lifts
    if not lifts then return end
    local from, _, corrected = l.ahead, backlog(l)
    for _, lift in ipairs(lifts) do from = from - lift.idle - lift.charged end
    while lifts[1] and (corrected or from + lifts[1].idle <= this.zero) do
      from = from + lifts[1].idle + lifts[1].charged
      table.remove(lifts, 1)
    end
    if not lifts[1] then l.lifts = nil end
  end

  -- Moves the TAT on by idle, for which nothing is charged, and then by charged. A lift remembers the two.
  local function move_on(l, ns, idle, charged)
    settle_lifts(l)
    local lifts = l.lifts
    if idle > this.zero and charged > this.zero then
      lifts = lifts or {}
      l.lifts = lifts
      if #lifts == 4 then -- the two oldest become one
        local oldest = table.remove(lifts, 1)
        lifts[1].idle, lifts[1].charged = lifts[1].idle + oldest.idle, lifts[1].charged + oldest.charged
      end
      lifts[#lifts + 1] = { idle = idle, charged = charged }
    elseif lifts then
      lifts[#lifts].charged = lifts[#lifts].charged + idle + charged
    end
    set_backlog(l, ns + idle + charged)
  end

  -- Charges units as long as there is room for them, a part of one included.
  local function charge_within(l, ns, room, quantity)
    local increment = l.emission * quantity
    if increment > room then quantity, increment = units_in_up(l, room), room end
    if increment > this.zero then move_on(l, ns, this.zero, increment) end
    return quantity
  end

  function Rate.charge(l, quantity, wait)
    local ns = backlog(l)
    move_on(l, ns, most(wait - ns, this.zero), l.emission * quantity)
  end

  function Rate.force(l, quantity)
    local ns = backlog(l)
    local charged = charge_within(l, ns, this.endless - ns, quantity)
    if charged == 0 then set_backlog(l, ns) end -- at the last instant, under another tolerance
    return charged
  end

  function Rate.charge_denied(l, quantity, spare)
    if spare >= l.capacity then return 0 end
    local ns = backlog(l)
    return charge_within(l, ns, most(l.tolerance - ns - l.emission * spare, this.zero), least(quantity, l.capacity))
  end

  -- How much of a backlog no unit was charged for.
  local function idle_in(l, ns)
    local idle = this.zero
    for i = l.lifts and #l.lifts or 0, 1, -1 do
      ns = ns - l.lifts[i].charged
      local part = least(l.lifts[i].idle, ns) -- that of the oldest may have begun before now
      ns, idle = ns - part, idle + part
    end
    return idle
  end

  -- The backlog after a refund, what was charged last first: a lift goes with the last that was charged since.
  local function take_off(l, ns, refund)
    local lifts = l.lifts
    while lifts and lifts[1] do
      local last = lifts[#lifts]
      if refund < last.charged then
        last.charged = last.charged - refund
        break
      end
      refund, ns = refund - last.charged, ns - last.charged
      ns = ns - least(last.idle, ns)
      lifts[#lifts] = nil
    end
    if lifts and not lifts[1] then l.lifts = nil end
    return ns - refund
  end

  function Rate.refund(l, quantity)
    local ns = backlog(l)
    settle_lifts(l)
    local charged = ns - idle_in(l, ns)
    if quantity > units_in(l, charged) then
      quantity, ns = units_in_up(l, charged), this.zero
    else
      ns = take_off(l, ns, l.emission * quantity)
    end
    set_backlog(l, ns)
    return quantity
  end

  function Rate.encode(l)
    if not l.ahead then return '' end
    local bytes = eight_bytes(words_of_instant(l.ahead))
    if not l.queue and not l.lifts then return bytes end
    bytes = bytes .. eight_bytes(words_of_time(l.queue or this.zero))
    for _, lift in ipairs(l.lifts or {}) do
      if not this.is_wide and most(lift.idle, lift.charged) >= LARGE then this.long = true end
      bytes = bytes .. eight_bytes(words_of_time(lift.idle)) .. eight_bytes(words_of_time(lift.charged))
    end
    return bytes
  end

  -- Reads lifts, which together reach back to the epoch at most.
  local function decode_lifts(l, state)
    local left, lifts = read_wide(state, 1), {}
    for at = 17, #state, 16 do
      local idle, charged = read_wide(state, at), read_wide(state, at + 8)
      if idle.s + idle.ns == 0 or charged.s + charged.ns == 0 or idle > left or charged > left - idle then return false end
      left = left - idle - charged
      lifts[#lifts + 1] = { idle = from_wide(idle), charged = from_wide(charged) }
    end
    l.lifts = lifts[1] and lifts
    return true
  end

  function Rate.decode(l, state)
    local n = #state
    if n == 0 then return true end
    if n ~= 8 and (n % 16 ~= 0 or n > 80) then return false end
    local low, high = unpack('<I4I4', state)
    if low + high == 0 then return false end
    if n > 8 then
      local queue_low, queue_high = unpack('<I4I4', state, 9)
      if queue_high >= 2 ^ 31 or n == 16 and queue_low + queue_high == 0 or not decode_lifts(l, state) then return false end
      if queue_low + queue_high > 0 then
        l.queue = time_of_words(queue_high, queue_low)
        if not this.is_wide and l.queue >= LARGE then this.long = true end
      end
    end
    l.ahead = instant_of_words(high, low)
    return true
  end
end

--------------------------------------------------------------------------------------------------------------------
-- What WINDOW and both kinds of FIXED have in common: they count units. "used" is how many are counted. A limit is
-- settled before anything else is asked of it. "ends" is the time until nothing is counted that is now, and until_free
-- that until there are so many units more.

local function counted()
  local Kind = {}

  function Kind.available(l) return most(l.count - l.used, 0) end

  function Kind.retry(l, quantity)
    if quantity > l.count then return false end
    local lacking = quantity - (l.count - l.used)
    return lacking > 0 and Kind.until_free(l, lacking) or this.zero
  end

  function Kind.standing(l)
    local reset, nxt = this.zero, this.zero
    if l.used > 0 then reset, nxt = Kind.ends(l), Kind.until_free(l, most(l.used - l.count, 0) + 1) end
    return l.count, most(l.count - l.used, 0), reset, nxt
  end

  function Kind.longest_wait() return this.endless end

  function Kind.expires(l) return l.used > 0 and least(Kind.ends(l), this.last_instant) end

  function Kind.force(l, quantity)
    if quantity <= 0 then return 0 end
    if Kind.add then Kind.add(l, quantity) end
    l.used = l.used + quantity
    if l.used > EXACT then this.beyond = true end
    return quantity
  end

  function Kind.charge_denied(l, quantity, spare) return Kind.force(l, least(quantity, Kind.available(l) - spare)) end

  Kind.charge = Kind.force

  function Kind.refund(l, quantity)
    quantity = least(quantity, l.used)
    l.used = l.used - quantity
    if Kind.remove then Kind.remove(l, quantity) end
    return quantity
  end

  return Kind
end

--------------------------------------------------------------------------------------------------------------------
-- WINDOW, the sliding window of package window. Entries "first" to "last" have units "of" and instants "at". Those are
-- plain numbers of ns since "base", even if the call is decided in wide ones, so that only an entry that matters
-- becomes one. In a window that is too long for that (it does not "fit") they are wide ones, seen from now. "state" is
-- what was read, and has the bytes of the instants that were not changed. "text" has those of entries 1 to "last", or
-- of more, once one was. "width" is that of units while 1 is known to do.

local Window = counted()
local bytes_of -- how many bytes a number of two words needs

do
  local function instant_at(l, i)
    local ns = l.at[i]
    if not this.is_wide then return l.base + ns end
    return l.fits and l.base + wide_of(ns) or ns
  end

  -- An instant, or a length that begins at base, in the numbers of "at".
  local function since(l, ns, base)
    if not this.is_wide then return ns - base end
    return l.fits and approximately(ns - base) or ns
  end

  local function field_of(l, ns) return sub(eight_bytes(words_of_instant(ns)), 1, l.bytes) end

  local function text_of(l)
    return l.text or sub(l.state, 3, 2 + (byte(l.state) - 1) * l.bytes) .. sub(l.state, -8, l.bytes - 9)
  end

  local function put_units(l, i, units)
    l.of[i] = units
    if units > 255 then l.width = nil end
  end

  local function push(l, ns, units)
    if l.first > l.last then l.first, l.last, l.at, l.of, l.base, l.text, l.width = 1, 0, {}, {}, ns, '', 1 end
    l.text = sub(text_of(l), 1, l.last * l.bytes) .. field_of(l, ns)
    l.last = l.last + 1
    l.at[l.last] = since(l, ns, l.base)
    put_units(l, l.last, units)
  end

  -- How far an instant is into its slot. The limit remembers where a slot began, from which others near it are found.
  local function into_slot(l, s, ns)
    if this.is_wide or l.slot < 2 ^ 26 then return remainder(s, ns, l.slot) end
    local start = l.limit.start
    if not start or math.abs(s - start.s) > 4e6 then
      start = wide(s, ns) - wide_of(remainder(s, ns, l.slot))
      l.limit.start = start
    end
    return ((s - start.s) * 1e9 + ns - start.ns) % l.slot
  end

  -- The last instant of the slot that an instant is in.
  local function last_of_slot(l, ns)
    return least(ns - into_slot(l, instant(ns)) + (l.slot - this.one), this.last_instant)
  end

  local function end_of_this_slot(l)
    if not l.slot_end then l.slot_end = last_of_slot(l, this.zero) end
    return l.slot_end
  end

  -- Whether an instant is later than any that a charge so far counts from: the clock was set back.
  local function misdated(l, ns) return ns > this.zero and ns > end_of_this_slot(l) end

  -- Makes the oldest two entries that share a slot one, at the later instant.
  local function merge_oldest(l)
    local at, of, bytes = l.at, l.of, l.bytes
    local slot, slot_end = since(l, l.slot, this.zero), since(l, last_of_slot(l, instant_at(l, l.first)), l.base)
    for i = l.first, l.last - 1 do
      if at[i + 1] <= slot_end then
        put_units(l, i + 1, of[i] + of[i + 1])
        table.remove(at, i)
        table.remove(of, i)
        l.text = sub(text_of(l), 1, (i - 1) * bytes) .. sub(text_of(l), i * bytes + 1)
        l.last = l.last - 1
        return
      end
      while slot_end < at[i + 1] do slot_end = slot_end + slot end
    end
  end

  function Window.add(l, units)
    if l.first <= l.last and instant_at(l, l.last) >= this.zero then
      put_units(l, l.last, l.of[l.last] + units)
      return
    end
    local at = l.last - l.first < 63 and this.zero or end_of_this_slot(l)
    if l.last - l.first == 64 then merge_oldest(l) end
    push(l, at, units)
  end

  function Window.remove(l, units)
    while units > 0 do
      local last = l.of[l.last]
      if last > units then
        l.of[l.last] = last - units
        break
      end
      units, l.last = units - last, l.last - 1
    end
  end

  function Window.until_free(l, units)
    local i, of = l.first, l.of
    while i < l.last and units > of[i] do -- a sum above EXACT, which is refused, may exceed that of all
      units = units - of[i]
      i = i + 1
    end
    return least(l.period + instant_at(l, i), this.endless)
  end

  function Window.ends(l) return least(l.period + instant_at(l, l.last), this.endless) end

  function Window.settle(l)
    if l.last == 0 then return false end
    while l.first <= l.last and this.zero - instant_at(l, l.first) >= l.period do
      l.used = l.used - l.of[l.first]
      l.first = l.first + 1
    end
    local misplaced = 0
    while l.first <= l.last and misdated(l, instant_at(l, l.last)) do
      misplaced = misplaced + l.of[l.last]
      l.last = l.last - 1
    end
    if misplaced > 0 then Window.add(l, misplaced) end
    return misplaced > 0
  end

  -- Units that are denied push out the oldest.
  function Window.charge_denied(l, quantity, spare)
    local count = l.count - spare
    quantity = least(quantity, count)
    if quantity <= 0 then return 0 end
    local excess = least(l.used - (count - quantity), quantity)
    while excess > 0 do
      local units = l.of[l.first]
      if units > excess then
        l.of[l.first], l.used = units - excess, l.used - excess
        break
      end
      excess, l.used, l.first = excess - units, l.used - units, l.first + 1
    end
    return Window.force(l, quantity)
  end

  function bytes_of(high, low)
    local n, value = 0, low
    if high > 0 then n, value = 4, high end
    while value > 0 do n, value = n + 1, floor(value / 256) end
    return n
  end

  -- A column has a field of the same width for each entry. One of up to six bytes is a number of Lua, and one of more
  -- is two: its low word and its high one. pack leaves out the bytes that a field has no room for.
  local formats = {} -- by width and number of fields

  local function format_of(width, n)
    local of_width = formats[width]
    if not of_width then
      of_width = {}
      formats[width] = of_width
    end
    local known = of_width[n]
    if not known then
      known = '<' .. rep(width <= 6 and 'I' .. width or 'I4I' .. width - 4, n)
      of_width[n] = known
    end
    return known
  end

  -- The width of units, and their column.
  local function encode_units(l)
    local of, first, last = l.of, l.first, l.last
    if l.width == 1 then return 1, char(unpack_table(of, first, last)) end
    local largest, values = 0, {}
    for i = first, last do largest = most(largest, of[i]) end
    local width = bytes_of(floor(largest / WORD), largest % WORD)
    if width <= 6 then return width, pack(format_of(width, last - first + 1), unpack_table(of, first, last)) end
    for i = first, last do values[#values + 1], values[#values + 2] = of[i] % WORD, floor(of[i] / WORD) end
    return width, pack(format_of(width, last - first + 1), unpack_table(values))
  end

  function Window.encode(l)
    if l.first > l.last then return '' end
    local width, units = encode_units(l)
    local from, to = (l.first - 1) * l.bytes, (l.last - 1) * l.bytes
    local instants = l.text and sub(l.text, from + 1, to) or sub(l.state, from + 3, to + 2)
    return char(l.last - l.first + 1, width) .. instants .. units .. eight_bytes(words_of_instant(instant_at(l, l.last)))
  end

  -- Whether n fields rise, up to below the last one. Then their ages fall strictly.
  local function rises(fields, n, last)
    local before = -1
    for i = 1, n do
      local field = fields[i]
      if field <= before then return false end
      before = field
    end
    return before < last
  end

  -- Reads instants of more than six bytes, or of fields that begin anew between two of them.
  local function decode_ages(l, fields, n, high, low)
    local bytes, at, far = l.bytes, l.at, this.is_wide and not l.fits
    local lowest, modulus, none, previous = high % 65536 * WORD + low, 256 ^ bytes, 0, since(l, l.span, this.zero)
    if far then none, previous = this.zero, least(previous, time_of_words(high, low)) + this.one
    else previous = least(previous, high * WORD + low) + 1 end
    l.base = instant_of_words(high, low)
    for i = 1, n - 1 do
      local age
      if bytes <= 6 then
        age = (lowest - fields[i]) % modulus
      else
        local below, above = low - fields[2 * i - 1], high - fields[2 * i]
        if below < 0 then below, above = below + WORD, above - 1 end
        above = above % 256 ^ (bytes - 4)
        age = far and time_of_words(above, below) or above * WORD + below
      end
      if age >= previous or age == none then return false end
      at[i], previous = far and l.base - age or -age, age
    end
    at[n] = far and l.base or 0
    return true
  end

  -- Reads the instants of all entries but the last, whose words are known. Their ages fall strictly.
  local function decode_instants(l, state, n, high, low)
    local bytes = l.bytes
    local fields = n > 1 and { unpack(format_of(bytes, n - 1), state, 3) }
    l.last, l.state = n, state
    local last = bytes <= 6 and (high % 65536 * WORD + low) % 256 ^ bytes
    if not fields or not last or not rises(fields, n - 1, last) then return decode_ages(l, fields, n, high, low) end
    if last - fields[1] > since(l, l.span, this.zero) then return false end
    fields[n], fields[n + 1] = last, nil -- behind the fields stands where they end
    l.at, l.base = fields, instant_of_words(high, low) - (this.is_wide and wide_of(last) or last)
    return true
  end

  -- Reads the units of n entries of one byte.
  local function decode_bytes(l, state, at, n)
    local of, total = { byte(state, at, at + n - 1) }, 0
    for i = 1, n do
      local units = of[i]
      if units == 0 then return false end
      total = total + units
    end
    l.of, l.used, l.width = of, total, 1
    return true
  end

  -- Reads the units of n entries, which need their width and are below 2^63 together.
  local function decode_units(l, state, at, n, width)
    if width == 1 then return decode_bytes(l, state, at, n) end
    local fields = { unpack(format_of(width, n), state, at) }
    local total, high_sum, low_sum, largest, widest = 0, 0, 0, 0, 0
    for i = 1, n do
      local units = fields[i]
      if width > 6 then
        local low, high = fields[2 * i - 1], fields[2 * i]
        units, high_sum, low_sum, widest = high * WORD + low, high_sum + high, low_sum + low, most(widest, bytes_of(high, low))
      elseif units > largest then
        largest = units
      end
      if units == 0 then return false end
      l.of[i], total = units, total + units
    end
    if width <= 6 then widest = bytes_of(floor(largest / WORD), largest % WORD) end
    if high_sum + floor(low_sum / WORD) >= 2 ^ 31 or widest ~= width then return false end
    l.used, l.width = total, nil
    if total > EXACT then this.beyond = true end
    return true
  end

  function Window.decode(l, state)
    if #state == 0 then return true end
    if #state < 10 then return false end
    local n, width, bytes = byte(state, 1), byte(state, 2), l.bytes
    if n < 1 or n > 65 or width < 1 or width > 8 or n > 1 and bytes == 0 then return false end
    if #state ~= 2 + (n - 1) * bytes + n * width + 8 then return false end
    local low, high = unpack('<I4I4', state, #state - 7)
    if high >= 2 ^ 31 or not decode_instants(l, state, n, high, low) then return false end
    if n == 65 then
      local s, ns = of_words(high, low)
      if into_slot(l, s, ns) ~= l.slot - this.one and (s ~= MAX_S or ns ~= MAX_NS) then return false end
    end
    return decode_units(l, state, 3 + (n - 1) * bytes, n, width)
  end
end

--------------------------------------------------------------------------------------------------------------------
-- The calendar of package calendar. A window is an index, and the instant at which it ends.

local DAY = 86400
local UNITS, zone_of, similar_zone, calendar_window, even_window, hash_of

do
  local FIRST_INDEX = 2 -- of the window that begins in 1970 or, for weeks, on Monday, 1969-12-29
  local MONDAY = -3

  -- The day since 1970-01-01 that a month since January 1970 begins with (Howard Hinnant's algorithm).
  local function day_of(month)
    month = month + 1970 * 12 - 2 -- from March
    local year = floor(month / 12)
    local era = floor(year / 400)
    local of_era = year - era * 400
    local of_year = floor((153 * (month - year * 12) + 2) / 5)
    return era * 146097 + of_era * 365 + floor(of_era / 4) - floor(of_era / 100) + of_year - 719468
  end

  -- The number of a unit in a hash, the fewest and the most days of one, how many there are in 2^63 ns at most, and the
  -- day on which one begins.
  UNITS = {
    d = { number = 1, days = 1, longest = 1, most = 106751, begin = function(n) return n end },
    w = { number = 2, days = 7, longest = 7, most = 15250, begin = function(n) return MONDAY + 7 * n end },
    mo = { number = 3, days = 28, longest = 31, most = 292 * 12, begin = day_of },
    y = { number = 4, days = 365, longest = 366, most = 292, begin = function(n) return day_of(12 * n) end },
  }

  -- The zones that were used: from "from[i]" on, seconds since the epoch, clocks are "ahead[i]" seconds ahead of UTC.
  local zones = {}

  function zone_of(name)
    if zones[name] then return zones[name] end
    CLOCKS = CLOCKS or read_clocks()
    if find(name, '[^%w/_+-]') then return nil end -- a pattern takes not all bytes
    local _, _, number = find(CLOCKS.names, '%s' .. gsub(name, '%W', '%%%0') .. '=(%d+)')
    if not number then return nil end
    local pattern = CLOCKS[tonumber(number)]
    local zone = { name = name, from = { CLOCKS.from }, ahead = { tonumber(match(pattern, '^%-?%d+')) * 60 } }
    for after, ahead in string.gmatch(pattern, '%s(%d+):(%-?%d+)') do
      zone.from[#zone.from + 1] = zone.from[#zone.from] + after * 60
      zone.ahead[#zone.ahead + 1] = ahead * 60
    end
    zones[name] = zone
    return zone
  end

  -- How far ahead the clocks of a zone are at an instant, and until when they are.
  local function ahead_at(zone, s)
    if s < CLOCKS.from or s >= CLOCKS.to then
      this.clocks_unknown = true
      return 0, huge
    end
    local i = #zone.from
    while s < zone.from[i] do i = i - 1 end
    return zone.ahead[i], zone.from[i + 1] or CLOCKS.to
  end

  -- The first instant at which the clocks of a zone show this time or a later one.
  local function first_showing(zone, s, ns)
    local at = s - DAY -- by then none has: clocks are less than a day ahead
    while true do
      local ahead, till = ahead_at(zone, at)
      local shown = s - ahead
      if shown < at then return at, 0 end -- they skip it
      if shown < till then return shown, ns end
      at = till
    end
  end

  function calendar_window(l)
    local unit, zone, s = UNITS[l.unit], l.zone, this.s - l.offset.s
    if zone then s = s + ahead_at(zone, this.s) end
    if this.ns < l.offset.ns then s = s - 1 end
    local index = floor(s / (DAY * unit.longest * l.n)) -- or a later one
    while unit.begin((index + 1) * l.n) * DAY <= s do index = index + 1 end
    while true do
      local to_s, to_ns = unit.begin((index + 1) * l.n) * DAY + l.offset.s, l.offset.ns
      if zone then to_s, to_ns = first_showing(zone, to_s, to_ns) end
      local to = wide(to_s, to_ns)
      if to > this.now then return { index = index + FIRST_INDEX, to = to } end
      index = index + 1 -- clocks that have been set back show an earlier window again
    end
  end

  -- How many letters of a have to be changed, added, removed or swapped to make it b, from places on, or "limit" if as
  -- many or more.
  local function typos(a, i, b, j, limit)
    if math.abs((#a - i) - (#b - j)) >= limit then return limit end
    while i <= #a and j <= #b and byte(a, i) == byte(b, j) do i, j = i + 1, j + 1 end
    if i > #a or j > #b then return math.min(limit, #a - i + 1 + #b - j + 1) end
    local fewest = typos(a, i + 1, b, j + 1, limit - 1)
    fewest = typos(a, i + 1, b, j, fewest)
    fewest = typos(a, i, b, j + 1, fewest)
    local are_swapped = i < #a and j < #b and byte(a, i) == byte(b, j + 1) and byte(a, i + 1) == byte(b, j)
    if are_swapped then fewest = typos(a, i + 2, b, j + 2, fewest) end
    return 1 + fewest
  end

  local asked, answered -- the latest of those

  -- The zone that was probably meant by a name that is none.
  function similar_zone(name)
    if name == asked then return answered end
    asked, answered = name, nil
    name = gsub(lower(name), ' ', '_')
    local fewest = math.min(2, floor(#name / 4)) + 1
    for zone in string.gmatch(CLOCKS.names, '([^%s=]+)=') do
      local whole, allowed = lower(zone), fewest
      local region, place = match(whole, '^(.*/)(.*)$')
      if not region or region == 'etc/' then place, allowed = whole, math.min(1, fewest) end -- CST is no typo of EST
      local n = math.min(typos(name, 1, whole, 1, allowed), typos(name, 1, place, 1, allowed))
      if n < allowed then fewest, answered = n, zone end
    end
    return answered
  end

  -- Windows of one length, from the epoch or from the offset on.
  function even_window(l)
    local length, since = l.length, this.now - l.offset
    local index, from = 0, l.offset - length
    if since.s >= 0 then
      if length.s == 0 and length.ns < 2 ^ 26 then -- more of them than a quotient holds
        local rest = wide(0, (since.s % length.ns * (1e9 % length.ns) + since.ns) % length.ns)
        index, from = divide(since - rest, length), this.now - rest
      else
        local n, rest = divide(since, length)
        index, from = n, this.now - rest
      end
      if l.offset > wide(0, 0) then index = index + 1 end
    end
    return { index = index, to = from + length }
  end

  -- FNV-1a in 64 bits, with the highest bit set: what stands for the windows of a calendar in a key, in place of a
  -- period. It is of a text and of numbers, wide ones or whole ones.
  function hash_of(text, ...)
    local high, low = 3421674724, 2216829733 -- 14695981039346656037
    for _, number in ipairs({ ... }) do
      text = text .. (type(number) == 'table' and wide_bytes(number) or eight_bytes(floor(number / WORD), number % WORD))
    end
    for i = 1, #text do
      low = low - low % 256 + bxor(low % 256, byte(text, i))
      -- times 2^40 + 435
      local product = low * 435
      local carry = floor(product / WORD)
      high = (high * 435 + carry + low % 2 ^ 24 * 256) % WORD
      low = product - carry * WORD
    end
    return eight_bytes(high < 2 ^ 31 and high + 2 ^ 31 or high, low)
  end
end

--------------------------------------------------------------------------------------------------------------------
-- FIXED: the units "used" in the window with an "index". FIXED ... FIRST: those in the window that began at "start".

local Fixed, First = counted(), counted()
local read_varint

do
  -- l.left is the time until the current window ends.
  function Fixed.settle(l)
    if l.left then return false end
    local limit = l.limit
    local w = limit.window -- which lasts from the call on that found it
    if not w or this.now < w.from or this.now >= w.to then
      w = limit.unit and calendar_window(limit) or even_window(limit)
      w.from, w.to = this.now, least(w.to, LAST)
      if not this.clocks_unknown then limit.window = w end
    end
    l.left = this.is_wide and w.to - this.now or (w.to.s - this.s) * 1e9 + w.to.ns - this.ns
    if not this.is_wide and l.left >= LARGE then this.long = true end
    local is_ahead = l.used > 0 and l.index > w.index
    if l.index < w.index then l.used = 0 end
    l.index = w.index
    return is_ahead
  end

  function Fixed.ends(l) return l.left end

  function First.settle(l)
    local is_ahead = l.used > 0 and l.start > this.zero
    if this.zero - l.start >= l.period then l.used = 0 end
    if l.used == 0 or is_ahead then l.start = this.zero end
    return is_ahead
  end

  function First.ends(l) return l.period + l.start end

  Fixed.until_free, First.until_free = Fixed.ends, First.ends

  -- LEB128: seven bits a byte, the lowest first.
  local function varint(n)
    local bytes = ''
    while n >= 128 do
      bytes = bytes .. char(n % 128 + 128)
      n = floor(n / 128)
    end
    return bytes .. char(n)
  end

  -- Reads one below 2^63 in its shortest form, from a place on: its bits from 28 on, those below, and the place behind.
  function read_varint(state, at)
    local high, low, scale = 0, 0, 1
    for i = 0, 8 do
      local b = byte(state, at + i)
      if not b then return nil end
      if i < 4 then low = low + b % 128 * scale else high = high + b % 128 * scale end
      scale = i == 3 and 1 or scale * 128
      if b < 128 then
        if b == 0 and i > 0 then return nil end
        return high, low, at + i + 1
      end
    end
  end

  local function read_used(l, state, at)
    local high, low, behind = read_varint(state, at)
    if not high or behind ~= #state + 1 or high + low == 0 then return false end
    l.used = high * 2 ^ 28 + low
    if l.used > EXACT then this.beyond = true end
    return true
  end

  function Fixed.encode(l) return l.used == 0 and '' or varint(l.index) .. varint(l.used) end

  function Fixed.decode(l, state)
    if #state == 0 then return true end
    local high, low, behind = read_varint(state, 1)
    if not high then return false end
    l.index = high * 2 ^ 28 + low
    if l.length and not l.has_hash and l.length * high * 2 ^ 28 + l.length * low > LAST then return false end
    return read_used(l, state, behind)
  end

  function First.encode(l) return l.used == 0 and '' or eight_bytes(words_of_instant(l.start)) .. varint(l.used) end

  function First.decode(l, state)
    if #state == 0 then return true end
    if #state < 8 then return false end
    local low, high = unpack('<I4I4', state)
    if high >= 2 ^ 31 or not read_used(l, state, 9) then return false end
    l.start = instant_of_words(high, low)
    return true
  end
end

-- A count of 0 lets nobody through who asks for a unit. Such a limit has no state: what the value holds of its kind and
-- period is kept.
local Nobody = counted()
local NOBODY = 6 -- the kind of such a limit, which no value holds

function Nobody.settle() return false end
function Nobody.force() return 0 end

--------------------------------------------------------------------------------------------------------------------
-- The limits of one key, and what its value holds of them and of others: package stack.

local MAX_LIMITS, layer, limit_of, set_period, stack_of, decode, count_denial, expiry, encode, stored

do
  local DENIED = 5 -- the kind of a count of denials, which is a FIXED ... FIRST that no call asks for units
  local UNKNOWN = '\1\255\255\255\255\255\255\255\127' -- the head of a RATE whose value was a number, without a period

  MAX_LIMITS = 8

  -- A limit that was never used, of a limit as the words describe it.
  function layer(limit)
    local l = setmetatable({ limit = limit, used = 0 }, limit.layer)
    if limit.kind == 2 then l.first, l.last, l.at, l.of = 1, 0, {}, {}
    elseif limit.kind == 3 then l.index = 0
    elseif limit.kind == 4 or limit.kind == DENIED then l.start = this.zero end
    return l
  end

  function stack_of(limits)
    local s = { shadows = 0, kept = {} }
    for i, limit in ipairs(limits) do
      s[i] = layer(limit)
      s.has_nobody = s.has_nobody or limit.kind == NOBODY
      if limit.shadow then s.shadows = s.shadows + 1 end
    end
    return s
  end

  -- A TAT in decimal digits, below 2^64, as seconds and nanoseconds; nil of anything else.
  local function read_tat(value)
    local n = #value
    if n > 20 or not find(value, '^%d+$') or byte(value) == 48 and n > 1 then return nil end
    if n == 20 and value > '18446744073709551615' then return nil end
    if n < 10 then return 0, tonumber(value) end
    return tonumber(sub(value, 1, n - 9)), tonumber(sub(value, n - 8))
  end

  local function tat_text(s, ns)
    if s == 0 then return format('%.0f', ns) end
    return format('%.0f%09.0f', s, ns)
  end

  -- The first RATE, or limit with this head, that the value has shown no state of yet.
  local function not_stored(s, head)
    for _, l in ipairs(s) do
      if not l.stored and (head and l.head == head or not head and l.kind == 1) then return l end
    end
  end

  local KINDS = {
    { __index = Rate }, { __index = Window }, { __index = Fixed }, { __index = First }, { __index = First }, { __index = Nobody },
  }

  function limit_of(limit)
    limit.layer = { __index = limit }
    return setmetatable(limit, KINDS[limit.kind])
  end

  -- What a WINDOW of a period, a wide number, needs to know of it.
  function set_period(limit, period)
    local s = floor(period.s / 64)
    limit.period, limit.slot = period, wide(s, floor(((period.s - 64 * s) * 1e9 + period.ns) / 64)) + wide(0, 1)
    limit.span = period + limit.slot - wide(0, 2)
    limit.bytes = bytes_of(words_of(limit.span.s, limit.span.ns))
    limit.fits = limit.span + limit.slot < wide_of(EXACT)
  end

  -- Some limit of a kind and period, or hash, for a state that the call names no limit for.
  local function any_of(kind, head, period)
    local limit = { kind = kind, head = head }
    if kind == 2 then
      set_period(limit, period)
      for _, name in ipairs({ 'period', 'slot', 'span' }) do limit[name] = from_wide(limit[name]) end
    elseif kind == 3 then
      limit.has_hash = byte(head, 9) >= 128
      limit.length = not limit.has_hash and period
    else
      limit.period = from_wide(period)
    end
    return limit_of(limit)
  end

  -- Keeps a limit that the value holds and the call does not name: its bytes, and the instant from which it is full, a
  -- wide number. That of a window of the calendar is not known.
  local function keep(s, kind, head, state)
    local was_long, was_beyond, period = this.long, this.beyond, read_wide(head, 2)
    local limit = any_of(kind, head, period)
    was_long = was_long or kind == 2 and this.long
    if not layer(limit):decode(state) then return false end
    this.long, this.beyond = was_long, was_beyond -- its bytes are copied, whatever they say
    local k = { kind = kind, head = head, state = state }
    if #state == 0 then
      k.is_full = true
    elseif kind == 3 then
      local high, low = read_varint(state, 1)
      if limit.has_hash then k.calendar = wide(0, 2 ^ 28) * high + wide(0, low)
      else k.full_at = least(period * high * 2 ^ 28 + period * (low + 1), LAST) end
    else
      k.full_at = read_wide(state, kind == 2 and #state - 7 or 1)
      if kind ~= 1 then k.full_at = least(k.full_at + period, LAST) end
    end
    s.kept[#s.kept + 1] = k
    return true
  end

  local function decode_tat(s, tat)
    local rate, is_there = not_stored(s), tat.s + tat.ns > 0
    if rate then
      rate.stored = true
      if is_there then rate.ahead = this.is_wide and tat - this.now or kept_plain((tat.s - this.s) * 1e9 + tat.ns - this.ns) end
    elseif is_there then
      s.kept[1] = { kind = 1, head = UNKNOWN, state = wide_bytes(tat), full_at = tat }
    end
    return true
  end

  -- Gives the limits of the call the states that a value holds for them, and keeps those of others. false if it is none
  -- of a limiter.
  function decode(s, value)
    local tat_s, tat_ns = read_tat(value)
    if tat_s then return decode_tat(s, wide(tat_s, tat_ns)) end
    local version, n = byte(value, 1, 2)
    if not n or version ~= 1 or n < 1 or n > MAX_LIMITS then return false end
    local at, unknown = 3, nil
    for _ = 1, n do
      if #value < at + 10 then return false end
      local head = sub(value, at, at + 8)
      local kind, length = byte(head), byte(value, at + 9) + 256 * byte(value, at + 10)
      local state = sub(value, at + 11, at + 10 + length)
      if #state < length or kind < 1 or kind > DENIED or find(head, '^.%z%z%z%z%z%z%z%z') then return false end
      if kind ~= 3 and byte(head, 9) >= 128 then return false end
      at = at + 11 + length
      local is_alone = n == 1 and kind == 1
      if is_alone and length ~= 16 then return false end -- one without reservations is a number
      local l = not_stored(s, not is_alone and head)
      if l then
        if not l:decode(state) then return false end
        l.stored = true
      else
        if head == UNKNOWN then unknown = #s.kept + 1 end
        if not keep(s, kind, head, state) then return false end
      end
    end
    if at ~= #value + 1 then return false end
    local rate = unknown and not_stored(s)
    if rate then
      rate.stored = true
      rate:decode(table.remove(s.kept, unknown).state)
    end
    return true
  end

  local function stores(s, l) return (not s.adds_none or l.stored) and l.kind ~= NOBODY end

  local function stored_limits(s)
    local n = #s.kept
    for _, l in ipairs(s) do
      if stores(s, l) then n = n + 1 end
    end
    return n
  end

  -- A RATE that is kept for its place alone.
  local function full_rate(head) return { kind = 1, head = head, state = '', is_full = true } end

  -- The only limit that the value is to hold, if that is a RATE. Beside one it adds a RATE of the call that stands in
  -- front of it and is not stored, or is a RATE of 0: a later call would take the number for its state.
  local function lone_rate(s)
    if s.kept[1] or #s > 1 and not s.adds_none and not s.has_nobody then return nil end
    local rate, before
    for _, l in ipairs(s) do
      if #s == 1 or stores(s, l) then
        if rate or l.kind ~= 1 then return nil end
        rate = l
      elseif l.kind == 1 and not rate then
        before = l
      end
    end
    if rate and before then
      before.stored = true
      return nil
    end
    if rate and s.has_nobody and not s.adds_none then
      for _, l in ipairs(s) do
        if l == rate then break end
        if l.rate_head and l.rate_head ~= rate.head then
          s.kept[1] = full_rate(l.rate_head)
          return nil
        end
      end
    end
    return rate
  end

  -- Whether a limit of the same kind and period is kept behind one: which is which, only their order tells.
  local function counts_on(s, index)
    for i = index + 1, #s.kept do
      if s.kept[i].head == s.kept[index].head then return true end
    end
    return false
  end

  -- Whether a kept limit is the one to forget if there is no room for both.
  local function goes_before(a, b)
    if a.calendar and b.calendar then return a.calendar > b.calendar end
    if a.calendar or b.calendar then return b.calendar ~= nil end
    if a.is_full or b.is_full then return a.is_full and not b.is_full end
    return a.full_at < b.full_at
  end

  -- Drops what does not have to be kept: what is full, and what there is no room for.
  local function forget(s)
    local kept, full = s.kept, nil
    for i = #kept, 1, -1 do
      local k = kept[i]
      if k.is_full or k.full_at and k.full_at <= this.now then
        if counts_on(s, i) then
          k.state, k.full_at, k.is_full, k.calendar = '', nil, true, nil
        else
          if k.kind == 1 then full = k end
          table.remove(kept, i)
        end
      end
    end
    if full and lone_rate(s) then kept[#kept + 1] = full_rate(full.head) end
    while stored_limits(s) > MAX_LIMITS do
      local soonest = #kept
      for i = soonest - 1, 1, -1 do
        if not kept[i].is_named and not counts_on(s, i) and goes_before(kept[i], kept[soonest]) then soonest = i end
      end
      table.remove(kept, soonest)
    end
  end

  local WORDS_OF_KINDS = { 'RATE', 'WINDOW', 'FIXED', 'FIRST', 'AFTER' }

  -- What a value tells of a kept limit, as of now and in the order of the reply to CL.INSPECT: stack/stored.go. A call
  -- that asks is in wide numbers.
  function stored(k)
    if not k then return { 'RATE', -1, 0, 0, 0, 0, 0 } end -- one that nothing is kept of
    local kind, period = k.kind, read_wide(k.head, 2)
    local told = { WORDS_OF_KINDS[kind], ms_up(period), 0, 0, 0, 0, 0 }
    if k.head == UNKNOWN or byte(k.head, 9) >= 128 then told[2] = -1 end
    if k.is_full then return told end
    if kind == 1 then
      if k.full_at > this.now then
        told[3], told[5], told[6] = -1, -1, ms_up(k.full_at)
        if #k.state > 8 then told[7] = ms_up(read_wide(k.state, 9)) end
      end
      return told
    end
    local limit = any_of(kind, k.head, period)
    limit.offset = wide(0, 0)
    local l = layer(limit)
    l:decode(k.state)
    if k.calendar then
      told[3], told[5], told[6] = l.used, -1, -1
      return told
    end
    l:settle()
    told[3] = l.used
    if kind == 2 then told[4] = l.last - l.first + 1 end
    if l.used > 0 then told[5], told[6] = ms_up(least(this.now + l:until_free(1), LAST)), ms_up(least(this.now + l:ends(), LAST)) end
    return told
  end

  -- Counts a call that was denied, for a ban that begins after some. The count is handled as a limit that the call does
  -- not name, but not forgotten. Returns whether this was the last denial, with which the count starts anew, and
  -- whether the state has to be stored then.
  function count_denial(s, after)
    local count, at = layer(after), nil
    for i = #s.kept, 1, -1 do
      if s.kept[i].head == after.head then at = i end
    end
    if at then count:decode(table.remove(s.kept, at).state) end
    count:settle()
    count:force(1)
    if count:available() == 0 then return true, at ~= nil end
    local full_at = wide(instant(count:expires()))
    local k = { kind = DENIED, head = after.head, state = count:encode(), is_named = true, full_at = full_at }
    table.insert(s.kept, 1, k)
    return false
  end

  -- The second after which all limits are full, nil if they are now; and whether a window is kept whose end is not
  -- known.
  function expiry(s)
    local second, keeps_calendar
    if s.kept[1] then forget(s) end
    for _, k in ipairs(s.kept) do
      if k.full_at then second = most(second or 0, seconds_up(k.full_at.s, k.full_at.ns)) end
      keeps_calendar = keeps_calendar or k.calendar ~= nil
    end
    for _, l in ipairs(s) do
      local ns = l:expires()
      if ns and ns > this.zero then second = most(second or 0, seconds_up(instant(ns))) end
    end
    return second, keeps_calendar
  end

  -- The value to store. expiry comes first.
  function encode(s)
    local rate = lone_rate(s)
    if rate and not rate.queue then
      if not rate.ahead then return '0' end
      return tat_text(instant(rate.ahead))
    end
    if rate then rate.lifts = nil end
    local parts = { char(1, stored_limits(s)) }
    local function add(head, state)
      parts[#parts + 1] = head .. char(#state % 256, floor(#state / 256)) .. state
    end
    for _, l in ipairs(s) do
      if stores(s, l) then add(l.head, l:encode()) end
    end
    for _, k in ipairs(s.kept) do add(k.head, k.state) end
    return concat(parts)
  end
end

--------------------------------------------------------------------------------------------------------------------
-- Decisions: package stack. "d" is the limits that are decided at one instant: those of a stack, or of several. A time
-- is false if it never comes. A result is about its rule, the number of a limit.

local settle, judge, retry_alone, standing_of, take, outlook, retry_of, peek, standing, adjust, add_charged, has_changed

do
  local function units_of(l, cost) return l.take or cost end

  local function left_of(l) return most(l:available() - (l.spare or 0), 0) end

  -- The time until there are so many units and, unless they are 0, those to spare.
  local function wait_of(l, units)
    if units == 0 then return this.zero end
    return l:retry(units + (l.spare or 0))
  end

  -- Brings all states to now.
  function settle(d)
    for _, l in ipairs(d) do
      if l:settle() then l.corrected = true end
      l.changed = nil
    end
  end

  local function retry_after(wait, longest)
    if wait and wait > longest then return wait - longest end
    return wait
  end

  local function wait_alone(l, r) return wait_of(l, r.upto and 1 or units_of(l, r.cost)) end

  -- The time until a request is let through if no other limit is asked.
  function retry_alone(l, r)
    local wait, longest = wait_alone(l, r), this.zero
    if wait and wait > this.zero and r.maxwait > this.zero then longest = least(r.maxwait, l:longest_wait()) end
    if wait and wait > this.zero and wait <= longest then return this.zero end
    return retry_after(wait, longest)
  end

  -- Notes which limits alone would deny a request, for EACH, before it is decided.
  function judge(d, r)
    settle(d)
    for _, l in ipairs(d) do l.denies = retry_alone(l, r) ~= this.zero end
  end

  local function first_shadow(d, r)
    for i = 1, d.shadows > 0 and #d or 0 do
      if d[i].shadow and retry_alone(d[i], r) ~= this.zero then return i end
    end
    return 0
  end

  -- The longest time until a limit has cost units, and which limit's that is.
  local function wait_for(d, cost)
    local rule, longest = 1, this.zero
    for i, l in ipairs(d) do
      if not l.shadow then
        local wait = wait_of(l, units_of(l, cost))
        if not wait then return i, false end
        if wait > longest then rule, longest = i, wait end
      end
    end
    return rule, longest
  end

  local function longest_wait(d, max)
    for i = 1, max > this.zero and #d or 0 do
      if not d[i].shadow then max = least(max, d[i]:longest_wait()) end
    end
    return max
  end

  -- How much of the cost every limit has, but at least one unit of a cost that is not zero.
  local function grantable(d, cost)
    local n = cost
    for _, l in ipairs(d) do
      if not l.shadow then n = least(n, left_of(l)) end
    end
    return most(n, least(cost, 1))
  end

  -- The limit with the fewest units left; where all are shadows, the one that would have denied the request.
  local function tightest(d, shadow)
    if #d == 1 then return 1 end
    local only_shadows = d.shadows == #d
    if only_shadows and shadow > 0 then return shadow end
    local rule, fewest
    for i, l in ipairs(d) do
      if not l.shadow or only_shadows then
        local left = left_of(l)
        if not fewest or left < fewest then rule, fewest = i, left end
      end
    end
    return rule
  end

  -- Capacity, units left, and the times until it is full and until it has one more, without what is to be spared.
  function standing_of(l)
    local capacity, left, reset, nxt = l:standing()
    local spare = l.spare or 0
    if spare == 0 then return capacity, left, reset, nxt end
    if spare >= capacity then return capacity, 0, this.zero, this.zero end
    if left < spare then return capacity, 0, reset, l:retry(spare + 1) end
    return capacity, left - spare, reset, nxt
  end

  local function about(d, rule, limited, retry, granted, shadow, wait)
    local limit, remaining, reset, nxt = standing_of(d[rule])
    return {
      rule = rule, limited = limited, retry = retry, granted = granted, shadow = shadow, wait = wait or this.zero,
      limit = limit, remaining = remaining, reset = reset, next = nxt,
    }
  end

  -- A shadow is charged as if it were enforced: nothing for a request that it would have denied, unless that charges
  -- limits that deny it.
  local function charge_shadow(l, r, cost, wait)
    local units = units_of(l, cost)
    l.charged = 0
    if units == 0 then return end
    local alone = wait_alone(l, r)
    if alone and alone <= least(r.maxwait, l:longest_wait()) then
      if r.upto then units = least(units, left_of(l)) end
      l:charge(units, least(most(wait, alone), l:longest_wait()))
      l.charged, l.changed = units, units > 0
      return
    end
    if r.force then l.charged = l:force(units)
    elseif r.strict then l.charged = l:charge_denied(units, l.spare or 0) end
    l.changed = l.charged > 0 or not r.force and l.corrected
  end

  local function asks(d, cost)
    for _, l in ipairs(d) do
      if units_of(l, cost) > 0 then return true end
    end
    return false
  end

  -- Stores what was corrected, and charges a STRICT request that is denied. Returns the limit with the longest wait
  -- afterwards.
  local function punish(d, r, needed, rule, wait)
    if not asks(d, r.cost) then return rule, wait end
    for _, l in ipairs(d) do
      l.changed = l.corrected
      if r.strict and l:charge_denied(units_of(l, r.cost), l.spare or 0) > 0 then l.changed = true end
    end
    if not r.strict then return rule, wait end
    return wait_for(d, needed)
  end

  -- Asks every limit for the cost, or for what its terms say. All are charged or none, shadows aside. If something else
  -- "denies" the request, all is as if the limits did; "retry" is zero if they would let it through.
  function take(d, r, denies)
    settle(d)
    local cost, needed = r.cost, r.cost
    if r.upto then
      cost = grantable(d, cost)
      needed = most(cost, 1)
    end
    local rule, wait = wait_for(d, needed)
    local longest, shadow = longest_wait(d, r.maxwait), first_shadow(d, r)
    if wait and wait <= longest and not denies then
      for _, l in ipairs(d) do
        local units = units_of(l, cost)
        if l.shadow then
          charge_shadow(l, r, cost, wait)
        elseif units > 0 then
          l:charge(units, wait)
          l.changed = true
        end
      end
      rule = tightest(d, shadow)
      return about(d, rule, false, false, d[rule].shadow and d[rule].charged or units_of(d[rule], cost), shadow, wait)
    end
    if r.force then
      for _, l in ipairs(d) do
        local units = units_of(l, cost)
        l.charged = units > 0 and l:force(units) or 0
        l.changed = l.charged > 0
      end
      rule, wait = wait_for(d, cost)
      return about(d, rule, true, wait, d[rule].charged, shadow)
    end
    rule, wait = punish(d, r, needed, rule, wait)
    return about(d, rule, true, retry_after(wait, longest), 0, shadow)
  end

  -- What take would do: whether the request is limited, and how long it waits, or has to wait before it is made again.
  function outlook(d, r)
    local needed = r.cost
    if r.upto then needed = most(grantable(d, needed), 1) end
    local _, wait = wait_for(d, needed)
    local longest = longest_wait(d, r.maxwait)
    if wait and wait <= longest then return false, wait end
    return true, retry_after(wait, longest)
  end

  -- The time until a request would be let through: zero if it would be now.
  function retry_of(d, r)
    settle(d)
    local limited, time = outlook(d, r)
    return limited and time or not limited and this.zero
  end

  function peek(d, r)
    settle(d)
    local rule, wait = wait_for(d, r.cost)
    local shadow = first_shadow(d, r)
    if wait ~= this.zero then return about(d, rule, true, wait, 0, shadow) end
    return about(d, tightest(d, shadow), false, false, 0, shadow)
  end

  -- The state as it is; "granted" is what a request of this cost was charged.
  function standing(d, cost)
    settle(d)
    local rule = tightest(d, 0)
    return about(d, rule, false, false, units_of(d[rule], cost), 0)
  end

  -- Charges each limit the cost or what its terms take, into debt if it lacks the units, or gives that back if it is
  -- negative. A sign of -1 turns the two round. A refund also renews what no unit is given back to.
  function adjust(d, cost, sign)
    settle(d)
    for _, l in ipairs(d) do
      local units = units_of(l, cost) * sign
      if units > 0 then l.charged = l:force(units)
      elseif units < 0 or sign < 0 then l.charged = -l:refund(-units)
      else l.charged = 0 end
      l.changed = l.charged ~= 0
    end
    local rule = tightest(d, 0)
    return about(d, rule, false, false, d[rule].charged, 0)
  end

  -- Adds to the value those limits that were charged, and in front of one those that a later call would take its state
  -- for. One that was given units back and that the value did not hold is full, so it is not stored.
  function add_charged(s)
    s.adds_none = true
    for i, l in ipairs(s) do
      if not l.stored and l.charged > 0 then
        for j = 1, i do
          if s[j].kind == l.kind and (l.kind == 1 or s[j].head == l.head) then s[j].stored = true end
        end
      end
    end
  end

  function has_changed(s)
    for _, l in ipairs(s) do
      if l.changed then return true end
    end
    return false
  end
end

--------------------------------------------------------------------------------------------------------------------
-- Keys: what they hold, bans included, and what becomes of them. Nothing is written before a call is decided.

local TOO_MANY_UNITS = 'ERR the value at this key holds a number of units above 9007199254740991, which needs the module'
local raise -- ends a call with an error

local slack_of, moved_expiry, write_until
local look_up, may_write, keep_to_maxmemory, read_any, read_key, open, is_banned, rest_of_ban, put, put_ban, ban_end, store, store_behind, write_string

do
  local MOST_SLACK = 3600

  -- How many seconds longer a key may stay than its limits need, so that calls that follow leave its expiry as it is.
  function slack_of(second, now_s) return least(floor((second - now_s) / 4), MOST_SLACK) end

  -- When a key expires from now on that has to stay until a second; nil for when it does. One that is there may stay
  -- longer.
  function moved_expiry(name, value, second, slack)
    if not value or slack == 0 then return second end
    local at = call('PEXPIRETIME', name)
    if at >= second * 1000 and at <= (second + slack) * 1000 then return nil end
    return second + slack
  end

  -- Writes a value that expires in a second, or when the key does.
  function write_until(name, value, second)
    if second then call('SET', name, value, 'PXAT', format('%d000', second)) -- the server writes a number more slowly
    else call('SET', name, value, 'KEEPTTL') end
  end

  -- What a command answers about a key. A right that lacks is told by the name of the command: it is no wrong type.
  function look_up(command, name)
    local answer = try(command, name)
    if type(answer) ~= 'table' or not answer.err then return answer end
    if sub(answer.err, 1, 9) == 'WRONGTYPE' then raise(TEXT.wrongType) end
    raise(find(answer.err, lower(command), 1, true) and answer.err or answer.err .. ' (' .. lower(command) .. ')')
  end


  -- Refuses a call that writes more than one thing, before the first one, if its user lacks the right for a later one.
  function may_write(ks)
    local may = redis.acl_check_cmd
    if not may or #ks == 1 and not (ks[1].lease or ks[1].ended) then return end
    local function needs(command, ...)
      if not may(command, ...) then
        raise("ERR ACL failure in script: the user has no permissions to run the '" .. lower(command) .. "' command")
      end
    end
    for _, k in ipairs(ks) do
      if k.lease then
        needs('ZADD', k.name, 0, '')
        needs('PEXPIREAT', k.name, 0)
      end
      if k.ended or k.lease and #k.lowest > 0 then needs('ZREM', k.name, '') end
      if k.ended then
        needs('PEXPIREAT', k.name, 0)
        needs('DEL', k.name)
      end
      if k.gone then needs('DEL', k.name) end
      if k.new and k.value then needs('PEXPIRETIME', k.name) end
      if k.new then needs('SET', k.name, '') end
    end
  end

  local OVER_MAXMEMORY = "OOM command not allowed when used memory > 'maxmemory'."

  local function may_run(...) return not redis.acl_check_cmd or redis.acl_check_cmd(...) end

  local function is_over_maxmemory()
    local info = may_run('INFO', 'memory') and try('INFO', 'memory')
    if type(info) ~= 'string' then return false end
    local most_bytes = tonumber(match(info, '\nmaxmemory:(%d+)'))
    return most_bytes > 0 and tonumber(match(info, '\nused_memory:(%d+)')) > most_bytes
  end

  -- A call that gives back or keeps something is made over maxmemory, too, unless it makes a value longer. A function
  -- with the flag allow-oom is not refused anything, so it has to ask. A script is refused a write, unless it has
  -- written before: this one changes nothing.
  function keep_to_maxmemory(ks)
    local written
    for _, k in ipairs(ks) do
      if k.new and #k.new > #(k.value or '') then
        if not IS_SCRIPT and is_over_maxmemory() then raise(OVER_MAXMEMORY) end
        return
      end
      if k.new or k.lease then written = k.name end
    end
    if IS_SCRIPT and written and may_run('PEXPIREAT', written, 0, 'GT') then call('PEXPIREAT', written, 0, 'GT') end
  end

  -- A key that may hold anything: nil if that is no string.
  function read_any(name)
    local answer = try('GET', name)
    local is_error = type(answer) == 'table' and answer.err
    if is_error and sub(answer.err, 1, 9) == 'WRONGTYPE' then return nil end
    return read_key(name, not is_error and answer)
  end

  -- A key that holds a string or nothing. What is known of its value is not asked for again.
  function read_key(name, known)
    local value = known or look_up('GET', name)
    local k = { name = name, value = value, state = value }
    if value and #value >= 9 and byte(value) == 2 then
      local ban = read_wide(value, 2)
      if ban <= LAST and ban.s + ban.ns > 0 then k.ban, k.state = ban, sub(value, 10) end
    end
    return k
  end

  -- The limits of a call with their states at a key.
  function open(k, limits)
    local s = stack_of(limits)
    if k.value and not (k.ban and k.state == '') and not decode(s, k.state) then raise(TEXT.wrongValue) end
    if this.beyond then raise(TOO_MANY_UNITS) end
    return s
  end

  function is_banned(k) return k.ban and k.ban > this.now end

  function rest_of_ban(k) return from_wide(k.ban - this.now) end

  function ban_end(duration) return wide(instant(duration)) end -- a time of the call

  function put(k, value, second, no_earlier) k.new, k.second, k.no_earlier, k.slack = value, second, no_earlier, 0 end

  local function ban_bytes(at) return char(2) .. wide_bytes(at) end

  -- Bans a key until an instant, and leaves the rest as it is.
  function put_ban(k, at)
    put(k, ban_bytes(at) .. (k.value and k.state or ''), seconds_up(at.s, at.ns), true)
    k.ban = at
  end

  -- Writes a ban and the state of a stack, or the ban alone if all limits are full.
  function store_behind(k, at, s)
    local second, keeps_calendar = expiry(s)
    local value = ban_bytes(at)
    if second or keeps_calendar then value = value .. encode(s) end
    put(k, value, most(second or 0, seconds_up(at.s, at.ns)), keeps_calendar)
  end

  -- Writes a stack, or removes the key if all its limits are full.
  function store(k, s)
    if is_banned(k) then return store_behind(k, k.ban, s) end
    local second, keeps_calendar = expiry(s)
    if second or keeps_calendar then
      put(k, encode(s), second or seconds_up(instant(this.one)), keeps_calendar)
      k.slack = slack_of(k.second, this.s)
    else
      k.gone = k.value and true
    end
  end

  -- Makes what was decided for a key true.
  function write_string(k)
    if k.gone then
      call('DEL', k.name)
    elseif k.new then
      local second = k.second
      if second and k.no_earlier and k.value then
        local at = call('PEXPIRETIME', k.name)
        if at == -1 or at >= second * 1000 then second = nil end
      elseif second then
        second = moved_expiry(k.name, k.value, second, k.slack)
      end
      write_until(k.name, k.new, second)
    end
  end
end

--------------------------------------------------------------------------------------------------------------------
-- Leases: package lease. They lapse at whole milliseconds, so all but the comparison with limits is in these.

local floor_ms, ceil_ms, read_leases, holds, grant, lease_denied, take_lease, until_lapsed, write_leases

do
  local FURTHEST_MS = 200 * 365 * 86400e3
  local EARLIEST_MS = 1e12
  local SEEN = 16 -- lapsed leases that a call sees, and removes

  function floor_ms() return this.s * 1000 + floor(this.ns / 1e6) end
  function ceil_ms() return ms_up(this.now) end

  -- Reads a score, which is an instant at which a lease lapses.
  local function instant_in(score)
    local ms, at = floor_ms(), tonumber(score)
    local earliest = ms < EARLIEST_MS and 1 or EARLIEST_MS
    if not (at >= earliest and at <= ms + FURTHEST_MS and at == floor(at)) then raise(TEXT.wrongSet) end
    return at
  end

  -- The leases of a key, and those of ids. "others" adds what is known of the others than the first of these.
  function read_leases(name, ids, others)
    local count = look_up('ZCARD', name)
    local k = { name = name, held = 0, next = 0, own = 0, next_other = 0, last_other = 0, lowest = {}, named = {} }
    if count == 0 then return k end
    local now_ms = format('%.0f', floor_ms())
    local lapsed = call('ZCOUNT', name, '-inf', now_ms)
    k.held = count - lapsed
    if lapsed > 0 then
      local lowest = call('ZRANGE', name, '-inf', now_ms, 'BYSCORE', 'LIMIT', 0, SEEN, 'WITHSCORES')
      for i = 1, #lowest, 2 do
        k.lowest[#k.lowest + 1] = lowest[i]
        instant_in(lowest[i + 1])
      end
    end
    local ahead = call('ZRANGE', name, '(' .. now_ms, '+inf', 'BYSCORE', 'LIMIT', 0, 2, 'WITHSCORES')
    local last = call('ZRANGE', name, -2, -1, 'WITHSCORES')
    if ahead[1] then k.next = instant_in(ahead[2]) end
    if tonumber(last[#last]) > floor_ms() + FURTHEST_MS then raise(TEXT.wrongSet) end
    for i, id in ipairs(ids) do
      local score = call('ZSCORE', name, id)
      k.named[i] = score and instant_in(score)
    end
    k.own = k.named[1] or 0
    if others then
      local from = ahead[1] == ids[1] and 3 or 1
      k.next_other = floor(tonumber(ahead[from + 1] or 0)) -- a fraction goes unnoticed here
      local at = last[#last - 1] == ids[1] and #last - 2 or #last
      k.last_other = floor(tonumber(last[at] or 0))
    end
    return k
  end

  function holds(k) return k.own > 0 and k.own > floor_ms() end

  -- A lease that is granted for a TTL, a wide number: it lapses no sooner than that.
  function grant(slots, remaining, ttl)
    local at = ms_up(this.now + ttl)
    return { limited = false, slots = slots, remaining = remaining, retry = false, at = at, lease = at - ceil_ms() }
  end

  local function time_until(ms)
    local s = floor(ms / 1000)
    return most(from_wide(wide(s, (ms - s * 1000) * 1e6) - this.now), this.zero)
  end

  function lease_denied(k, slots)
    local free, retry = most(slots - k.held, 0), this.zero
    if slots == 0 then retry = false elseif free == 0 then retry = time_until(k.next) end
    return { limited = true, slots = slots, remaining = free, retry = retry, at = 0, lease = 0 }
  end

  function take_lease(k, slots, ttl)
    local free = most(slots - k.held, 0)
    if holds(k) then return grant(slots, free, ttl) end
    if free > 0 then return grant(slots, free - 1, ttl) end
    return lease_denied(k, slots)
  end

  -- The times until the next lease lapses and until all have, after a call with this result.
  function until_lapsed(k, result)
    local own = result.at
    if result.limited and holds(k) then own = k.own end
    local nxt, last = k.next_other, most(k.last_other, own)
    if nxt == 0 or own > 0 and own < nxt then nxt = own end
    return time_until(nxt), time_until(last)
  end

  -- Writes a lease, and removes lapsed ones; or ends those of ids, which the key holds.
  function write_leases(k)
    local lease, ended = k.lease, k.ended
    if ended and #ended == k.held then
      call('DEL', k.name)
      return
    end
    for _, id in ipairs(ended or k.lowest) do
      if ended or id ~= lease.id then call('ZREM', k.name, id) end
    end
    if lease then call('ZADD', k.name, format('%.0f', lease.at), lease.id) end
    local last = call('ZRANGE', k.name, -1, -1, 'WITHSCORES')
    local at = tonumber(last[2])
    if at and at ~= call('PEXPIRETIME', k.name) then call('PEXPIREAT', k.name, format('%.0f', at)) end
  end
end

--------------------------------------------------------------------------------------------------------------------
-- Values of words: package words. A call that cannot be read raises its error.

local LENGTHS -- of the units of time
local MALFORMED, NO_UNIT = {}, {} -- what a value is that is not of the right form, and one that lacks a unit
local ABOVE_EXACT = 'numbers above 9007199254740991 need the module'
local LARGEST = '9223372036854775807'
local caught, shown, near, refuse, list_of, finder, append, integer, length_of_time, duration, takes, shift, read_value, is_id

do
  -- pcall of the server makes a string of a table with a field "err".
  function raise(text) error({ refusal = text }) end

  function refuse(text) raise('ERR ' .. text) end

  -- What f returns, or the error that it raised.
  function caught(f, ...)
    local ok, result = pcall(f, ...)
    if ok then return result end
    if type(result) == 'table' then return { err = result.refusal } end
    -- The server's own error, such as READONLY or OOM. Its code has to stay first, which error() does not keep.
    return { err = match(result, '^%u+ ') and result or 'ERR ' .. result }
  end

  function shown(word)
    local text = sub(word, 1, 40)
    if #word > 40 then text = text .. '...' end
    return (gsub(text, '[^ -~]', '?'))
  end

  function near(word, text) refuse("syntax error near '" .. shown(word) .. "': " .. text) end

  function list_of(names) -- "A, B or C"
    if #names < 2 then return names[1] or '' end
    return concat(names, ', ', 1, #names - 1) .. ' or ' .. names[#names]
  end

  function finder(names, text)
    text = upper(text)
    for _, name in ipairs(names) do
      if name == text then return name end
    end
  end

  function append(names, others)
    for _, name in ipairs(others) do names[#names + 1] = name end
  end

  -- An integer of 64 bits as the server's own commands read it; nil of anything else. Above 2^53 it is rounded.
  function integer(text)
    if #text > 20 then return nil end
    local sign, digits = match(text, '^(%-?)(%d+)$')
    if not digits or #digits > 1 and byte(digits) == 48 or sign == '-' and digits == '0' then return nil end
    if #digits > 19 or #digits == 19 and digits > LARGEST then return nil end
    return tonumber(text)
  end

  -- A number that is not negative; otherwise nil and what is wrong with it.
  local function natural(text, too_large)
    local n = integer(text)
    if n and n >= 0 then return n end
    return nil, #text >= 19 and find(text, '^[1-9]%d*$') and too_large or MALFORMED
  end

  -- Reads whole.fraction units of time.
  local function decimal(digits, fraction, unit)
    if not find(digits, '^%d+$') or not find(fraction, '^%d+$') then return MALFORMED end
    local whole_units, problem = natural(digits, TEXT.tooLong)
    if problem then return problem end
    fraction = gsub(fraction, '0+$', '')
    if #fraction > 16 then return TEXT.tooFine end
    -- The greatest divisor that 10^n and the unit have in common.
    local scale, a, b = 10 ^ #fraction, 10 ^ #fraction, approximately(unit)
    while b > 0 do a, b = b, a % b end
    if wide(0, 1) * a * whole_units >= wide(18446744073, 709551616) then return TEXT.tooLong end
    fraction = rep('0', 18 - #fraction) .. fraction
    local parts, rest = divide(wide(tonumber(sub(fraction, 1, 9)), tonumber(sub(fraction, 10))), wide(0, 1) * (scale / a))
    if rest.s + rest.ns > 0 then return TEXT.tooFine end
    return nil, unit * whole_units + wide(0, 1) * (approximately(unit) / a) * parts
  end

  -- Reads a length of time: what is wrong with it, the time as a wide number, and whether it is in whole days. A unit
  -- alone is one of it if that is allowed. A bare number is one of seconds, and NO_UNIT.
  function length_of_time(text, bare)
    if #text > 64 then return MALFORMED end
    local digits, name = match(text, '^(.-)(%l*)$')
    local unit, is_days = LENGTHS[name], name == 'd'
    if not unit then return MALFORMED end
    if digits == '' and name ~= '' and bare then return nil, unit, is_days end
    local point, problem, ns = find(digits, '.', 1, true), nil, nil
    if point then
      problem, ns = decimal(sub(digits, 1, point - 1), sub(digits, point + 1), unit)
      is_days = is_days and find(digits, '%.0+$') ~= nil
    else
      local n
      n, problem = natural(digits, TEXT.tooLong)
      ns = n and unit * n
    end
    if not problem and name == '' and ns.s + ns.ns > 0 then problem = NO_UNIT end
    return problem, ns, is_days
  end

  -- Reads a length of time of at most 100 years.
  function duration(text)
    local problem, ns = length_of_time(text, true)
    if problem == TEXT.tooLong or ns and ns > wide(36500 * DAY, 0) then return MALFORMED end
    return problem, ns
  end

  -- Divides count/period: what is wrong with it, the count, and the period.
  local function divide_quota(text)
    local slash = find(sub(text, 1, 64), '/', 1, true)
    if not slash then return MALFORMED end
    local count, problem = natural(sub(text, 1, slash - 1), TEXT.tooMany)
    return problem, count, sub(text, slash + 1)
  end

  -- Reads count/period: what is wrong with it, and what a limit is that it says.
  local function quota(text)
    local problem, count, period = divide_quota(text)
    if problem then return problem end
    local length, is_days
    problem, length, is_days = length_of_time(period, true)
    if not problem and length.s + length.ns == 0 then problem = TEXT.noPeriod end
    return problem, { count = count, length = length, is_days = is_days }
  end

  -- Also in whole weeks, months or years.
  local function calendar_quota(text)
    local problem, limit = quota(text)
    if problem ~= MALFORMED then return problem, limit end
    local count, period
    problem, count, period = divide_quota(text)
    if problem or #period > 64 then return MALFORMED end
    local digits, unit = match(period, '^(.-)(%l*)$')
    if unit == 'd' or not UNITS[unit] then return MALFORMED end
    local n = 1
    if digits ~= '' then n, problem = natural(digits, TEXT.tooLong) end
    if n == 0 then problem = TEXT.noPeriod end
    return problem, { count = count, n = n, unit = unit }
  end

  local function denials(text)
    local problem, said = quota(text)
    if problem then return problem end
    if said.count == 0 then return MALFORMED end
    if said.length > LAST then return TEXT.tooLong end
    if said.count > EXACT then return ABOVE_EXACT end
    return nil, limit_of({ kind = 5, count = said.count, period = said.length, head = char(5) .. wide_bytes(said.length) })
  end

  local function integer_from(least_number)
    return function(text)
      local n = integer(text)
      if not n or n < least_number then return MALFORMED end
      return n > EXACT and ABOVE_EXACT or nil, n
    end
  end

  local function duration_from(least_ns)
    return function(text)
      local problem, ns = duration(text)
      if ns and (not problem or problem == NO_UNIT) and ns.s == 0 and ns.ns < least_ns then return MALFORMED end
      return problem, ns
    end
  end

  function is_id(text) return #text > 0 and #text <= 512 end

  -- Whether a command takes a word anywhere, those aside that only one kind of limit has.
  function takes(c, text)
    if c.slots and upper(text) == 'SLOTS' then return true end
    return (finder(c.kinds, text) or finder(c.options, text) or finder(c.terms, text)) ~= nil
  end

  -- How the values of words are read: each returns what is wrong, and what the value says.
  local VALUES = {
    units = integer_from(0),
    slots = integer_from(0),
    rows = integer_from(1),
    capacity = integer_from(1),
    duration = duration_from(0),
    offset = duration_from(0),
    ttl = duration_from(1e6),
    quota = quota,
    denials = denials,
    calendar_quota = calendar_quota,
    id = function(text) return not is_id(text) and MALFORMED or nil, text end,
    zone = function(text, c)
      if text == 'UTC' then return nil end
      if #text > 64 then return MALFORMED end
      local zone = zone_of(text)
      if zone then return nil, zone end
      local meant = not takes(c, text) and similar_zone(text)
      return meant and TEXT.noZone .. meant .. '?' or MALFORMED
    end,
  }

  -- Refuses the value of a word.
  local function misread(p, w, text, problem)
    if problem == NO_UNIT then
      local number = sub(text, (find(text, '/', 1, true) or 0) + 1)
      if #number > 40 then near(text, 'a length of time' .. TEXT.noUnit .. '500ms or 30s') end
      near(text, number .. TEXT.noUnit .. number .. 'ms or ' .. number .. 's')
    end
    if problem ~= MALFORMED then near(text, problem) end
    if not w.is_name and find(text, ' ', 1, true) then near(text, TEXT.severalInOne) end
    local is_right_in_lower_case = w.has_unit and #text <= 64 and not VALUES[w.value](lower(text), p.command)
    near(text, is_right_in_lower_case and TEXT.unitsAreLower or w.name .. ' ' .. w.right)
  end

  function shift(p)
    p.next = p.next + 1
    return p.args[p.next - 1]
  end

  -- Reads the value of a word: what it says, and the text that says so. A word without one says true.
  function read_value(p, name, text)
    local w = WORDS[name]
    if not w.value then return true, text end
    if p.next > #p.args then near(text, w.name .. ' ' .. w.right) end
    local said = shift(p)
    local problem, value = VALUES[w.value](said, p.command)
    if problem then misread(p, w, said, problem) end
    return value, said
  end
end

--------------------------------------------------------------------------------------------------------------------
-- Words: package words, its parser. It also remembers what the words of earlier calls were read as.

local check_counts, parse, parse_throttle, parse_ban, parse_nothing, read_words

do
  local function check_pairs(names, seen)
    for _, name in ipairs(names) do
      for _, other in ipairs(seen[name] and WORDS[name].excluded or {}) do
        if seen[other] then near(name, TEXT.cannotGoWith .. other) end
      end
    end
  end

  -- The words that this library decides by. It takes no other word of the grammar for one of these, or for nothing.
  local KNOWN = {
    BURST = true, FIRST = true, OFFSET = true, TZ = true, TAKE = true, USED = true, SPARE = true, SHADOW = true,
    COST = true, UPTO = true, STRICT = true, FORCE = true, MAXWAIT = true, BAN = true, AFTER = true, NEXT = true,
    ANY = true, ID = true, SLOTS = true, TTL = true, COUNT = true, COMPACT = true, EACH = true, TIMEOUT = true,
    GROUP = true, WEIGHT = true, PRIORITY = true,
  }

  local function check_known(name, text)
    if not KNOWN[name] then near(text, 'needs the module') end
  end

  -- Reads words as long as they are of those that may follow a limit, into fields of the limit that are called as they
  -- are. Returns their texts.
  local function read_following(p, names, limit)
    local seen = {}
    while p.next <= #p.args do
      local name = finder(names, p.args[p.next])
      if not name then break end
      local text = shift(p)
      check_known(name, text)
      if seen[name] then near(text, TEXT.givenTwice) end
      limit[lower(name)], seen[name] = read_value(p, name, text)
      p.seen[name] = true
    end
    check_pairs(names, seen)
    return seen
  end

  -- A wide number divided by a whole one, rounded up.
  local function divide_up(a, n)
    local s = floor(a.s / n)
    local ns, rest = divide(wide(a.s - s * n, a.ns), wide_of(n))
    return wide(s, ns) + wide(0, rest.s + rest.ns > 0 and 1 or 0)
  end

  -- Completes a RATE of so many units for a period; what is wrong with it.
  local function set_rate(limit, capacity, count, period)
    if period < wide_of(count) then return TEXT.tooFast end
    limit.capacity, limit.emission = capacity, divide_up(period, count)
    limit.tolerance = limit.emission * capacity
    if limit.tolerance > LAST then return TEXT.tooSlow end
  end

  -- Completes a FIXED by the calendar or with an offset.
  local function set_fixed(l, seen)
    local none = wide(0, 0)
    local zone, shortest = l.tz, l.length
    l.offset = l.offset or none
    if not l.unit and seen.TZ and not l.is_days then near(seen.TZ, TEXT.zoneNeedsDays) end
    if zone and not l.unit then l.unit, l.n = 'd', l.length.s / DAY end
    local unit = UNITS[l.unit]
    if unit then
      if l.n > unit.most then return TEXT.tooLong end
      shortest = wide(unit.days * DAY, 0) * l.n
    else
      if l.length > LAST then return TEXT.tooLong end
      if l.length.s == 0 and l.length.ns < 1000 then return 'a FIXED of less than 1us needs the module' end
    end
    if l.offset >= shortest then near(seen.OFFSET, TEXT.longOffset) end
    l.zone, l.has_hash = zone, unit ~= nil or l.offset > none
    if unit then l.head = hash_of(zone and zone.name or '', unit.number, l.n, l.offset)
    else l.head = l.has_hash and hash_of('', 0, l.length, l.offset) or wide_bytes(l.length) end
    l.head = char(3) .. l.head
  end

  local KINDS = { RATE = 1, WINDOW = 2, FIXED = 4 } -- FIXED ... FIRST; the others of FIXED are 3

  -- Makes a limit of what its words said; what is wrong with it.
  local function finish_limit(name, l, seen)
    local period = l.length
    if name == 'FIXED' and not seen.FIRST then
      l.kind = 3
      return set_fixed(l, seen)
    end
    if l.unit == 'w' then period, l.unit = wide(7 * DAY, 0) * l.n, nil
    elseif l.unit then near(l.quota, TEXT.firstHasLength) end
    l.kind, l.length = KINDS[name], nil
    if not l.kind then near(name, 'needs the module') end
    if l.burst and l.count == 0 then return TEXT.zeroHasNoBurst end
    if period > LAST then return TEXT.tooLong end
    l.head = char(l.kind) .. wide_bytes(period)
    if l.count == 0 then l.rate_head = l.kind == 1 and l.head
    elseif l.kind == 1 then return set_rate(l, l.burst or l.count, l.count, period)
    elseif l.kind == 2 then set_period(l, period)
    else l.period = period end
  end

  local function in_slots(p) return p.group.slots ~= nil end

  local function wants_limit(p) return #p.command.kinds > 0 and #p.group.limits == 0 and not in_slots(p) end

  local function read_limit(p, name, text)
    if in_slots(p) then near(text, TEXT.ownGroup) end
    local l, said = read_value(p, name, text)
    l.quota = said
    if l.count > EXACT then near(said, ABOVE_EXACT) end
    local problem = finish_limit(name, l, read_following(p, WORDS[name].owned, l))
    if problem then near(said, problem) end
    read_following(p, p.command.terms, l)
    if p.command.settles then
      if (l.take ~= nil) ~= (l.used ~= nil) then near(said, TEXT.takeAndUsed) end
      l.take = (l.used or 0) - (l.take or 0)
    end
    if #p.group.limits == MAX_LIMITS then near(text, TEXT.tooManyLimits) end
    p.rates_only = p.rates_only and l.kind == 1
    if l.count == 0 then l.kind, l.head, l.unit, l.length = NOBODY, nil, nil, nil end
    p.group.limits[#p.group.limits + 1] = limit_of(l)
    p.limit_ends = p.next
  end

  -- Reads a group of SLOTS.
  local function read_slots(p, text)
    local group = p.group
    if #group.limits > 0 or in_slots(p) then near(text, TEXT.ownGroup) end
    p.seen.SLOTS, group.slots = true, -1
    if p.command.slots == 'alone' then return end
    group.slots = read_value(p, 'SLOTS', text)
    local following = p.args[p.next]
    if not following or upper(following) ~= 'TTL' then near(following or text, TEXT.expected .. 'TTL') end
    group.ttl = read_value(p, 'TTL', shift(p))
  end

  local function expected_groups(c)
    local names = { unpack_table(c.kinds) }
    if c.slots then names[#names + 1] = 'SLOTS' end
    return TEXT.expected .. list_of(names)
  end

  -- What to add to the error that a limit is missing if numkeys made a key of a word that begins one.
  local function key_or_limit(p)
    for _, key in ipairs(#p.groups == 1 and p.keys or {}) do
      local name = p.command.slots and upper(key) == 'SLOTS' and 'SLOTS' or finder(p.command.kinds, key)
      if name then return TEXT.numKeysIs .. #p.keys .. ', so ' .. name .. TEXT.isAKey end
    end
    return ''
  end

  -- Refuses a word that may not stand where it does.
  local function unexpected(p, text)
    local c, names = p.command, {}
    local space = find(text, ' ', 1, true)
    if space and takes(c, sub(text, 1, space - 1)) then near(text, TEXT.severalInOne) end
    if wants_limit(p) then near(text, expected_groups(c) .. key_or_limit(p)) end
    for _, kind in ipairs(c.kinds) do
      if finder(WORDS[kind].owned, text) then near(text, TEXT.misplacedOwn .. kind) end
    end
    if finder(c.terms, text) then near(text, TEXT.misplacedTerm) end
    if p.next - 1 == p.limit_ends and #c.kinds > 0 then -- right behind a limit
      local kind = p.next > 3 and finder(c.kinds, p.args[p.next - 3])
      append(names, kind and WORDS[kind].owned or {})
      append(names, c.terms)
    end
    append(names, c.kinds)
    append(names, c.options)
    near(text, TEXT.expected .. list_of(names))
  end

  local NEEDS_MODULE = { TIMEOUT = true, GROUP = true, WEIGHT = true, PRIORITY = true }

  local function read_option(p, name, text)
    if NEEDS_MODULE[name] then near(text, 'needs the module: a function cannot make its caller wait') end
    check_known(name, text)
    if p.seen[name] then near(text, TEXT.givenTwice) end
    p.seen[name] = true
    repeat
      local value = read_value(p, name, text)
      if name == 'ID' then p.r.id_at = p.r.id_at or p.next - 1 else p.r[lower(name)] = value end
    until name ~= p.command.repeated or p.next > #p.args
  end

  -- Begins the next group of limits.
  local function read_next(p, text)
    if #p.groups == #p.keys then near(text, TEXT.oneGroupOrAll) end
    p.group = { limits = {} }
    p.groups[#p.groups + 1] = p.group
  end

  -- Refuses what no single word is to blame for.
  local function check(p)
    local c, seen = p.command, p.seen
    check_pairs(c.options, seen)
    if c.slots then
      if seen.SLOTS and not p.r.id_at then refuse('syntax error: ' .. TEXT.slotsNeedID) end
      if not seen.SLOTS and c.slots == 'alone' then refuse('syntax error: ' .. TEXT.settleOnce) end
      if not seen.SLOTS and p.r.id_at then near('ID', TEXT.needsSlots) end
    end
    for _, name in ipairs(c.required) do
      if not seen[name] then refuse('syntax error: ' .. name .. TEXT.isMissing) end
    end
    for _, name in ipairs(c.options) do
      local with = WORDS[name].with
      if seen[name] and with and not seen[with] then near(name, TEXT.onlyWith .. with) end
    end
    for _, group in ipairs(p.r.after and p.groups or {}) do
      if #group.limits == MAX_LIMITS then near('AFTER', TEXT.takesRoom) end
    end
    for _, name in ipairs(#c.kinds > 0 and c.options or {}) do
      if seen[name] and WORDS[name].rates_only and not p.rates_only then near(name, TEXT.onlyRates) end
    end
  end

  -- Whether the times of a call are too long for plain numbers.
  local function is_long(r)
    local large, large_rate = wide_of(LARGE), wide_of(LARGE_RATE)
    if r.maxwait >= large_rate or r.ban >= large_rate or r.after and r.after.period >= large then return true end
    for _, group in ipairs(r.groups) do
      for _, l in ipairs(group.limits) do
        if l.kind == 1 then
          local units = l.take and math.abs(l.take) or r.cost
          if not r.force and not r.settles then units = least(units, l.capacity) end
          local spare = least(l.spare or 0, l.capacity)
          if l.tolerance + l.emission * units + l.emission * spare + r.maxwait >= large_rate then return true end
        elseif l.kind == 2 and l.span >= large or l.kind == 4 and l.period >= large then
          return true
        end
      end
    end
    return false
  end

  local TIMES = { 'maxwait', 'ban', 'emission', 'tolerance', 'period', 'slot', 'span' }

  -- The same request, or limit, in plain numbers.
  local function in_plain(t)
    local copy = {}
    for name, value in pairs(t) do copy[name] = value end
    for _, name in ipairs(TIMES) do copy[name] = copy[name] and approximately(copy[name]) end
    if copy.kind then return limit_of(copy) end
    copy.after, copy.groups = t.after and in_plain(t.after), {}
    for i, group in ipairs(t.groups) do
      local limits = {}
      for j, limit in ipairs(group.limits) do limits[j] = in_plain(limit) end
      copy.groups[i] = { limits = limits, slots = group.slots, ttl = group.ttl }
    end
    return copy
  end

  -- A request for the groups of limits, before its words say more.
  local function request(groups) return { cost = 1, maxwait = wide(0, 0), ban = wide(0, 0), groups = groups } end

  -- Reads the words behind the keys.
  function parse(c, args, keys)
    local group = { limits = {} }
    local p = { command = c, args = args, next = 1, seen = {}, groups = { group }, group = group, rates_only = true }
    p.keys, p.r = c.groups and keys, request(p.groups)
    p.r.settles = c.settles
    while p.next <= #args do
      local text = shift(p)
      local kind, option = finder(c.kinds, text), finder(c.options, text)
      if kind then read_limit(p, kind, text)
      elseif c.slots and upper(text) == 'SLOTS' then read_slots(p, text)
      elseif not option or wants_limit(p) then unexpected(p, text)
      elseif option == 'NEXT' then read_next(p, text)
      else read_option(p, option, text) end
    end
    if wants_limit(p) then
      if #p.groups > 1 then near(args[#args], expected_groups(c)) end
      refuse('syntax error: ' .. (c.groups and TEXT.noLimits .. key_or_limit(p) or TEXT.noLimit))
    end
    check(p)
    if c.groups and #p.groups > 1 and #p.groups < #keys then near('NEXT', TEXT.oneGroupOrAll) end
    return p.r
  end

  -- Reads the words of CL.THROTTLE behind the key.
  function parse_throttle(_, args)
    local max_burst, count = integer(args[1]), integer(args[2])
    local needs_module = ' of more than 9007199254740990 needs the module'
    if not max_burst or max_burst < 0 or args[1] == LARGEST then raise(TEXT.badMaxBurst) end
    if not count or count < 1 then raise(TEXT.badCount) end
    local problem, period = length_of_time(args[3], false)
    if problem == TEXT.tooFine then raise(TEXT.badFraction) end
    if problem and problem ~= NO_UNIT or period.s + period.ns == 0 then raise(TEXT.badPeriod) end
    if max_burst >= EXACT then refuse('a max_burst' .. needs_module) end
    if count >= EXACT then refuse('a count_per_period' .. needs_module) end
    if period > LAST then refuse('a period of more than 292 years needs the module') end
    local l = { kind = 1, head = char(1) .. wide_bytes(period) }
    problem = set_rate(l, max_burst + 1, count, period)
    if problem then raise(problem == TEXT.tooFast and TEXT.badRate or TEXT.badTolerance) end
    local r = request({ { limits = { limit_of(l) } } })
    if args[4] then r.cost = integer(args[4]) end
    if not r.cost or r.cost < 0 then raise(TEXT.badQuantity) end
    if r.cost > EXACT then refuse('a quantity' .. needs_module) end
    return r
  end

  function parse_ban(_, args)
    local problem, ns = duration(args[1])
    if problem == NO_UNIT and #args[1] <= 40 then
      refuse('duration: ' .. args[1] .. TEXT.noUnit .. args[1] .. 'ms or ' .. args[1] .. 's')
    end
    if problem then raise(TEXT.badBanDuration) end
    local r = request({})
    r.ban, r.is_long = ns, true
    return r
  end

  function parse_nothing()
    local r = request({})
    r.is_long = true
    return r
  end

  -- Refuses a call with too many keys or words, or too few.
  function check_counts(c, keys, args)
    if c.groups then
      if #keys < 1 or #keys > 8 then raise(TEXT.badNumKeys) end
      if 1 + #keys + #args > 800 then raise(TEXT.tooManyWords) end
      return
    end
    if #keys > 1 then refuse(gsub(c.name, '%.', '_') .. ' takes one key') end
    if #args + 1 > 96 then raise(c.repeated and TEXT.tooManyIDs or TEXT.tooManyWords) end
    if #keys == 0 or #args < c.least or c.most and #args > c.most then
      refuse("wrong number of arguments for '" .. c.name .. "' command")
    end
  end

  -- What the words of earlier calls were read as, ids aside: a table for each word, by the words before. When there are
  -- many, all are forgotten.
  local MOST_REMEMBERED, LONGEST_REMEMBERED = 10000, 64
  local how_many = 0

  local function remember(c, keys, args, id_at, r)
    for i = 1, #args do
      if i ~= id_at and #args[i] > LONGEST_REMEMBERED then return end
    end
    if how_many + #args > MOST_REMEMBERED then
      for _, command in pairs(COMMANDS) do command.remembered = {} end
      how_many = 0
    end
    local place = c.remembered
    for i = 0, #args do
      local word = i == 0 and keys or i == id_at and '' or args[i]
      place[word] = place[word] or {}
      place = place[word]
    end
    place[true] = r
    how_many = how_many + #args + 1
  end

  -- What the words of a call say.
  function read_words(c, args, keys)
    local id_at
    for i = c.has_id and #args or 0, 2, -1 do
      if args[i - 1] == 'ID' then id_at = i end
    end
    local place = c.remembered[#keys]
    for i = 1, #args do
      place = place and place[i == id_at and '' or args[i]]
    end
    local r = place and place[true]
    if r and (not id_at or is_id(args[id_at])) then return r end
    r = c.parse(c, args, keys)
    r.is_long = r.is_long or is_long(r)
    if not r.is_long then r.plain = in_plain(r) end
    r.shortcut = c.shortcut_of and c.shortcut_of(c, r)
    if not c.repeated and r.id_at == id_at then remember(c, #keys, args, id_at, r) end
    return r
  end
end

--------------------------------------------------------------------------------------------------------------------
-- Calls. "m" is the limits of all keys in one row. Of each key it has either the stack, which "begin"s behind so many
-- limits of the row, or the leases and what becomes of them, "taken".

local limit, look, give_back, ban, settle_admission, lease, renew, release, list_leases, inspect

do
  local function number(condition) return condition and 1 or 0 end

  local NONE = {}

  local function join(r, ks)
    local m = { shadows = 0, stacks = {}, leases = NONE }
    for i, k in ipairs(ks) do
      local group = r.groups[i] or r.groups[1]
      if group.slots then
        if m.leases == NONE then m.leases = {} end
        m.leases[i], k.group = k, group
      else
        local s = open(k, group.limits)
        m.stacks[i], s.begin = s, #m
        m.shadows = m.shadows + s.shadows
        for _, l in ipairs(s) do m[#m + 1], l.key = l, i end
      end
    end
    return m
  end

  -- Stores what a decision changed, except for the key with an index, which is stored otherwise.
  local function store_changed(m, ks, adds_charged, except)
    for i, k in ipairs(ks) do
      local s = m.stacks[i]
      if s and i ~= except and has_changed(s) then
        if adds_charged then add_charged(s) end
        store(k, s)
      end
    end
  end

  -- What a limit says of a request as if no other were asked, after it was decided.
  local function alone(l, r, limited)
    local retry = (l.denies or limited) and retry_alone(l, r)
    local capacity, left, reset = standing_of(l)
    return { number(l.denies), capacity, left, milliseconds(retry ~= this.zero and retry), milliseconds(reset) }
  end

  -- The same of a group of SLOTS.
  local function slots_alone(m, i, limited)
    local k = m.leases[i]
    local taken = k.taken
    local after = limited and not taken.settles and lease_denied(k, k.group.slots) or taken
    local _, all = until_lapsed(k, after)
    return { number(taken.limited), after.slots, after.remaining, milliseconds(taken.retry), milliseconds(all) }
  end

  -- A reply: the integers alone, or with their names; then what each limit says.
  local function fields(c, r, values, each)
    if r.compact then
      for _, said in ipairs(each or {}) do values[#values + 1] = said end
      return values
    end
    local named = {}
    for i, value in ipairs(values) do named[2 * i - 1], named[2 * i] = c.fields[i], value end
    if each then named[#named + 1], named[#named + 2] = 'each', each end
    return named
  end

  -- The number of a rule, where each group of SLOTS in front of its key counts as one.
  local function numbered(m, rule)
    local before = rule
    for i = 1, rule > 0 and m[rule].key - 1 or 0 do
      if m.leases[i] then before = before + 1 end
    end
    return before
  end

  -- The reply about a limit, or a group of SLOTS, of a key.
  local function answer(c, r, m, ks, key, result)
    if not c.fields[1] then -- CL.THROTTLE
      return { number(result.limited), result.limit, result.remaining, seconds(result.retry), seconds(result.reset) }
    end
    local values = {
      number(result.limited), result.is_numbered and result.rule or numbered(m, result.rule),
      result.limit, result.remaining, milliseconds(result.retry), milliseconds(result.reset), milliseconds(result.next),
      result.granted, milliseconds(result.wait), numbered(m, result.shadow), c.groups and key,
    }
    local each = r.each and {}
    for i = 1, each and #ks or 0 do
      if m.leases[i] then each[#each + 1] = slots_alone(m, i, result.limited) end
      for _, l in ipairs(m.stacks[i] or {}) do each[#each + 1] = alone(l, r, result.limited) end
    end
    return fields(c, r, values, each)
  end

  -- The reply to a request that a ban denies. "limits" is the time until the limits would let it through.
  local function answer_ban(c, r, m, ks, key, limits, granted)
    local rest, s = rest_of_ban(ks[key]), m.stacks[key]
    return answer(c, r, m, ks, key, {
      limited = true, rule = 0, limit = s and (s[1].capacity or s[1].count) or 0, remaining = 0,
      retry = longer(rest, limits), reset = rest, next = rest, granted = granted, wait = this.zero, shadow = 0,
    })
  end

  local function longest_ban(ks)
    local longest
    for i, k in ipairs(ks) do
      if is_banned(k) and (not longest or k.ban > ks[longest].ban) then longest = i end
    end
    return longest
  end

  -- Whether a request that is limited bans its key, or counts the denial. One of more than a limit ever has does
  -- neither.
  local function bans(r, result) return result.limited and r.ban ~= this.zero and result.retry end

  -- Bans a key for a request that is limited, or counts the denial where only the last of several bans. The key must
  -- not have been stored before: that would forget the count on a key that is full.
  local function ban_for(k, s, r, result)
    local changed = has_changed(s)
    if r.after then
      local is_last, counts = count_denial(s, r.after)
      if not is_last then return store(k, s) end
      changed = changed or counts
    end
    local at = ban_end(r.ban)
    if changed then store_behind(k, at, s) else put_ban(k, at) end
    result.retry = most(result.retry, r.ban)
  end

  -- Asks all keys.
  local function limit_all(c, r, ks, m)
    local banned = longest_ban(ks)
    if banned and not r.force then
      local k = ks[banned]
      local at = r.strict and ban_end(r.ban) -- a ban begins again, but does not end sooner
      if at and at > k.ban then put_ban(k, at) end
      return answer_ban(c, r, m, ks, banned, retry_of(m, r), 0)
    end
    local result = take(m, r)
    local key = m[result.rule].key
    local own = not banned and bans(r, result) and key
    store_changed(m, ks, false, own)
    if banned then return answer_ban(c, r, m, ks, banned, retry_of(m, r), result.granted) end
    if own then ban_for(ks[key], m.stacks[key], r, result) end
    return answer(c, r, m, ks, key, result)
  end

  -- Whether a time is the longer one; false never ends.
  local function is_longer(a, b) return b ~= false and (a == false or a > b) end

  -- The key that lets a request through first, and how long it would wait there, or have to wait to ask again.
  local function best_of(m, r, closed)
    local best, best_limited, best_time
    for i, s in ipairs(m.stacks) do
      settle(s)
      local limited, time = outlook(s, r)
      if closed[i] then -- nothing can be reserved behind a ban
        limited, time = true, longer(closed[i], limited and time or (not limited and this.zero))
      end
      local is_better = best and best_limited and not limited or best_limited == limited and is_longer(best_time, time)
      if not best or is_better then best, best_limited, best_time = i, limited, time end
      if not best_limited and best_time == this.zero then break end
    end
    return best, best_time
  end

  -- Asks the first key that has room, or else the one that has some soonest.
  local function limit_one(c, r, ks, m)
    local closed = {}
    for i, k in ipairs(ks) do closed[i] = is_banned(k) and rest_of_ban(k) end
    local function time()
      local _, best_time = best_of(m, r, closed)
      return best_time
    end
    local key = best_of(m, r, closed)
    local s = m.stacks[key]
    if closed[key] and not r.force then return answer_ban(c, r, m, ks, key, time(), 0) end
    local result = take(s, r)
    if has_changed(s) then store(ks[key], s) end
    result.rule = result.rule + s.begin
    if result.shadow > 0 then result.shadow = result.shadow + s.begin end
    if closed[key] then return answer_ban(c, r, m, ks, key, time(), result.granted) end
    -- The debt may have made another key the first that has room.
    if result.limited and r.force then result.retry = time() end
    return answer(c, r, m, ks, key, result)
  end

  local function answer_slot(c, r, m, ks, key, shadow)
    local taken = m.leases[key].taken
    local nxt, all = until_lapsed(m.leases[key], taken)
    local rule = 1
    for i = 1, key - 1 do rule = rule + (m.stacks[i] and #m.stacks[i] or 1) end
    return answer(c, r, m, ks, key, {
      limited = taken.limited, rule = rule, is_numbered = true, limit = taken.slots, remaining = taken.remaining,
      retry = taken.retry, reset = all, next = nxt, granted = 1 - number(taken.limited), wait = this.zero, shadow = shadow,
    })
  end

  -- Takes the slots of a call that is let through, and answers about what has the fewest left.
  local function admitted(c, r, m, ks, id, result)
    local key, fewest
    if m[1] and m.shadows < #m then key, fewest = m[result.rule].key, result.remaining end
    for i, k in pairs(m.leases) do
      local left = k.taken.remaining
      k.lease = { id = id, at = k.taken.at }
      if not key or left < fewest or left == fewest and i < key then key, fewest = i, left end
    end
    if m.leases[key] then return answer_slot(c, r, m, ks, key, result.shadow) end
    return answer(c, r, m, ks, key, result)
  end

  -- Decides a call of which at least one group is SLOTS.
  local function admit(c, r, ks, m, id)
    local full, held, longest = nil, true, nil
    for i = 1, #ks do
      local k = m.leases[i]
      if k then
        local taken = take_lease(k, k.group.slots, k.group.ttl)
        k.taken, held = taken, held and holds(k)
        if taken.limited and (not full or is_longer(taken.retry, longest)) then full, longest = i, taken.retry end
      end
    end
    if held then -- the retry of a call that was let through: nothing is charged
      for _, l in ipairs(m) do l.denies = false end
      return admitted(c, r, m, ks, id, m[1] and standing(m, r.cost) or { shadow = 0 })
    end
    local banned = longest_ban(ks)
    if banned then
      local time = retry_of(m, r)
      if full then time = longer(time, longest) end
      return answer_ban(c, r, m, ks, banned, time, 0)
    end
    if not m[1] then
      if full then return answer_slot(c, r, m, ks, full, 0) end
      return admitted(c, r, m, ks, id, { shadow = 0 })
    end
    local result = take(m, r, full)
    store_changed(m, ks)
    if not result.limited then return admitted(c, r, m, ks, id, result) end
    local key = m[result.rule].key
    local outlasts = full and (is_longer(longest, result.retry) or longest == result.retry and full < key)
    if full and (outlasts or result.retry == this.zero) then return answer_slot(c, r, m, ks, full, result.shadow) end
    return answer(c, r, m, ks, key, result)
  end

  function limit(c, r, ks, ids)
    local m = join(r, ks)
    if r.each then judge(m, r) end
    if m.leases ~= NONE then return admit(c, r, ks, m, ids[1]) end
    if r.any then return limit_one(c, r, ks, m) end
    return limit_all(c, r, ks, m)
  end

  function look(c, r, ks)
    local m = join(r, ks)
    if r.each then judge(m, r) end
    if is_banned(ks[1]) then return answer_ban(c, r, m, ks, 1, retry_of(m, r), 0) end
    return answer(c, r, m, ks, 1, peek(m, r))
  end

  function give_back(c, r, ks)
    local m = join(r, ks)
    local result = adjust(m, r.cost, -1)
    store_changed(m, ks, true)
    return answer(c, r, m, ks, 1, result)
  end

  -- Ends an admission, if its id holds all leases.
  function settle_admission(c, r, ks, ids)
    local m, held = join(r, ks), true
    for _, k in pairs(m.leases) do held = held and holds(k) end
    for _, k in pairs(m.leases) do
      local at = 0 -- when the lease lapses that stays because another is gone
      if not held and holds(k) then at = k.own end
      k.taken = { settles = true, limited = not holds(k), slots = -1, remaining = -1, retry = false, at = at }
      if held then k.ended = ids end
    end
    local key, result = 0, nil
    if not m[1] then
      result = { rule = 0, limit = 0, remaining = 0, retry = false, reset = this.zero, next = this.zero, granted = 0, wait = this.zero, shadow = 0 }
    elseif held then
      result = adjust(m, 0, 1)
      store_changed(m, ks, true)
    else
      result = standing(m)
      result.granted = 0
    end
    if m[1] then key = m[result.rule].key end
    local reply = answer(c, r, m, ks, key, result)
    reply[r.compact and 1 or 2] = number(held)
    return reply
  end

  function ban(_, r, ks)
    local k = ks[1]
    open(k, {})
    if r.ban.s + r.ban.ns == 0 then
      if k.ban and k.state == '' then k.gone = true elseif k.ban then put(k, k.state) end
      k.ban = nil
    elseif not k.ban or this.now + r.ban > k.ban then
      put_ban(k, this.now + r.ban)
    end
    return is_banned(k) and ms_up(k.ban - this.now) or 0
  end

  -- Leases of one key.

  local function answer_lease(c, r, result)
    local retry = milliseconds(result.retry)
    return fields(c, r, { number(result.limited), result.slots, result.remaining, retry, result.lease, 0 })
  end

  local function granted(c, r, k, id, result)
    if not result.limited then k.lease = { id = id, at = result.at } end
    return answer_lease(c, r, result)
  end

  function lease(c, r, ks, ids) return granted(c, r, ks[1], ids[1], take_lease(ks[1], r.slots, r.ttl)) end

  function renew(c, r, ks, ids)
    local k = ks[1]
    k.lowest = {}
    if holds(k) then return granted(c, r, k, ids[1], grant(-1, -1, r.ttl)) end
    return answer_lease(c, r, { limited = true, slots = -1, remaining = -1, retry = false, lease = 0 })
  end

  function release(_, _, ks, ids)
    local k, ended, seen = ks[1], {}, {}
    for i, id in ipairs(ids) do
      local at = k.named[i]
      if at and at > floor_ms() and not seen[id] then
        seen[id] = true
        ended[#ended + 1] = id
      end
    end
    k.ended = ended[1] and ended
    return #ended
  end

  local MOST_ROWS = 10000 -- each is a table of Lua: 200,000 held up the server for 0.3 s, and left 49 MB

  function list_leases(_, r, ks)
    local k, leases = ks[1], {}
    if least(r.count or 10, k.held) > MOST_ROWS then near('COUNT', 'to list more than 10000 leases needs the module') end
    local from, rows = '(' .. format('%.0f', floor_ms()), format('%.0f', r.count or 10)
    local held = k.held > 0 and call('ZRANGE', k.name, from, '+inf', 'BYSCORE', 'LIMIT', 0, rows, 'WITHSCORES') or {}
    for i = 1, #held, 2 do leases[#leases + 1] = { 'id', held[i], 'lease_ms', tonumber(held[i + 1]) - ceil_ms() } end
    return { 'held', k.held, 'waiting', 0, 'leases', leases, 'waiting_groups', 0, 'groups', {} }
  end

  -- A map of values, whose names stand behind a place in the list of a command's fields.
  local function map_of(c, place, values)
    local map = {}
    for i, value in ipairs(values) do map[2 * i - 1], map[2 * i] = c.fields[place + i], value end
    return map
  end

  local function kind_of(k)
    if k.held then return 'leases' end
    if not k.value then return 'none' end
    if k.ban and k.state == '' then return 'ban' end
    return byte(k.state) == 1 and 'limits' or 'rate'
  end

  -- What a key holds: leases, or a string or nothing.
  function inspect(c, _, ks)
    local k, limits, values = ks[1], {}, nil
    local kept, kind, at = not k.held and open(k, {}).kept or {}, kind_of(k), 0
    if kind ~= 'none' then at = look_up('PEXPIRETIME', k.name) end
    values = { kind, floor_ms(), #(k.value or ''), at, k.ban and ms_up(k.ban) or 0, k.held or 0, k.next or 0, 0, limits }
    if kind == 'rate' and not kept[1] then limits[1] = map_of(c, #values, stored()) end -- a TAT of 0
    for i = 1, #kept do limits[i] = map_of(c, #values, stored(kept[i])) end
    return map_of(c, 0, values)
  end
end

--------------------------------------------------------------------------------------------------------------------
-- Most calls ask for units of limits of kind RATE alone, or of one limit of another kind, find them as the call before
-- left them, and have words that were read before. These are decided in one go, and all others in the longer way, with
-- the same reply. It is the one part that is written for speed: x - x % 1 is floor(x).

local SHORTCUTS = true -- tests also run without them
local shortcut_of, take_rates, take_counted

do
  local TAT = '^([1-9]%d%d%d%d%d%d%d%d%d)(%d+)$' -- of the years 2001 to 2286, in 19 digits

  -- What such a call needs of its limits; nil of any other call.
  function shortcut_of(c, r)
    local q = r.plain or {}
    local limits = q.groups and q.groups[1].limits or {}
    local n, first = #limits, limits[1]
    if not SHORTCUTS or n == 0 or q.upto or q.strict or q.force or q.each or q.maxwait > 0 or q.ban > 0 then return nil end
    local names = not r.compact and c.fields[1] and c.fields
    if n == 1 and first.kind ~= 1 then
      if first.kind == NOBODY or first.take or first.spare or first.shadow then return nil end
      return { take = take_counted, limit = first, cost = r.cost, names = names, frame = char(1, 1) .. first.head }
    end
    local rates = { take = take_rates, n = n, names = names, in_seconds = not c.fields[1] }
    rates.size, rates.format = 2 + 19 * n, '<'
    for i, l in ipairs(limits) do
      if l.kind ~= 1 or l.take or l.spare or l.shadow or r.cost > l.capacity then return nil end
      local frame = (i == 1 and char(1, n) or '') .. l.head .. char(8, 0)
      rates[i] = { capacity = l.capacity, emission = l.emission, tolerance = l.tolerance, frame = frame }
      rates[i].increment = l.emission * r.cost
      rates.format = rates.format .. 'c' .. #frame .. 'I4I4'
    end
    return rates
  end

  -- Reads how much of each bucket is to be refilled; nil if the value is not of this form.
  local function read_backlogs(rates, value, now_s, now_ns, high, low)
    local backlog, n = {}, rates.n
    if not value then
      for i = 1, n do backlog[i] = 0 end
      return backlog
    elseif n == 1 then
      if #value ~= 19 then return nil end -- as that of an error is
      local s, ns = match(value, TAT)
      if not s then return nil end
      backlog[1] = (s - now_s) * 1e9 + ns - now_ns
      return backlog
    elseif #value ~= rates.size then
      return nil
    end
    local stored = { unpack(rates.format, value) }
    for i = 1, n do
      if stored[3 * i - 2] ~= rates[i].frame then return nil end
      backlog[i] = (stored[3 * i] - high) * WORD + stored[3 * i - 1] - low
    end
    return backlog
  end

  local function store_backlogs(rates, backlog, name, value, now_s, now_ns, high, low)
    local n, longest, stored = rates.n, 0, nil
    if n == 1 then
      longest = backlog[1]
      local sum = now_ns + longest
      local ns = sum % 1e9
      stored = format('%d%09d', now_s + (sum - ns) / 1e9, ns)
    else
      local parts = {}
      for i = 1, n do
        local ns = backlog[i]
        if ns > longest then longest = ns end
        local sum = low + ns
        local rest = sum % WORD
        parts[3 * i - 2], parts[3 * i - 1], parts[3 * i] = rates[i].frame, rest, high + (sum - rest) / WORD
      end
      stored = pack(rates.format, unpack_table(parts))
    end
    local second = (now_ns + longest + 999999999) / 1e9
    second = now_s + second - second % 1
    write_until(name, stored, moved_expiry(name, value, second, slack_of(second, now_s)))
  end

  local function named(names, reply)
    if not names then return reply end
    local both = {}
    for i = 1, 10 do both[2 * i - 1], both[2 * i] = names[i], reply[i] end
    return both
  end

  -- Decides such a call; nil if that takes more.
  function take_rates(rates, name)
    local value, time = try('GET', name), call('TIME')
    local s, ns, high, low = time[1] + 0, time[2] * 1000, nil, nil
    if rates.n > 1 then high, low = words_of(s, ns) end
    local backlog, n = read_backlogs(rates, value, s, ns, high, low), rates.n
    if not backlog then return nil end
    local rule, wait = 1, 0
    for i = 1, n do
      local l, ns = rates[i], backlog[i]
      if ns > l.tolerance then return nil end
      if ns < 0 then
        ns = 0
        backlog[i] = 0
      end
      local needed = ns + l.increment - l.tolerance
      if needed > wait then rule, wait = i, needed end
    end
    local limited, fewest = wait > 0, nil
    if not limited then
      for i = 1, n do
        local l = rates[i]
        local ns = backlog[i] + l.increment
        backlog[i] = ns
        local left = (l.tolerance - ns) / l.emission
        left = left - left % 1
        if not fewest or left < fewest then rule, fewest = i, left end
      end
      if rates[1].increment > 0 then store_backlogs(rates, backlog, name, value, s, ns, high, low) end
    end
    local l, reset, left = rates[rule], backlog[rule], fewest
    if limited then
      left = (l.tolerance - reset) / l.emission
      left = left - left % 1
    end
    local unit = rates.in_seconds and 1e9 or 1e6
    local retry_after, reset_after = -1, (reset + unit - 1) / unit
    reset_after = reset_after - reset_after % 1
    if limited then
      retry_after = (wait + unit - 1) / unit
      retry_after = retry_after - retry_after % 1
    end
    if rates.in_seconds then return { limited and 1 or 0, l.capacity, left, retry_after, reset_after } end
    local nxt = reset > 0 and (reset - l.tolerance + (left + 1) * l.emission + 999999) / 1e6 or 0
    local granted = limited and 0 or l.increment / l.emission
    local reply = { limited and 1 or 0, rule, l.capacity, left, retry_after, reset_after, nxt - nxt % 1, granted, 0, 0 }
    return named(rates.names, reply)
  end

  -- Reads the limit of a value that holds nothing else; nil if it is not of this form.
  local function read_counted(shortcut, value)
    local l = layer(shortcut.limit)
    if not value then return l end
    if type(value) ~= 'string' or sub(value, 1, 11) ~= shortcut.frame then return nil end
    local low, high = byte(value, 12, 13)
    if not high or low + 256 * high ~= #value - 13 or not l:decode(sub(value, 14)) then return nil end
    return l
  end

  local function store_counted(shortcut, l, name, before)
    local second, state = seconds_up(instant(l:expires())), l:encode()
    local value = shortcut.frame .. char(#state % 256, floor(#state / 256)) .. state
    write_until(name, value, moved_expiry(name, before, second, slack_of(second, this.s)))
  end

  -- Decides such a call; nil if that takes more.
  function take_counted(shortcut, name)
    local value = try('GET', name)
    begin(false)
    local l, cost = read_counted(shortcut, value), shortcut.cost
    if not l or l:settle() then return nil end
    local wait = cost > 0 and l:retry(cost) or cost == 0 and 0
    local limited = wait ~= 0
    if not limited and cost > 0 then l:charge(cost) end
    local capacity, left, reset, nxt = l:standing()
    if this.long or this.beyond or this.clocks_unknown then return nil end
    if not limited and cost > 0 then store_counted(shortcut, l, name, value) end
    local retry, granted = limited and milliseconds(wait) or -1, limited and 0 or cost
    return named(shortcut.names, {
      limited and 1 or 0, 1, capacity, left, retry, milliseconds(reset), milliseconds(nxt), granted, 0, 0,
    })
  end
end

--------------------------------------------------------------------------------------------------------------------
-- Which function makes which call.

COMMANDS.THROTTLE.parse, COMMANDS.BAN.parse, COMMANDS.INSPECT.parse = parse_throttle, parse_ban, parse_nothing
COMMANDS.THROTTLE.shortcut_of, COMMANDS.LIMIT.shortcut_of = shortcut_of, shortcut_of
COMMANDS.REFUND.gives_back, COMMANDS.SETTLE.gives_back, COMMANDS.RENEW.gives_back = true, true, true
COMMANDS.LEASE.leases, COMMANDS.RENEW.leases, COMMANDS.RELEASE.leases, COMMANDS.LEASES.leases = true, true, true, true
COMMANDS.THROTTLE.decide, COMMANDS.LIMIT.decide, COMMANDS.MLIMIT.decide = limit, limit, limit
COMMANDS.PEEK.decide, COMMANDS.REFUND.decide, COMMANDS.BAN.decide = look, give_back, ban
COMMANDS.SETTLE.decide, COMMANDS.LEASE.decide, COMMANDS.RENEW.decide = settle_admission, lease, renew
COMMANDS.RELEASE.decide, COMMANDS.LEASES.decide, COMMANDS.INSPECT.decide = release, list_leases, inspect

local function bind()
  byte, char, find, match, sub, rep = string.byte, string.char, string.find, string.match, string.sub, string.rep
  upper, lower, gsub, format, concat = string.upper, string.lower, string.gsub, string.format, table.concat
  floor, huge, bxor = math.floor, math.huge, bit.bxor
  pack, unpack, call, try = struct.pack, struct.unpack, redis.call, redis.pcall
  LAST = wide(MAX_S, MAX_NS)
  LENGTHS = { [''] = wide(1, 0), s = wide(1, 0), ms = wide(0, 1e6), m = wide(60, 0), h = wide(3600, 0), d = wide(DAY, 0) }
  for _, command in pairs(COMMANDS) do
    command.parse = command.parse or parse
    command.remembered = {}
  end
end

-- Makes a call whose words may have been read before. It is decided in plain numbers if they do, and once more if it
-- turns out that they do not.
local function answer_call(c, keys, args, r, is_second)
  if not r then
    check_counts(c, keys, args)
    r = read_words(c, args, keys)
    local reply = r.shortcut and r.shortcut:take(keys[1])
    if reply then return reply end
  end
  for i = 2, #keys do
    for j = 1, i - 1 do
      if keys[i] == keys[j] then near(keys[i], TEXT.twoOfOneKey) end
    end
  end
  begin(is_second or r.is_long)
  local ks, ids = {}, r.id_at and { unpack_table(args, r.id_at, c.repeated and #args or r.id_at) } or {}
  for i = 1, #keys do
    local group = r.groups[i] or r.groups[1]
    if c == COMMANDS.INSPECT then ks[i] = read_any(keys[i]) or read_leases(keys[i], ids, c.groups)
    elseif c.leases or group and group.slots then ks[i] = read_leases(keys[i], ids, c.groups)
    else ks[i] = read_key(keys[i]) end
  end
  local reply = c.decide(c, this.is_wide and r or r.plain, ks, ids)
  if this.long and not this.is_wide then return nil end
  if this.beyond then raise(TOO_MANY_UNITS) end
  if this.clocks_unknown then
    local from, to = CLOCKS.years[1], CLOCKS.years[2]
    raise(format('ERR the clocks of time zones are known from %d to %d; a window beyond needs the module', from, to))
  end
  may_write(ks)
  if c.gives_back then keep_to_maxmemory(ks) end
  for _, k in ipairs(ks) do
    if k.lease or k.ended then write_leases(k) else write_string(k) end
  end
  return reply
end

local function run(c, keys, args)
  if not call then bind() end
  local place = not c.has_id and c.remembered[#keys]
  for i = 1, #args do
    if not place then break end
    place = place[args[i]]
  end
  local r = place and place[true]
  if r and r.shortcut then
    local reply = r.shortcut:take(keys[1])
    if reply then return reply end
  end
  this = {}
  local reply = caught(answer_call, c, keys, args, r)
  if this.long and not this.is_wide then return caught(answer_call, c, keys, args, r, true) end
  return reply
end

-- The clocks of the time zones from a year on and up to another: by how many minutes they are ahead of UTC, and then
-- after how many minutes they are changed, and to what. Each zone has the number of its clocks.
-- BEGIN GENERATED: zones
function read_clocks() -- of the IANA database 2026f
  return {
  years = { 2021, 2051 }, from = 1609459200, to = 2556144000,
  [[0]],
  [[180]],
  [[60]],
  [[120]],
  [[120 1219560:180 262020:120 262140:180 272100:120 252060:180 272100:120 252060:180 272100:120 262140:180 262020:120 262140:180 262020:120 262140:180
262020:120 262140:180 272100:120 252060:180 272100:120 262140:180 262020:120 262140:180 262020:120 262140:180 262020:120 262140:180 262020:120
262140:180 272100:120 252060:180 272100:120 262140:180 262020:120 262140:180 262020:120 262140:180 262020:120 262140:180 272100:120 252060:180
272100:120 252060:180 272100:120 262140:180 262020:120 262140:180 262020:120 262140:180 262020:120 262140:180 272100:120 252060:180 272100:120
262140:180 262020:120 262140:180 262020:120]],
  [[60 144120:0 50400:60 453600:0 60480:60 453600:0 50400:60 463680:0 50400:60 453600:0 60480:60 453600:0 50400:60 262020:0]],
  [[60 123900:120 312480:60 211680:120 312480:60 211680:120 312480:60 221760:120 302400:60 221760:120 302400:60 221760:120 302400:60 221760:120 312480:60
211680:120 312480:60 211680:120 312480:60 221760:120 302400:60 221760:120 302400:60 221760:120 312480:60 211680:120 312480:60 211680:120 312480:60
211680:120 312480:60 221760:120 302400:60 221760:120 302400:60 221760:120 312480:60 211680:120 312480:60 211680:120 312480:60 221760:120 302400:60
221760:120 302400:60 221760:120 302400:60 221760:120 312480:60 211680:120 312480:60 211680:120 312480:60 221760:120 302400:60 221760:120 302400:60
221760:120 312480:60 211680:120 312480:60]],
  [[180 44460:120]],
  [[-600 104400:-540 342660:-600 181500:-540 342660:-600 181500:-540 342660:-600 181500:-540 342660:-600 181500:-540 342660:-600 181500:-540 342660:-600
191580:-540 342660:-600 181500:-540 342660:-600 181500:-540 342660:-600 181500:-540 342660:-600 181500:-540 342660:-600 191580:-540 342660:-600
181500:-540 342660:-600 181500:-540 342660:-600 181500:-540 342660:-600 181500:-540 342660:-600 181500:-540 342660:-600 191580:-540 342660:-600
181500:-540 342660:-600 181500:-540 342660:-600 181500:-540 342660:-600 181500:-540 342660:-600 181500:-540 342660:-600 191580:-540 342660:-600
181500:-540 342660:-600 181500:-540 342660:-600 181500:-540 342660:-600 181500:-540 342660:-600 191580:-540 342660:-600 181500:-540 342660:-600]],
  [[-540 104340:-480 342660:-540 181500:-480 342660:-540 181500:-480 342660:-540 181500:-480 342660:-540 181500:-480 342660:-540 181500:-480 342660:-540
191580:-480 342660:-540 181500:-480 342660:-540 181500:-480 342660:-540 181500:-480 342660:-540 181500:-480 342660:-540 191580:-480 342660:-540
181500:-480 342660:-540 181500:-480 342660:-540 181500:-480 342660:-540 181500:-480 342660:-540 181500:-480 342660:-540 191580:-480 342660:-540
181500:-480 342660:-540 181500:-480 342660:-540 181500:-480 342660:-540 181500:-480 342660:-540 181500:-480 342660:-540 191580:-480 342660:-540
181500:-480 342660:-540 181500:-480 342660:-540 181500:-480 342660:-540 181500:-480 342660:-540 191580:-480 342660:-540 181500:-480 342660:-540]],
  [[-240]],
  [[-180]],
  [[-180 124020:-240 272220:-180 251940:-240 272220:-180 251940:-240 272220:-180 251940:-240 282300:-180]],
  [[-300]],
  [[-360 134400:-300 302340:-360 221820:-300 302340:-360]],
  [[-360]],
  [[-420 104220:-360 342660:-420 181500:-360 342660:-420 181500:-360 342660:-420 181500:-360 342660:-420 181500:-360 342660:-420 181500:-360 342660:-420
191580:-360 342660:-420 181500:-360 342660:-420 181500:-360 342660:-420 181500:-360 342660:-420 181500:-360 342660:-420 191580:-360 342660:-420
181500:-360 342660:-420 181500:-360 342660:-420 181500:-360 342660:-420 181500:-360 342660:-420 181500:-360 342660:-420 191580:-360 342660:-420
181500:-360 342660:-420 181500:-360 342660:-420 181500:-360 342660:-420 181500:-360 342660:-420 181500:-360 342660:-420 191580:-360 342660:-420
181500:-360 342660:-420 181500:-360 342660:-420 181500:-360 342660:-420 181500:-360 342660:-420 191580:-360 342660:-420 181500:-360 342660:-420]],
  [[-360 104160:-300 342660:-360 181500:-300 342660:-360 181500:-300 342660:-360 181500:-300 342660:-360 181500:-300 342660:-360 181500:-300 342660:-360
191580:-300 342660:-360 181500:-300 342660:-360 181500:-300 342660:-360 181500:-300 342660:-360 181500:-300 342660:-360 191580:-300 342660:-360
181500:-300 342660:-360 181500:-300 342660:-360 181500:-300 342660:-360 181500:-300 342660:-360 181500:-300 342660:-360 191580:-300 342660:-360
181500:-300 342660:-360 181500:-300 342660:-360 181500:-300 342660:-360 181500:-300 342660:-360 181500:-300 342660:-360 191580:-300 342660:-360
181500:-300 342660:-360 181500:-300 342660:-360 181500:-300 342660:-360 181500:-300 342660:-360 191580:-300 342660:-360 181500:-300 342660:-360]],
  [[-420 134460:-360 302340:-420 221820:-360]],
  [[-420 104220:-360 342660:-420 181500:-360 377100:-420 147060:-360 342660:-420 181500:-360 342660:-420 181500:-360 342660:-420 181500:-360 342660:-420
191580:-360 342660:-420 181500:-360 342660:-420 181500:-360 342660:-420 181500:-360 342660:-420 181500:-360 342660:-420 191580:-360 342660:-420
181500:-360 342660:-420 181500:-360 342660:-420 181500:-360 342660:-420 181500:-360 342660:-420 181500:-360 342660:-420 191580:-360 342660:-420
181500:-360 342660:-420 181500:-360 342660:-420 181500:-360 342660:-420 181500:-360 342660:-420 181500:-360 342660:-420 191580:-360 342660:-420
181500:-360 342660:-420 181500:-360 342660:-420 181500:-360 342660:-420 181500:-360 342660:-420 191580:-360 342660:-420 181500:-360 342660:-420]],
  [[-180 134100:-240 221820:-180 302340:-240 231900:-180 292260:-240 221820:-180 312420:-240 221820:-180]],
  [[-420]],
  [[-300 104100:-240 342660:-300 181500:-240 342660:-300 181500:-240 342660:-300 181500:-240 342660:-300 181500:-240 342660:-300 181500:-240 342660:-300
191580:-240 342660:-300 181500:-240 342660:-300 181500:-240 342660:-300 181500:-240 342660:-300 181500:-240 342660:-300 191580:-240 342660:-300
181500:-240 342660:-300 181500:-240 342660:-300 181500:-240 342660:-300 181500:-240 342660:-300 181500:-240 342660:-300 191580:-240 342660:-300
181500:-240 342660:-300 181500:-240 342660:-300 181500:-240 342660:-300 181500:-240 342660:-300 181500:-240 342660:-300 191580:-240 342660:-300
181500:-240 342660:-300 181500:-240 342660:-300 181500:-240 342660:-300 181500:-240 342660:-300 191580:-240 342660:-300 181500:-240 342660:-300]],
  [[-420 104220:-360 342660:-420 181500:-360 342660:-420 181500:-360 342660:-420 181500:-360 342660:-420 181500:-360 342660:-420 181500:-360]],
  [[-480 104280:-420 342660:-480 181500:-420 342660:-480 181500:-420 342660:-480 181500:-420 342660:-480 181500:-420 342660:-480 181500:-420 342660:-480
191580:-420 342660:-480 181500:-420 342660:-480 181500:-420 342660:-480 181500:-420 342660:-480 181500:-420 342660:-480 191580:-420 342660:-480
181500:-420 342660:-480 181500:-420 342660:-480 181500:-420 342660:-480 181500:-420 342660:-480 181500:-420 342660:-480 191580:-420 342660:-480
181500:-420 342660:-480 181500:-420 342660:-480 181500:-420 342660:-480 181500:-420 342660:-480 181500:-420 342660:-480 191580:-420 342660:-480
181500:-420 342660:-480 181500:-420 342660:-480 181500:-420 342660:-480 181500:-420 342660:-480 191580:-420 342660:-480 181500:-420 342660:-480]],
  [[-240 104040:-180 342660:-240 181500:-180 342660:-240 181500:-180 342660:-240 181500:-180 342660:-240 181500:-180 342660:-240 181500:-180 342660:-240
191580:-180 342660:-240 181500:-180 342660:-240 181500:-180 342660:-240 181500:-180 342660:-240 181500:-180 342660:-240 191580:-180 342660:-240
181500:-180 342660:-240 181500:-180 342660:-240 181500:-180 342660:-240 181500:-180 342660:-240 181500:-180 342660:-240 191580:-180 342660:-240
181500:-180 342660:-240 181500:-180 342660:-240 181500:-180 342660:-240 181500:-180 342660:-240 181500:-180 342660:-240 191580:-180 342660:-240
181500:-180 342660:-240 181500:-180 342660:-240 181500:-180 342660:-240 181500:-180 342660:-240 191580:-180 342660:-240 181500:-180 342660:-240]],
  [[-180 123900:-120 312480:-180 211680:-120 312480:-180 211680:-120 534240:-60 302400:-120 221760:-60 302400:-120 221760:-60 302400:-120 221760:-60
312480:-120 211680:-60 312480:-120 211680:-60 312480:-120 221760:-60 302400:-120 221760:-60 302400:-120 221760:-60 312480:-120 211680:-60 312480:-120
211680:-60 312480:-120 211680:-60 312480:-120 221760:-60 302400:-120 221760:-60 302400:-120 221760:-60 312480:-120 211680:-60 312480:-120 211680:-60
312480:-120 221760:-60 302400:-120 221760:-60 302400:-120 221760:-60 302400:-120 221760:-60 312480:-120 211680:-60 312480:-120 211680:-60 312480:-120
221760:-60 302400:-120 221760:-60 302400:-120 221760:-60 312480:-120 211680:-60 312480:-120]],
  [[-300 103980:-240 342720:-300 181440:-240 342720:-300 181440:-240 342720:-300 181440:-240 342720:-300 181440:-240 342720:-300 181440:-240 876960:-300
181440:-240 342720:-300 181440:-240 342720:-300 181440:-240 342720:-300 181440:-240 342720:-300 191520:-240 342720:-300 181440:-240 342720:-300
181440:-240 342720:-300 181440:-240 342720:-300 181440:-240 342720:-300 181440:-240 342720:-300 191520:-240 342720:-300 181440:-240 342720:-300
181440:-240 342720:-300 181440:-240 342720:-300 181440:-240 342720:-300 181440:-240 342720:-300 191520:-240 342720:-300 181440:-240 342720:-300
181440:-240 342720:-300 181440:-240 342720:-300 181440:-240 342720:-300 191520:-240 342720:-300 181440:-240 342720:-300]],
  [[-420 134460:-360 302340:-420 221820:-360 302340:-420]],
  [[-180 103980:-120 342660:-180 181500:-120 342660:-180 181500:-120 342660:-180 181500:-120 342660:-180 181500:-120 342660:-180 181500:-120 342660:-180
191580:-120 342660:-180 181500:-120 342660:-180 181500:-120 342660:-180 181500:-120 342660:-180 181500:-120 342660:-180 191580:-120 342660:-180
181500:-120 342660:-180 181500:-120 342660:-180 181500:-120 342660:-180 181500:-120 342660:-180 181500:-120 342660:-180 191580:-120 342660:-180
181500:-120 342660:-180 181500:-120 342660:-180 181500:-120 342660:-180 181500:-120 342660:-180 181500:-120 342660:-180 191580:-120 342660:-180
181500:-120 342660:-180 181500:-120 342660:-180 181500:-120 342660:-180 181500:-120 342660:-180 191580:-120 342660:-180 181500:-120 342660:-180]],
  [[-120]],
  [[-420 104220:-360 342660:-420 181500:-360 524100:-300 342660:-360 181500:-300 342660:-360 181500:-300 342660:-360 181500:-300 342660:-360 191580:-300
342660:-360 181500:-300 342660:-360 181500:-300 342660:-360 181500:-300 342660:-360 181500:-300 342660:-360 191580:-300 342660:-360 181500:-300
342660:-360 181500:-300 342660:-360 181500:-300 342660:-360 181500:-300 342660:-360 181500:-300 342660:-360 191580:-300 342660:-360 181500:-300
342660:-360 181500:-300 342660:-360 181500:-300 342660:-360 181500:-300 342660:-360 181500:-300 342660:-360 191580:-300 342660:-360 181500:-300
342660:-360 181500:-300 342660:-360 181500:-300 342660:-360 181500:-300 342660:-360 191580:-300 342660:-360 181500:-300 342660:-360]],
  [[-360 104160:-300 342660:-360 181500:-300 342660:-360 181500:-300 342660:-360 181500:-300 342660:-360 181500:-300 342660:-360 181500:-300]],
  [[-180 134100:-240 221820:-180 302340:-240 231900:-180 292260:-240 221820:-180 312420:-240 221820:-180 302340:-240 221820:-180 302340:-240 221820:-180
302340:-240 221820:-180 302340:-240 221820:-180 312420:-240 211740:-180 312420:-240 221820:-180 302340:-240 221820:-180 302340:-240 221820:-180
302340:-240 221820:-180 302340:-240 221820:-180 312420:-240 211740:-180 312420:-240 221820:-180 302340:-240 221820:-180 302340:-240 221820:-180
302340:-240 221820:-180 312420:-240 211740:-180 312420:-240 221820:-180 302340:-240 221820:-180 302340:-240 221820:-180 302340:-240 221820:-180
302340:-240 221820:-180 312420:-240 211740:-180 312420:-240 221820:-180 302340:-240 221820:-180 302340:-240 221820:-180 302340:-240 221820:-180]],
  [[-60 123900:0 312480:-60 211680:0 312480:-60 211680:0 312480:-60 524160:-120 221760:-60 302400:-120 221760:-60 302400:-120 221760:-60 312480:-120
211680:-60 312480:-120 211680:-60 312480:-120 221760:-60 302400:-120 221760:-60 302400:-120 221760:-60 312480:-120 211680:-60 312480:-120 211680:-60
312480:-120 211680:-60 312480:-120 221760:-60 302400:-120 221760:-60 302400:-120 221760:-60 312480:-120 211680:-60 312480:-120 211680:-60 312480:-120
221760:-60 302400:-120 221760:-60 302400:-120 221760:-60 302400:-120 221760:-60 312480:-120 211680:-60 312480:-120 211680:-60 312480:-120 221760:-60
302400:-120 221760:-60 302400:-120 221760:-60 312480:-120 211680:-60 312480:-120]],
  [[-210 104010:-150 342660:-210 181500:-150 342660:-210 181500:-150 342660:-210 181500:-150 342660:-210 181500:-150 342660:-210 181500:-150 342660:-210
191580:-150 342660:-210 181500:-150 342660:-210 181500:-150 342660:-210 181500:-150 342660:-210 181500:-150 342660:-210 191580:-150 342660:-210
181500:-150 342660:-210 181500:-150 342660:-210 181500:-150 342660:-210 181500:-150 342660:-210 181500:-150 342660:-210 191580:-150 342660:-210
181500:-150 342660:-210 181500:-150 342660:-210 181500:-150 342660:-210 181500:-150 342660:-210 181500:-150 342660:-210 191580:-150 342660:-210
181500:-150 342660:-210 181500:-150 342660:-210 181500:-150 342660:-210 181500:-150 342660:-210 191580:-150 342660:-210 181500:-150 342660:-210]],
  [[-480 104280:-420 342660:-480 181500:-420 342660:-480 181500:-420 342660:-480 181500:-420 342660:-480 181500:-420 342660:-480 181500:-420]],
  [[660 103020:480 292501:660 231659:480 292501:660 227519:480]],
  [[420]],
  [[600]],
  [[660 133440:600 262080:660 262080:600 262080:660 262080:600 262080:660 272160:600 262080:660 262080:600 262080:660 262080:600 262080:660 262080:600
262080:660 262080:600 262080:660 262080:600 272160:660 262080:600 262080:660 262080:600 262080:660 262080:600 262080:660 262080:600 262080:660
262080:600 262080:660 262080:600 272160:660 262080:600 262080:660 262080:600 262080:660 262080:600 262080:660 262080:600 262080:660 262080:600
272160:660 262080:600 262080:660 262080:600 262080:660 262080:600 262080:660 262080:600 262080:660 262080:600 262080:660 262080:600 272160:660
262080:600 262080:660 262080:600 262080:660 262080:600 262080:660 262080:600 262080:660]],
  [[300]],
  [[780 133320:720 252000:780 272160:720 252000:780 272160:720 252000:780 282240:720 252000:780 272160:720 252000:780 272160:720 252000:780 272160:720
252000:780 272160:720 252000:780 272160:720 262080:780 272160:720 252000:780 272160:720 252000:780 272160:720 252000:780 272160:720 252000:780
272160:720 252000:780 272160:720 262080:780 272160:720 252000:780 272160:720 252000:780 272160:720 252000:780 272160:720 252000:780 272160:720
262080:780 272160:720 252000:780 272160:720 252000:780 272160:720 252000:780 272160:720 252000:780 272160:720 252000:780 272160:720 262080:780
272160:720 252000:780 272160:720 252000:780 272160:720 252000:780 272160:720 252000:780]],
  [[0 123900:120 312480:0 211680:120 312480:0 211680:120 312480:0 221760:120 302400:0 221760:120 302400:0 221760:120 302400:0 221760:120 312480:0
211680:120 312480:0 211680:120 312480:0 221760:120 302400:0 221760:120 302400:0 221760:120 312480:0 211680:120 312480:0 211680:120 312480:0 211680:120
312480:0 221760:120 302400:0 221760:120 302400:0 221760:120 312480:0 211680:120 312480:0 211680:120 312480:0 221760:120 302400:0 221760:120 302400:0
221760:120 302400:0 221760:120 312480:0 211680:120 312480:0 211680:120 312480:0 221760:120 302400:0 221760:120 302400:0 221760:120 312480:0 211680:120
312480:0]],
  [[420 1556340:300]],
  [[360 1662840:300]],
  [[120 120840:180 312480:120 171360:180]],
  [[720]],
  [[240]],
  [[120 123720:180 312420:120 211740:180 312420:120 211740:180 312420:120 221820:180 302340:120 221820:180 302340:120 221820:180 302340:120 221820:180
312420:120 211740:180 312420:120 211740:180 312420:120 221820:180 302340:120 221820:180 302340:120 221820:180 312420:120 211740:180 312420:120
211740:180 312420:120 211740:180 312420:120 221820:180 302340:120 221820:180 302340:120 221820:180 312420:120 211740:180 312420:120 211740:180
312420:120 221820:180 302340:120 221820:180 302340:120 221820:180 302340:120 221820:180 312420:120 211740:180 312420:120 211740:180 312420:120
221820:180 302340:120 221820:180 302340:120 221820:180 312420:120 211740:180 312420:120]],
  [[360]],
  [[480]],
  [[330]],
  [[540]],
  [[120 120840:180 312420:120 211740:180]],
  [[120 123900:180 312480:120 211680:180 312480:120 211680:180 312480:120 221760:180 302400:120 221760:180 302400:120 221760:180 302400:120 221760:180
312480:120 211680:180 312480:120 211680:180 312480:120 221760:180 302400:120 221760:180 302400:120 221760:180 312480:120 211680:180 312480:120
211680:180 312480:120 211680:180 312480:120 221760:180 302400:120 221760:180 302400:120 221760:180 312480:120 211680:180 312480:120 211680:180
312480:120 221760:180 302400:120 221760:180 302400:120 221760:180 302400:120 221760:180 312480:120 211680:180 312480:120 211680:180 312480:120
221760:180 302400:120 221760:180 302400:120 221760:180 312480:120 211680:180 312480:120]],
  [[120 122280:180 311040:120 214560:180 311100:120 262140:180 262020:120 252060:180 272100:120 241980:180 282180:120 221820:180 302340:120 221820:180
312420:120 211740:180 312420:120 211740:180 312420:120 221820:180 302340:120 221820:180 302340:120 221820:180 312420:120 211740:180 312420:120
211740:180 312420:120 211740:180 312420:120 221820:180 292260:120 231900:180 282180:120 241980:180 262020:120 262140:180 251940:120 272220:180
231780:120 70620:180 10020:120 221820:180 211620:120 60540:180 30180:120 221820:180 201540:120 60540:180 40260:120 221820:180 181380:120 70620:180
50340:120 221820:180 171300:120 60540:180 80580:120 211740:180 161220:120 60540:180 90660:120 211740:180 141060:120 70620:180 100740:120 221820:180
120900:120 60540:180 120900:120 221820:180 100740:120 70620:180 130980:120 221820:180 90660:120 60540:180 161220:120 211740:180 80580:120 60540:180
171300:120]],
  [[120 120960:180 315300:120 208860:180 315300:120 208860:180 315300:120 218940:180 305220:120 218940:180 305220:120 218940:180 305220:120 218940:180
315300:120 208860:180 315300:120 208860:180 315300:120 218940:180 305220:120 218940:180 305220:120 218940:180 315300:120 208860:180 315300:120
208860:180 315300:120 208860:180 315300:120 218940:180 305220:120 218940:180 305220:120 218940:180 315300:120 208860:180 315300:120 208860:180
315300:120 218940:180 305220:120 218940:180 305220:120 218940:180 305220:120 218940:180 315300:120 208860:180 315300:120 208860:180 315300:120
218940:180 305220:120 218940:180 305220:120 218940:180 315300:120 208860:180 315300:120]],
  [[270]],
  [[345]],
  [[660]],
  [[390]],
  [[210 114990:270 264900:210 260700:270 264900:210]],
  [[-60 123900:0 312480:-60 211680:0 312480:-60 211680:0 312480:-60 221760:0 302400:-60 221760:0 302400:-60 221760:0 302400:-60 221760:0 312480:-60
211680:0 312480:-60 211680:0 312480:-60 221760:0 302400:-60 221760:0 302400:-60 221760:0 312480:-60 211680:0 312480:-60 211680:0 312480:-60 211680:0
312480:-60 221760:0 302400:-60 221760:0 302400:-60 221760:0 312480:-60 211680:0 312480:-60 211680:0 312480:-60 221760:0 302400:-60 221760:0 302400:-60
221760:0 302400:-60 221760:0 312480:-60 211680:0 312480:-60 211680:0 312480:-60 221760:0 302400:-60 221760:0 302400:-60 221760:0 312480:-60 211680:0
312480:-60]],
  [[0 123900:60 312480:0 211680:60 312480:0 211680:60 312480:0 221760:60 302400:0 221760:60 302400:0 221760:60 302400:0 221760:60 312480:0 211680:60
312480:0 211680:60 312480:0 221760:60 302400:0 221760:60 302400:0 221760:60 312480:0 211680:60 312480:0 211680:60 312480:0 211680:60 312480:0
221760:60 302400:0 221760:60 302400:0 221760:60 312480:0 211680:60 312480:0 211680:60 312480:0 221760:60 302400:0 221760:60 302400:0 221760:60
302400:0 221760:60 312480:0 211680:60 312480:0 211680:60 312480:0 221760:60 302400:0 221760:60 302400:0 221760:60 312480:0 211680:60 312480:0]],
  [[-60]],
  [[630 133470:570 262080:630 262080:570 262080:630 262080:570 262080:630 272160:570 262080:630 262080:570 262080:630 262080:570 262080:630 262080:570
262080:630 262080:570 262080:630 262080:570 272160:630 262080:570 262080:630 262080:570 262080:630 262080:570 262080:630 262080:570 262080:630
262080:570 262080:630 262080:570 272160:630 262080:570 262080:630 262080:570 262080:630 262080:570 262080:630 262080:570 262080:630 262080:570
272160:630 262080:570 262080:630 262080:570 262080:630 262080:570 262080:630 262080:570 262080:630 262080:570 262080:630 262080:570 272160:630
262080:570 262080:630 262080:570 262080:630 262080:570 262080:630 262080:570 262080:630]],
  [[570]],
  [[525]],
  [[660 133380:630 262110:660 262050:630 262110:660 262050:630 262110:660 272130:630 262110:660 262050:630 262110:660 262050:630 262110:660 262050:630
262110:660 262050:630 262110:660 262050:630 272190:660 262050:630 262110:660 262050:630 262110:660 262050:630 262110:660 262050:630 262110:660
262050:630 262110:660 262050:630 272190:660 262050:630 262110:660 262050:630 262110:660 262050:630 262110:660 262050:630 262110:660 262050:630
272190:660 262050:630 262110:660 262050:630 262110:660 262050:630 262110:660 262050:630 262110:660 262050:630 262110:660 262050:630 272190:660
262050:630 262110:660 262050:630 262110:660 262050:630 262110:660 262050:630 262110:660]],
  [[-300 134100:-360 221820:-300 302340:-360 231900:-300 292260:-360 221820:-300 312420:-360 221820:-300 302340:-360 221820:-300 302340:-360 221820:-300
302340:-360 221820:-300 302340:-360 221820:-300 312420:-360 211740:-300 312420:-360 221820:-300 302340:-360 221820:-300 302340:-360 221820:-300
302340:-360 221820:-300 302340:-360 221820:-300 312420:-360 211740:-300 312420:-360 221820:-300 302340:-360 221820:-300 302340:-360 221820:-300
302340:-360 221820:-300 312420:-360 211740:-300 312420:-360 221820:-300 302340:-360 221820:-300 302340:-360 221820:-300 302340:-360 221820:-300
302340:-360 221820:-300 312420:-360 211740:-300 312420:-360 221820:-300 302340:-360 221820:-300 302340:-360 221820:-300 302340:-360 221820:-300]],
  [[-600]],
  [[-660]],
  [[-720]],
  [[-480]],
  [[-540]],
  [[780]],
  [[840]],
  [[120 123840:180 312480:120 211740:180 312480:120 211680:180 312480:120 221760:180 302400:120 221760:180 302400:120 221760:180 302400:120 221760:180
312480:120 211680:180 312480:120 211680:180 312480:120 221760:180 302400:120 221760:180 302400:120 221760:180 312480:120 211680:180 312480:120
211680:180 312480:120 211680:180 312480:120 221760:180 302400:120 221760:180 302400:120 221760:180 312480:120 211680:180 312480:120 211680:180
312480:120 221760:180 302400:120 221760:180 302400:120 221760:180 302400:120 221760:180 312480:120 211680:180 312480:120 211680:180 312480:120
221760:180 302400:120 221760:180 302400:120 221760:180 312480:120 211680:180 312480:120]],
  [[825 133320:765 252000:825 272160:765 252000:825 272160:765 252000:825 282240:765 252000:825 272160:765 252000:825 272160:765 252000:825 272160:765
252000:825 272160:765 252000:825 272160:765 262080:825 272160:765 252000:825 272160:765 252000:825 272160:765 252000:825 272160:765 252000:825
272160:765 252000:825 272160:765 262080:825 272160:765 252000:825 272160:765 252000:825 272160:765 252000:825 272160:765 252000:825 272160:765
262080:825 272160:765 252000:825 272160:765 252000:825 272160:765 252000:825 272160:765 252000:825 272160:765 252000:825 272160:765 262080:825
272160:765 252000:825 272160:765 252000:825 272160:765 252000:825 272160:765 252000:825]],
  [[840 133320:780]],
  [[780 22440:720]],
  [[-570]],
  [[720 133380:660 262080:720 262080:660 262080:720 262080:660 262080:720 272160:660 262080:720 262080:660 262080:720 262080:660 262080:720 262080:660
262080:720 262080:660 262080:720 262080:660 272160:720 262080:660 262080:720 262080:660 262080:720 262080:660 262080:720 262080:660 262080:720
262080:660 262080:720 262080:660 272160:720 262080:660 262080:720 262080:660 262080:720 262080:660 262080:720 262080:660 262080:720 262080:660
272160:720 262080:660 262080:720 262080:660 262080:720 262080:660 262080:720 262080:660 262080:720 262080:660 262080:720 262080:660 272160:720
262080:660 262080:720 262080:660 262080:720 262080:660 262080:720 262080:660 262080:720]],
  names = [[

Africa/Abidjan=1 Africa/Accra=1 Africa/Addis_Ababa=2 Africa/Algiers=3 Africa/Asmara=2 Africa/Asmera=2 Africa/Bamako=1 Africa/Bangui=3 Africa/Banjul=1
Africa/Bissau=1 Africa/Blantyre=4 Africa/Brazzaville=3 Africa/Bujumbura=4 Africa/Cairo=5 Africa/Casablanca=6 Africa/Ceuta=7 Africa/Conakry=1
Africa/Dakar=1 Africa/Dar_es_Salaam=2 Africa/Djibouti=2 Africa/Douala=3 Africa/El_Aaiun=6 Africa/Freetown=1 Africa/Gaborone=4 Africa/Harare=4
Africa/Johannesburg=4 Africa/Juba=8 Africa/Kampala=2 Africa/Khartoum=4 Africa/Kigali=4 Africa/Kinshasa=3 Africa/Lagos=3 Africa/Libreville=3
Africa/Lome=1 Africa/Luanda=3 Africa/Lubumbashi=4 Africa/Lusaka=4 Africa/Malabo=3 Africa/Maputo=4 Africa/Maseru=4 Africa/Mbabane=4 Africa/Mogadishu=2
Africa/Monrovia=1 Africa/Nairobi=2 Africa/Ndjamena=3 Africa/Niamey=3 Africa/Nouakchott=1 Africa/Ouagadougou=1 Africa/Porto-Novo=3 Africa/Sao_Tome=1
Africa/Timbuktu=1 Africa/Tripoli=4 Africa/Tunis=3 Africa/Windhoek=4 America/Adak=9 America/Anchorage=10 America/Anguilla=11 America/Antigua=11
America/Araguaina=12 America/Argentina/Buenos_Aires=12 America/Argentina/Catamarca=12 America/Argentina/ComodRivadavia=12 America/Argentina/Cordoba=12
America/Argentina/Jujuy=12 America/Argentina/La_Rioja=12 America/Argentina/Mendoza=12 America/Argentina/Rio_Gallegos=12 America/Argentina/Salta=12
America/Argentina/San_Juan=12 America/Argentina/San_Luis=12 America/Argentina/Tucuman=12 America/Argentina/Ushuaia=12 America/Aruba=11
America/Asuncion=13 America/Atikokan=14 America/Atka=9 America/Bahia=12 America/Bahia_Banderas=15 America/Barbados=11 America/Belem=12
America/Belize=16 America/Blanc-Sablon=11 America/Boa_Vista=11 America/Bogota=14 America/Boise=17 America/Buenos_Aires=12 America/Cambridge_Bay=17
America/Campo_Grande=11 America/Cancun=14 America/Caracas=11 America/Catamarca=12 America/Cayenne=12 America/Cayman=14 America/Chicago=18
America/Chihuahua=19 America/Ciudad_Juarez=20 America/Coral_Harbour=14 America/Cordoba=12 America/Costa_Rica=16 America/Coyhaique=21
America/Creston=22 America/Cuiaba=11 America/Curacao=11 America/Danmarkshavn=1 America/Dawson=22 America/Dawson_Creek=22 America/Denver=17
America/Detroit=23 America/Dominica=11 America/Edmonton=24 America/Eirunepe=14 America/El_Salvador=16 America/Ensenada=25 America/Fort_Nelson=22
America/Fort_Wayne=23 America/Fortaleza=12 America/Glace_Bay=26 America/Godthab=27 America/Goose_Bay=26 America/Grand_Turk=23 America/Grenada=11
America/Guadeloupe=11 America/Guatemala=16 America/Guayaquil=14 America/Guyana=11 America/Halifax=26 America/Havana=28 America/Hermosillo=22
America/Indiana/Indianapolis=23 America/Indiana/Knox=18 America/Indiana/Marengo=23 America/Indiana/Petersburg=23 America/Indiana/Tell_City=18
America/Indiana/Vevay=23 America/Indiana/Vincennes=23 America/Indiana/Winamac=23 America/Indianapolis=23 America/Inuvik=24 America/Iqaluit=23
America/Jamaica=14 America/Jujuy=12 America/Juneau=10 America/Kentucky/Louisville=23 America/Kentucky/Monticello=23 America/Knox_IN=18
America/Kralendijk=11 America/La_Paz=11 America/Lima=14 America/Los_Angeles=25 America/Louisville=23 America/Lower_Princes=11 America/Maceio=12
America/Managua=16 America/Manaus=11 America/Marigot=11 America/Martinique=11 America/Matamoros=18 America/Mazatlan=29 America/Mendoza=12
America/Menominee=18 America/Merida=15 America/Metlakatla=10 America/Mexico_City=15 America/Miquelon=30 America/Moncton=26 America/Monterrey=15
America/Montevideo=12 America/Montreal=23 America/Montserrat=11 America/Nassau=23 America/New_York=23 America/Nipigon=23 America/Nome=10
America/Noronha=31 America/North_Dakota/Beulah=18 America/North_Dakota/Center=18 America/North_Dakota/New_Salem=18 America/Nuuk=27 America/Ojinaga=32
America/Panama=14 America/Pangnirtung=23 America/Paramaribo=12 America/Phoenix=22 America/Port-au-Prince=23 America/Port_of_Spain=11
America/Porto_Acre=14 America/Porto_Velho=11 America/Puerto_Rico=11 America/Punta_Arenas=12 America/Rainy_River=33 America/Rankin_Inlet=18
America/Recife=12 America/Regina=16 America/Resolute=18 America/Rio_Branco=14 America/Rosario=12 America/Santa_Isabel=25 America/Santarem=12
America/Santiago=34 America/Santo_Domingo=11 America/Sao_Paulo=12 America/Scoresbysund=35 America/Shiprock=17 America/Sitka=10
America/St_Barthelemy=11 America/St_Johns=36 America/St_Kitts=11 America/St_Lucia=11 America/St_Thomas=11 America/St_Vincent=11
America/Swift_Current=16 America/Tegucigalpa=16 America/Thule=26 America/Thunder_Bay=23 America/Tijuana=25 America/Toronto=23 America/Tortola=11
America/Vancouver=37 America/Virgin=11 America/Whitehorse=22 America/Winnipeg=33 America/Yakutat=10 America/Yellowknife=24 Antarctica/Casey=38
Antarctica/Davis=39 Antarctica/DumontDUrville=40 Antarctica/Macquarie=41 Antarctica/Mawson=42 Antarctica/McMurdo=43 Antarctica/Palmer=12
Antarctica/Rothera=12 Antarctica/South_Pole=43 Antarctica/Syowa=2 Antarctica/Troll=44 Antarctica/Vostok=45 Arctic/Longyearbyen=7 Asia/Aden=2
Asia/Almaty=46 Asia/Amman=47 Asia/Anadyr=48 Asia/Aqtau=42 Asia/Aqtobe=42 Asia/Ashgabat=42 Asia/Ashkhabad=42 Asia/Atyrau=42 Asia/Baghdad=2
Asia/Bahrain=2 Asia/Baku=49 Asia/Bangkok=39 Asia/Barnaul=39 Asia/Beirut=50 Asia/Bishkek=51 Asia/Brunei=52 Asia/Calcutta=53 Asia/Chita=54
Asia/Choibalsan=52 Asia/Chongqing=52 Asia/Chungking=52 Asia/Colombo=53 Asia/Dacca=51 Asia/Damascus=55 Asia/Dhaka=51 Asia/Dili=54 Asia/Dubai=49
Asia/Dushanbe=42 Asia/Famagusta=56 Asia/Gaza=57 Asia/Harbin=52 Asia/Hebron=57 Asia/Ho_Chi_Minh=39 Asia/Hong_Kong=52 Asia/Hovd=39 Asia/Irkutsk=52
Asia/Istanbul=2 Asia/Jakarta=39 Asia/Jayapura=54 Asia/Jerusalem=58 Asia/Kabul=59 Asia/Kamchatka=48 Asia/Karachi=42 Asia/Kashgar=51 Asia/Kathmandu=60
Asia/Katmandu=60 Asia/Khandyga=54 Asia/Kolkata=53 Asia/Krasnoyarsk=39 Asia/Kuala_Lumpur=52 Asia/Kuching=52 Asia/Kuwait=2 Asia/Macao=52 Asia/Macau=52
Asia/Magadan=61 Asia/Makassar=52 Asia/Manila=52 Asia/Muscat=49 Asia/Nicosia=56 Asia/Novokuznetsk=39 Asia/Novosibirsk=39 Asia/Omsk=51 Asia/Oral=42
Asia/Phnom_Penh=39 Asia/Pontianak=39 Asia/Pyongyang=54 Asia/Qatar=2 Asia/Qostanay=46 Asia/Qyzylorda=42 Asia/Rangoon=62 Asia/Riyadh=2 Asia/Saigon=39
Asia/Sakhalin=61 Asia/Samarkand=42 Asia/Seoul=54 Asia/Shanghai=52 Asia/Singapore=52 Asia/Srednekolymsk=61 Asia/Taipei=52 Asia/Tashkent=42
Asia/Tbilisi=49 Asia/Tehran=63 Asia/Tel_Aviv=58 Asia/Thimbu=51 Asia/Thimphu=51 Asia/Tokyo=54 Asia/Tomsk=39 Asia/Ujung_Pandang=52 Asia/Ulaanbaatar=52
Asia/Ulan_Bator=52 Asia/Urumqi=51 Asia/Ust-Nera=40 Asia/Vientiane=39 Asia/Vladivostok=40 Asia/Yakutsk=54 Asia/Yangon=62 Asia/Yekaterinburg=42
Asia/Yerevan=49 Atlantic/Azores=64 Atlantic/Bermuda=26 Atlantic/Canary=65 Atlantic/Cape_Verde=66 Atlantic/Faeroe=65 Atlantic/Faroe=65
Atlantic/Jan_Mayen=7 Atlantic/Madeira=65 Atlantic/Reykjavik=1 Atlantic/South_Georgia=31 Atlantic/St_Helena=1 Atlantic/Stanley=12 Australia/ACT=41
Australia/Adelaide=67 Australia/Brisbane=40 Australia/Broken_Hill=67 Australia/Canberra=41 Australia/Currie=41 Australia/Darwin=68 Australia/Eucla=69
Australia/Hobart=41 Australia/LHI=70 Australia/Lindeman=40 Australia/Lord_Howe=70 Australia/Melbourne=41 Australia/NSW=41 Australia/North=68
Australia/Perth=52 Australia/Queensland=40 Australia/South=67 Australia/Sydney=41 Australia/Tasmania=41 Australia/Victoria=41 Australia/West=52
Australia/Yancowinna=67 Brazil/Acre=14 Brazil/DeNoronha=31 Brazil/East=12 Brazil/West=11 CET=7 CST6CDT=18 Canada/Atlantic=26 Canada/Central=33
Canada/Eastern=23 Canada/Mountain=24 Canada/Newfoundland=36 Canada/Pacific=37 Canada/Saskatchewan=16 Canada/Yukon=22 Chile/Continental=34
Chile/EasterIsland=71 Cuba=28 EET=56 EST=14 EST5EDT=23 Egypt=5 Eire=65 Etc/GMT=1 Etc/GMT+0=1 Etc/GMT+1=66 Etc/GMT+10=72 Etc/GMT+11=73 Etc/GMT+12=74
Etc/GMT+2=31 Etc/GMT+3=12 Etc/GMT+4=11 Etc/GMT+5=14 Etc/GMT+6=16 Etc/GMT+7=22 Etc/GMT+8=75 Etc/GMT+9=76 Etc/GMT-0=1 Etc/GMT-1=3 Etc/GMT-10=40
Etc/GMT-11=61 Etc/GMT-12=48 Etc/GMT-13=77 Etc/GMT-14=78 Etc/GMT-2=4 Etc/GMT-3=2 Etc/GMT-4=49 Etc/GMT-5=42 Etc/GMT-6=51 Etc/GMT-7=39 Etc/GMT-8=52
Etc/GMT-9=54 Etc/GMT0=1 Etc/Greenwich=1 Etc/UCT=1 Etc/UTC=1 Etc/Universal=1 Etc/Zulu=1 Europe/Amsterdam=7 Europe/Andorra=7 Europe/Astrakhan=49
Europe/Athens=56 Europe/Belfast=65 Europe/Belgrade=7 Europe/Berlin=7 Europe/Bratislava=7 Europe/Brussels=7 Europe/Bucharest=56 Europe/Budapest=7
Europe/Busingen=7 Europe/Chisinau=79 Europe/Copenhagen=7 Europe/Dublin=65 Europe/Gibraltar=7 Europe/Guernsey=65 Europe/Helsinki=56
Europe/Isle_of_Man=65 Europe/Istanbul=2 Europe/Jersey=65 Europe/Kaliningrad=4 Europe/Kiev=56 Europe/Kirov=2 Europe/Kyiv=56 Europe/Lisbon=65
Europe/Ljubljana=7 Europe/London=65 Europe/Luxembourg=7 Europe/Madrid=7 Europe/Malta=7 Europe/Mariehamn=56 Europe/Minsk=2 Europe/Monaco=7
Europe/Moscow=2 Europe/Nicosia=56 Europe/Oslo=7 Europe/Paris=7 Europe/Podgorica=7 Europe/Prague=7 Europe/Riga=56 Europe/Rome=7 Europe/Samara=49
Europe/San_Marino=7 Europe/Sarajevo=7 Europe/Saratov=49 Europe/Simferopol=2 Europe/Skopje=7 Europe/Sofia=56 Europe/Stockholm=7 Europe/Tallinn=56
Europe/Tirane=7 Europe/Tiraspol=79 Europe/Ulyanovsk=49 Europe/Uzhgorod=56 Europe/Vaduz=7 Europe/Vatican=7 Europe/Vienna=7 Europe/Vilnius=56
Europe/Volgograd=2 Europe/Warsaw=7 Europe/Zagreb=7 Europe/Zaporozhye=56 Europe/Zurich=7 GB=65 GB-Eire=65 GMT=1 GMT+0=1 GMT-0=1 GMT0=1 Greenwich=1
HST=72 Hongkong=52 Iceland=1 Indian/Antananarivo=2 Indian/Chagos=51 Indian/Christmas=39 Indian/Cocos=62 Indian/Comoro=2 Indian/Kerguelen=42
Indian/Mahe=49 Indian/Maldives=42 Indian/Mauritius=49 Indian/Mayotte=2 Indian/Reunion=49 Iran=63 Israel=58 Jamaica=14 Japan=54 Kwajalein=48 Libya=4
MET=7 MST=22 MST7MDT=17 Mexico/BajaNorte=25 Mexico/BajaSur=29 Mexico/General=15 NZ=43 NZ-CHAT=80 Navajo=17 PRC=52 PST8PDT=25 Pacific/Apia=81
Pacific/Auckland=43 Pacific/Bougainville=61 Pacific/Chatham=80 Pacific/Chuuk=40 Pacific/Easter=71 Pacific/Efate=61 Pacific/Enderbury=77
Pacific/Fakaofo=77 Pacific/Fiji=82 Pacific/Funafuti=48 Pacific/Galapagos=16 Pacific/Gambier=76 Pacific/Guadalcanal=61 Pacific/Guam=40
Pacific/Honolulu=72 Pacific/Johnston=72 Pacific/Kanton=77 Pacific/Kiritimati=78 Pacific/Kosrae=61 Pacific/Kwajalein=48 Pacific/Majuro=48
Pacific/Marquesas=83 Pacific/Midway=73 Pacific/Nauru=48 Pacific/Niue=73 Pacific/Norfolk=84 Pacific/Noumea=61 Pacific/Pago_Pago=73 Pacific/Palau=54
Pacific/Pitcairn=75 Pacific/Pohnpei=61 Pacific/Ponape=61 Pacific/Port_Moresby=40 Pacific/Rarotonga=72 Pacific/Saipan=40 Pacific/Samoa=73
Pacific/Tahiti=72 Pacific/Tarawa=48 Pacific/Tongatapu=77 Pacific/Truk=40 Pacific/Wake=48 Pacific/Wallis=48 Pacific/Yap=40 Poland=7 Portugal=65 ROC=52
ROK=54 Singapore=52 Turkey=2 UCT=1 US/Alaska=10 US/Aleutian=9 US/Arizona=22 US/Central=18 US/East-Indiana=23 US/Eastern=23 US/Hawaii=72
US/Indiana-Starke=18 US/Michigan=23 US/Mountain=17 US/Pacific=25 US/Samoa=73 UTC=1 Universal=1 W-SU=2 WET=65 Zulu=1]],
  }
end
-- END GENERATED: zones

-- What can be called, and with which flags. A function that writes and is not refused while the server is over
-- maxmemory takes no more memory than it gives back.
local WRITES, GIVES_BACK, READS = {}, { 'allow-oom' }, { 'no-writes' }
local FUNCTIONS = {
  { 'cl_throttle', WRITES, COMMANDS.THROTTLE },
  { 'cl_limit', WRITES, COMMANDS.LIMIT },
  { 'cl_mlimit', WRITES, COMMANDS.MLIMIT },
  { 'cl_ban', WRITES, COMMANDS.BAN },
  { 'cl_lease', WRITES, COMMANDS.LEASE },
  { 'cl_refund', GIVES_BACK, COMMANDS.REFUND },
  { 'cl_settle', GIVES_BACK, COMMANDS.SETTLE },
  { 'cl_renew', GIVES_BACK, COMMANDS.RENEW },
  { 'cl_release', GIVES_BACK, COMMANDS.RELEASE },
  { 'cl_peek', READS, COMMANDS.PEEK },
  { 'cl_leases', READS, COMMANDS.LEASES },
  { 'cl_inspect', READS, COMMANDS.INSPECT },
  { 'cl_version', READS, answer = VERSION },
  { 'cl_wait', READS, answer = { err = 'ERR CL.WAIT needs the module: a function cannot make its caller wait' } },
  { 'cl_top', READS, answer = { err = 'ERR CL.TOP needs the module' } },
  { 'cl_denied', READS, answer = { err = 'ERR CL.DENIED needs the module' } },
}

local function run_function(f, keys, args) return f.answer or run(f[3], keys, args) end

if IS_SCRIPT then
  if not redis.REDIS_VERSION_NUM then -- nothing is charged by a server that could not finish the call
    return { err = 'ERR redis-throttle needs Redis 7.0 or Valkey 7.2, or later: this server is older' }
  end
  local name = table.remove(ARGV, 1) or ''
  for i = 1, #FUNCTIONS do
    if FUNCTIONS[i][1] == name then return run_function(FUNCTIONS[i], KEYS, ARGV) end
  end
  bind()
  return { err = "ERR unknown function '" .. shown(name) .. "'" }
end

for i = 1, #FUNCTIONS do
  local f = FUNCTIONS[i]
  local function callback(keys, args) return run_function(f, keys, args) end
  redis.register_function({ function_name = f[1], callback = callback, flags = f[2] })
end
