-- Sliding window log: a sorted set with one member for each call of the last period.
-- Exact, and as large as the limit.
-- KEYS[1] log; ARGV: limit, period in microseconds, an ID the caller makes up.
-- Returns 0 allowed, 1 limited.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local period = tonumber(ARGV[2])

redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - period)
if redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[1]) then
  return 1
end
redis.call('ZADD', KEYS[1], now, string.format('%.0f-%s', now, ARGV[3]))
redis.call('PEXPIRE', KEYS[1], math.ceil(period / 1000))
return 0
