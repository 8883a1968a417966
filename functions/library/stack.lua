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
