-- For scripts/refused-keys: looks at some keys, from a cursor of SCAN on. Returns the next cursor, then a line for each
-- key whose value version 0.1.0 refuses: what it does not know, and the key's name. docs/internals/state.md describes
-- the bytes.

-- reason names what 0.1.0 does not know in a value; nil for values that it reads, and for values of others.
local function reason(v)
  if #v >= 9 and v:byte(1) == 2 then return "ban" end
  if #v < 2 or v:byte(1) ~= 1 then return nil end
  local at, found = 3, nil
  for _ = 1, v:byte(2) do
    if #v < at + 10 then return nil end
    local kind, calendar = v:byte(at), v:byte(at + 8) >= 128
    local length = v:byte(at + 9) + 256 * v:byte(at + 10)
    if kind == 5 then found = found or "denials" end
    if kind == 4 then found = found or "FIRST" end
    if kind == 3 and calendar then found = found or "calendar" end
    if kind == 1 and length > 16 then found = found or "lift" end
    at = at + 11 + length
  end
  if at == #v + 1 then return found end
end

local page = redis.call("SCAN", ARGV[1], "COUNT", 1000, "TYPE", "string")
local lines = {page[1]}
for _, key in ipairs(page[2]) do
  local value = redis.call("GET", key)
  local why = value and reason(value)
  if why then lines[#lines + 1] = why .. " " .. key end
end
return lines
