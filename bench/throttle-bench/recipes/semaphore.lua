-- The usual semaphore: a sorted set of holders by the instant in ms at which they time out.
-- KEYS[1] sorted set; ARGV: slots, ms that a holder may take, an ID the caller makes up, and how
-- many hold one when the key is new, which no semaphore takes: it is here for the benchmark.
-- Returns 0 taken, or 1 limited.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
if redis.call('EXISTS', KEYS[1]) == 0 then
  local members = {}
  for i = 0, ARGV[4] - 1 do
    members[#members + 1] = now + ARGV[2] + i
    members[#members + 1] = string.format('held%08d', i)
    if #members == 200 or i == ARGV[4] - 1 then
      redis.call('ZADD', KEYS[1], unpack(members))
      members = {}
    end
  end
end
if not redis.call('ZSCORE', KEYS[1], ARGV[3]) and redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[1]) then
  return {1}
end
redis.call('ZADD', KEYS[1], now + ARGV[2], ARGV[3])
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return {0}
