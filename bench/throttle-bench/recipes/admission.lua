-- An admission: one unit of two rates (the generic cell rate algorithm) and a slot of a semaphore, or nothing. Times
-- are microseconds, which a double holds exactly.
-- KEYS two theoretical arrival times, and a sorted set; ARGV: capacity, count per period and period in seconds of each
-- rate, slots, ms that a holder may take, and an ID the caller makes up.
-- Returns {0} for let through, or {1} for limited. A holder that comes again keeps its slot, and is charged nothing.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local now_ms = math.floor(now / 1000)
local slots, ttl, id = tonumber(ARGV[7]), tonumber(ARGV[8]), ARGV[9]
redis.call('ZREMRANGEBYSCORE', KEYS[3], '-inf', now_ms)
local held = redis.call('ZSCORE', KEYS[3], id)
if not held then
  if redis.call('ZCARD', KEYS[3]) >= slots then
    return {1}
  end
  local tats, intervals = {}, {}
  for i = 1, 2 do
    intervals[i] = tonumber(ARGV[3 * i]) * 1000000 / tonumber(ARGV[3 * i - 1])
    tats[i] = math.max(now, tonumber(redis.call('GET', KEYS[i])) or now)
    if tats[i] + intervals[i] - intervals[i] * tonumber(ARGV[3 * i - 2]) > now then
      return {1}
    end
  end
  for i = 1, 2 do
    local new_tat = tats[i] + intervals[i]
    redis.call('SET', KEYS[i], string.format('%.0f', new_tat), 'PX', math.ceil((new_tat - now) / 1000))
  end
end
redis.call('ZADD', KEYS[3], now_ms + ttl, id)
redis.call('PEXPIRE', KEYS[3], ttl)
return {0}
