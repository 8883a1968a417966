-- Fixed window counter, the two-command classic: INCR counts the call, EXPIRE starts the
-- window with its first one. Up to twice the limit passes around a window's end.
-- KEYS[1] counter; ARGV: limit, period in seconds. Returns 0 allowed, 1 limited.
local count = redis.call('INCR', KEYS[1])
if count == 1 then
  redis.call('EXPIRE', KEYS[1], ARGV[2])
end
if count > tonumber(ARGV[1]) then
  return 1
end
return 0
