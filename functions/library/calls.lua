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
