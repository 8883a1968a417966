-- Lazy token bucket in two keys, as API gateways have it: the tokens left, and the second
-- in which they were counted. What has flowed in since is reckoned at the next call.
-- The caller of the original names both keys; here the second is derived from the first,
-- because the load generator draws every random key name independently.
-- KEYS[1] bucket; ARGV: tokens per second, capacity, tokens wanted.
-- Returns {0 allowed or 1 limited, tokens left}.
local tokens_key = KEYS[1] .. '.tokens'
local timestamp_key = KEYS[1] .. '.timestamp'
local rate = tonumber(ARGV[1])
local capacity = tonumber(ARGV[2])
local wanted = tonumber(ARGV[3])
local ttl = math.floor(capacity / rate * 2)
local now = tonumber(redis.call('TIME')[1])

local tokens = tonumber(redis.call('GET', tokens_key)) or capacity
local counted = tonumber(redis.call('GET', timestamp_key)) or 0
tokens = math.min(capacity, tokens + math.max(0, now - counted) * rate)

local limited = 1
if tokens >= wanted then
  tokens = tokens - wanted
  limited = 0
end
redis.call('SETEX', tokens_key, ttl, tokens)
redis.call('SETEX', timestamp_key, ttl, now)
return {limited, tokens}
