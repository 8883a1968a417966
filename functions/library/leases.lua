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
