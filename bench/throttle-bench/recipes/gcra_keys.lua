-- The generic cell rate algorithm on several keys: one unit of each or of none. Times are
-- microseconds, which a double holds exactly.
-- KEYS theoretical arrival times; ARGV for each: capacity, count per period, period in seconds.
-- Returns {limited, key, limit, remaining, retry after, reset after} of the key that decides,
-- times in ms.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local tats, intervals, limits = {}, {}, {}
local longest, slowest, fewest, tightest = 0, 0, math.huge, 0
for i, key in ipairs(KEYS) do
  limits[i] = tonumber(ARGV[3 * i - 2])
  intervals[i] = tonumber(ARGV[3 * i]) * 1000000 / tonumber(ARGV[3 * i - 1])
  tats[i] = math.max(now, tonumber(redis.call('GET', key)) or now)
  local wait = tats[i] + intervals[i] - intervals[i] * limits[i] - now
  local left = math.floor(-wait / intervals[i])
  if wait > longest then longest, slowest = wait, i end
  if left < fewest then fewest, tightest = left, i end
end
if slowest > 0 then
  local i = slowest
  return {1, i, limits[i], 0, math.ceil(longest / 1000), math.ceil((tats[i] - now) / 1000)}
end
for i, key in ipairs(KEYS) do
  local new_tat = tats[i] + intervals[i]
  redis.call('SET', key, string.format('%.0f', new_tat), 'PX', math.ceil((new_tat - now) / 1000))
end
local i = tightest
return {0, i, limits[i], fewest, -1, math.ceil((tats[i] + intervals[i] - now) / 1000)}
