-- The generic cell rate algorithm on one key, with the arguments and the reply of
-- CL.THROTTLE: what limiter libraries ship as a script. Times are microseconds, which a
-- double holds exactly.
-- KEYS[1] theoretical arrival time; ARGV: max burst, count per period, period in seconds,
-- quantity. Returns {limited, limit, remaining, retry after, reset after}, in seconds.
local limit = tonumber(ARGV[1]) + 1
local interval = tonumber(ARGV[3]) * 1000000 / tonumber(ARGV[2])
local increment = interval * tonumber(ARGV[4])
local tolerance = interval * limit
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

local tat = math.max(now, tonumber(redis.call('GET', KEYS[1])) or now)
local new_tat = tat + increment
local room = now - (new_tat - tolerance)
if room < 0 then
  return {1, limit, math.floor((now - tat + tolerance) / interval), math.ceil(-room / 1000000),
    math.ceil((tat - now) / 1000000)}
end
redis.call('SET', KEYS[1], string.format('%.0f', new_tat), 'PX', math.ceil((new_tat - now) / 1000))
return {0, limit, math.floor(room / interval), -1, math.ceil((new_tat - now) / 1000000)}
