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
