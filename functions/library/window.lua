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
