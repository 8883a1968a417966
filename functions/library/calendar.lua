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
