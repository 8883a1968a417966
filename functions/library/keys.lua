--------------------------------------------------------------------------------------------------------------------
-- Keys: what they hold, bans included, and what becomes of them. Nothing is written before a call is decided.

local TOO_MANY_UNITS = 'ERR the value at this key holds a number of units above 9007199254740991, which needs the module'
local raise -- ends a call with an error

local slack_of, moved_expiry, write_until
local look_up, may_write, keep_to_maxmemory, read_any, read_key, open, is_banned, rest_of_ban, put, put_ban, ban_end, store, store_behind, write_string

do
  local MOST_SLACK = 3600

  -- How many seconds longer a key may stay than its limits need, so that calls that follow leave its expiry as it is.
  function slack_of(second, now_s) return least(floor((second - now_s) / 4), MOST_SLACK) end

  -- When a key expires from now on that has to stay until a second; nil for when it does. One that is there may stay
  -- longer.
  function moved_expiry(name, value, second, slack)
    if not value or slack == 0 then return second end
    local at = call('PEXPIRETIME', name)
    if at >= second * 1000 and at <= (second + slack) * 1000 then return nil end
    return second + slack
  end

  -- Writes a value that expires in a second, or when the key does.
  function write_until(name, value, second)
    if second then call('SET', name, value, 'PXAT', format('%d000', second)) -- the server writes a number more slowly
    else call('SET', name, value, 'KEEPTTL') end
  end

  -- What a command answers about a key. A right that lacks is told by the name of the command: it is no wrong type.
  function look_up(command, name)
    local answer = try(command, name)
    if type(answer) ~= 'table' or not answer.err then return answer end
    if sub(answer.err, 1, 9) == 'WRONGTYPE' then raise(TEXT.wrongType) end
    raise(find(answer.err, lower(command), 1, true) and answer.err or answer.err .. ' (' .. lower(command) .. ')')
  end


  -- Refuses a call that writes more than one thing, before the first one, if its user lacks the right for a later one.
  function may_write(ks)
    local may = redis.acl_check_cmd
    if not may or #ks == 1 and not (ks[1].lease or ks[1].ended) then return end
    local function needs(command, ...)
      if not may(command, ...) then
        raise("ERR ACL failure in script: the user has no permissions to run the '" .. lower(command) .. "' command")
      end
    end
    for _, k in ipairs(ks) do
      if k.lease then
        needs('ZADD', k.name, 0, '')
        needs('PEXPIREAT', k.name, 0)
      end
      if k.ended or k.lease and #k.lowest > 0 then needs('ZREM', k.name, '') end
      if k.ended then
        needs('PEXPIREAT', k.name, 0)
        needs('DEL', k.name)
      end
      if k.gone then needs('DEL', k.name) end
      if k.new and k.value then needs('PEXPIRETIME', k.name) end
      if k.new then needs('SET', k.name, '') end
    end
  end

  local OVER_MAXMEMORY = "OOM command not allowed when used memory > 'maxmemory'."

  local function may_run(...) return not redis.acl_check_cmd or redis.acl_check_cmd(...) end

  local function is_over_maxmemory()
    local info = may_run('INFO', 'memory') and try('INFO', 'memory')
    if type(info) ~= 'string' then return false end
    local most_bytes = tonumber(match(info, '\nmaxmemory:(%d+)'))
    return most_bytes > 0 and tonumber(match(info, '\nused_memory:(%d+)')) > most_bytes
  end

  -- A call that gives back or keeps something is made over maxmemory, too, unless it makes a value longer. A function
  -- with the flag allow-oom is not refused anything, so it has to ask. A script is refused a write, unless it has
  -- written before: this one changes nothing.
  function keep_to_maxmemory(ks)
    local written
    for _, k in ipairs(ks) do
      if k.new and #k.new > #(k.value or '') then
        if not IS_SCRIPT and is_over_maxmemory() then raise(OVER_MAXMEMORY) end
        return
      end
      if k.new or k.lease then written = k.name end
    end
    if IS_SCRIPT and written and may_run('PEXPIREAT', written, 0, 'GT') then call('PEXPIREAT', written, 0, 'GT') end
  end

  -- A key that may hold anything: nil if that is no string.
  function read_any(name)
    local answer = try('GET', name)
    local is_error = type(answer) == 'table' and answer.err
    if is_error and sub(answer.err, 1, 9) == 'WRONGTYPE' then return nil end
    return read_key(name, not is_error and answer)
  end

  -- A key that holds a string or nothing. What is known of its value is not asked for again.
  function read_key(name, known)
    local value = known or look_up('GET', name)
    local k = { name = name, value = value, state = value }
    if value and #value >= 9 and byte(value) == 2 then
      local ban = read_wide(value, 2)
      if ban <= LAST and ban.s + ban.ns > 0 then k.ban, k.state = ban, sub(value, 10) end
    end
    return k
  end

  -- The limits of a call with their states at a key.
  function open(k, limits)
    local s = stack_of(limits)
    if k.value and not (k.ban and k.state == '') and not decode(s, k.state) then raise(TEXT.wrongValue) end
    if this.beyond then raise(TOO_MANY_UNITS) end
    return s
  end

  function is_banned(k) return k.ban and k.ban > this.now end

  function rest_of_ban(k) return from_wide(k.ban - this.now) end

  function ban_end(duration) return wide(instant(duration)) end -- a time of the call

  function put(k, value, second, no_earlier) k.new, k.second, k.no_earlier, k.slack = value, second, no_earlier, 0 end

  local function ban_bytes(at) return char(2) .. wide_bytes(at) end

  -- Bans a key until an instant, and leaves the rest as it is.
  function put_ban(k, at)
    put(k, ban_bytes(at) .. (k.value and k.state or ''), seconds_up(at.s, at.ns), true)
    k.ban = at
  end

  -- Writes a ban and the state of a stack, or the ban alone if all limits are full.
  function store_behind(k, at, s)
    local second, keeps_calendar = expiry(s)
    local value = ban_bytes(at)
    if second or keeps_calendar then value = value .. encode(s) end
    put(k, value, most(second or 0, seconds_up(at.s, at.ns)), keeps_calendar)
  end

  -- Writes a stack, or removes the key if all its limits are full.
  function store(k, s)
    if is_banned(k) then return store_behind(k, k.ban, s) end
    local second, keeps_calendar = expiry(s)
    if second or keeps_calendar then
      put(k, encode(s), second or seconds_up(instant(this.one)), keeps_calendar)
      k.slack = slack_of(k.second, this.s)
    else
      k.gone = k.value and true
    end
  end

  -- Makes what was decided for a key true.
  function write_string(k)
    if k.gone then
      call('DEL', k.name)
    elseif k.new then
      local second = k.second
      if second and k.no_earlier and k.value then
        local at = call('PEXPIRETIME', k.name)
        if at == -1 or at >= second * 1000 then second = nil end
      elseif second then
        second = moved_expiry(k.name, k.value, second, k.slack)
      end
      write_until(k.name, k.new, second)
    end
  end
end
