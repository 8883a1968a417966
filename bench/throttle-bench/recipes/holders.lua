-- Not a limiter: fills a key with leases for those that are measured, as CL.LEASE keeps them.
-- KEYS[1] sorted set; ARGV: how many.
local expires = 4102444800000
for i = 0, ARGV[1] - 1 do
  redis.call('ZADD', KEYS[1], expires + i, string.format('held%08d', i))
end
redis.call('PEXPIREAT', KEYS[1], expires + ARGV[1])
return redis.status_reply('OK')
