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
