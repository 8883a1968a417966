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
