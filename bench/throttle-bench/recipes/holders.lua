-- Not a limiter: fills a key with leases for those that are measured, as CL.LEASE keeps them.
-- KEYS[1] sorted set; ARGV: how many.
local expires = 4102444800000
local members = {}
for i = 0, ARGV[1] - 1 do
  members[#members + 1] = expires + i
  members[#members + 1] = string.format('held%08d', i)
  if #members == 200 or i == ARGV[1] - 1 then
    redis.call('ZADD', KEYS[1], unpack(members))
    members = {}
  end
end
redis.call('PEXPIREAT', KEYS[1], expires + ARGV[1])
return redis.status_reply('OK')
