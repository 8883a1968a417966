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
