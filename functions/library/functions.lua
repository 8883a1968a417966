--------------------------------------------------------------------------------------------------------------------
-- Which function makes which call.

COMMANDS.THROTTLE.parse, COMMANDS.BAN.parse, COMMANDS.INSPECT.parse = parse_throttle, parse_ban, parse_nothing
COMMANDS.THROTTLE.shortcut_of, COMMANDS.LIMIT.shortcut_of = shortcut_of, shortcut_of
COMMANDS.REFUND.gives_back, COMMANDS.SETTLE.gives_back, COMMANDS.RENEW.gives_back = true, true, true
COMMANDS.LEASE.leases, COMMANDS.RENEW.leases, COMMANDS.RELEASE.leases, COMMANDS.LEASES.leases = true, true, true, true
COMMANDS.THROTTLE.decide, COMMANDS.LIMIT.decide, COMMANDS.MLIMIT.decide = limit, limit, limit
COMMANDS.PEEK.decide, COMMANDS.REFUND.decide, COMMANDS.BAN.decide = look, give_back, ban
COMMANDS.SETTLE.decide, COMMANDS.LEASE.decide, COMMANDS.RENEW.decide = settle_admission, lease, renew
COMMANDS.RELEASE.decide, COMMANDS.LEASES.decide, COMMANDS.INSPECT.decide = release, list_leases, inspect

local function bind()
  byte, char, find, match, sub, rep = string.byte, string.char, string.find, string.match, string.sub, string.rep
  upper, lower, gsub, format, concat = string.upper, string.lower, string.gsub, string.format, table.concat
  floor, huge, bxor = math.floor, math.huge, bit.bxor
  pack, unpack, call, try = struct.pack, struct.unpack, redis.call, redis.pcall
  LAST = wide(MAX_S, MAX_NS)
  LENGTHS = { [''] = wide(1, 0), s = wide(1, 0), ms = wide(0, 1e6), m = wide(60, 0), h = wide(3600, 0), d = wide(DAY, 0) }
  for _, command in pairs(COMMANDS) do
    command.parse = command.parse or parse
    command.remembered = {}
  end
end

-- Makes a call whose words may have been read before. It is decided in plain numbers if they do, and once more if it
-- turns out that they do not.
local function answer_call(c, keys, args, r, is_second)
  if not r then
    check_counts(c, keys, args)
    r = read_words(c, args, keys)
    local reply = r.shortcut and r.shortcut:take(keys[1])
    if reply then return reply end
  end
  for i = 2, #keys do
    for j = 1, i - 1 do
      if keys[i] == keys[j] then near(keys[i], TEXT.twoOfOneKey) end
    end
  end
  begin(is_second or r.is_long)
  local ks, ids = {}, r.id_at and { unpack_table(args, r.id_at, c.repeated and #args or r.id_at) } or {}
  for i = 1, #keys do
    local group = r.groups[i] or r.groups[1]
    if c == COMMANDS.INSPECT then ks[i] = read_any(keys[i]) or read_leases(keys[i], ids, c.groups)
    elseif c.leases or group and group.slots then ks[i] = read_leases(keys[i], ids, c.groups)
    else ks[i] = read_key(keys[i]) end
  end
  local reply = c.decide(c, this.is_wide and r or r.plain, ks, ids)
  if this.long and not this.is_wide then return nil end
  if this.beyond then raise(TOO_MANY_UNITS) end
  if this.clocks_unknown then
    local from, to = CLOCKS.years[1], CLOCKS.years[2]
    raise(format('ERR the clocks of time zones are known from %d to %d; a window beyond needs the module', from, to))
  end
  may_write(ks)
  if c.gives_back then keep_to_maxmemory(ks) end
  for _, k in ipairs(ks) do
    if k.lease or k.ended then write_leases(k) else write_string(k) end
  end
  return reply
end

local function run(c, keys, args)
  if not call then bind() end
  local place = not c.has_id and c.remembered[#keys]
  for i = 1, #args do
    if not place then break end
    place = place[args[i]]
  end
  local r = place and place[true]
  if r and r.shortcut then
    local reply = r.shortcut:take(keys[1])
    if reply then return reply end
  end
  this = {}
  local reply = caught(answer_call, c, keys, args, r)
  if this.long and not this.is_wide then return caught(answer_call, c, keys, args, r, true) end
  return reply
end

-- The clocks of the time zones from a year on and up to another: by how many minutes they are ahead of UTC, and then
-- after how many minutes they are changed, and to what. Each zone has the number of its clocks.
-- BEGIN GENERATED: zones
-- END GENERATED: zones

-- What can be called, and with which flags. A function that writes and is not refused while the server is over
-- maxmemory takes no more memory than it gives back.
local WRITES, GIVES_BACK, READS = {}, { 'allow-oom' }, { 'no-writes' }
local FUNCTIONS = {
  { 'cl_throttle', WRITES, COMMANDS.THROTTLE },
  { 'cl_limit', WRITES, COMMANDS.LIMIT },
  { 'cl_mlimit', WRITES, COMMANDS.MLIMIT },
  { 'cl_ban', WRITES, COMMANDS.BAN },
  { 'cl_lease', WRITES, COMMANDS.LEASE },
  { 'cl_refund', GIVES_BACK, COMMANDS.REFUND },
  { 'cl_settle', GIVES_BACK, COMMANDS.SETTLE },
  { 'cl_renew', GIVES_BACK, COMMANDS.RENEW },
  { 'cl_release', GIVES_BACK, COMMANDS.RELEASE },
  { 'cl_peek', READS, COMMANDS.PEEK },
  { 'cl_leases', READS, COMMANDS.LEASES },
  { 'cl_inspect', READS, COMMANDS.INSPECT },
  { 'cl_version', READS, answer = VERSION },
  { 'cl_wait', READS, answer = { err = 'ERR CL.WAIT needs the module: a function cannot make its caller wait' } },
  { 'cl_top', READS, answer = { err = 'ERR CL.TOP needs the module' } },
  { 'cl_denied', READS, answer = { err = 'ERR CL.DENIED needs the module' } },
}

local function run_function(f, keys, args) return f.answer or run(f[3], keys, args) end

if IS_SCRIPT then
  if not redis.REDIS_VERSION_NUM then -- nothing is charged by a server that could not finish the call
    return { err = 'ERR redis-throttle needs Redis 7.0 or Valkey 7.2, or later: this server is older' }
  end
  local name = table.remove(ARGV, 1) or ''
  for i = 1, #FUNCTIONS do
    if FUNCTIONS[i][1] == name then return run_function(FUNCTIONS[i], KEYS, ARGV) end
  end
  bind()
  return { err = "ERR unknown function '" .. shown(name) .. "'" }
end

for i = 1, #FUNCTIONS do
  local f = FUNCTIONS[i]
  local function callback(keys, args) return run_function(f, keys, args) end
  redis.register_function({ function_name = f[1], callback = callback, flags = f[2] })
end
