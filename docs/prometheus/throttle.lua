-- For redis_exporter's -script: every number of INFO throttle as redis_script_values{key="..."}.
local result = {}
for name, value in redis.call("INFO", "throttle"):gmatch("throttle_([%l_]+):(%d+)\r\n") do
  result[#result + 1] = name
  result[#result + 1] = value
end
return result
