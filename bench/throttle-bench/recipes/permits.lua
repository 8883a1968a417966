-- Permit bucket with a sorted set of grants, as Redisson's RRateLimiter keeps it: a hash
-- with the rate, a value with the permits left, and one member for each grant. A grant
-- gives its permits back when it is an interval old. The original takes the client's clock and
-- all three keys from the caller; here the server's clock and one key, since the load
-- generator sends constants and draws every random key name independently.
-- KEYS[1] hash with rate and interval in ms; ARGV: permits wanted, an ID the caller makes up.
-- Returns 0 allowed, or 1 limited and the milliseconds to wait.
local value_key = '{' .. KEYS[1] .. '}:value'
local permits_key = '{' .. KEYS[1] .. '}:permits'
local config = redis.call('HMGET', KEYS[1], 'rate', 'interval')
if not config[1] or not config[2] then
  return redis.error_reply('ERR the rate of this limiter is not set')
end
local rate = tonumber(config[1])
local interval = tonumber(config[2])
local wanted = tonumber(ARGV[1])
if wanted > rate then
  return redis.error_reply('ERR more permits wanted than the rate ever grants')
end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local left = tonumber(redis.call('GET', value_key))
if left then
  local returned = 0
  for _, grant in ipairs(redis.call('ZRANGEBYSCORE', permits_key, 0, now - interval)) do
    local _, permits = struct.unpack('Bc0I', grant)
    returned = returned + permits
  end
  if returned > 0 then
    redis.call('ZREMRANGEBYSCORE', permits_key, 0, now - interval)
    left = math.min(left + returned, rate)
    redis.call('SET', value_key, left)
  end
else
  left = rate
  redis.call('SET', value_key, left)
end

local answer = {0}
if left < wanted then
  local oldest = redis.call('ZRANGE', permits_key, 0, 0, 'WITHSCORES')
  answer = {1, 3 + interval - (now - tonumber(oldest[2]))}
else
  local id = time[2] .. ARGV[2]
  redis.call('ZADD', permits_key, now, struct.pack('Bc0I', string.len(id), id, wanted))
  redis.call('DECRBY', value_key, wanted)
end
local ttl = redis.call('PTTL', KEYS[1])
if ttl > 0 then
  redis.call('PEXPIRE', value_key, ttl)
  redis.call('PEXPIRE', permits_key, ttl)
end
return answer
