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
