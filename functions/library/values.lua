--------------------------------------------------------------------------------------------------------------------
-- Values of words: package words. A call that cannot be read raises its error.

local LENGTHS -- of the units of time
local MALFORMED, NO_UNIT = {}, {} -- what a value is that is not of the right form, and one that lacks a unit
local ABOVE_EXACT = 'numbers above 9007199254740991 need the module'
local LARGEST = '9223372036854775807'
local caught, shown, near, refuse, list_of, finder, append, integer, length_of_time, duration, takes, shift, read_value, is_id

do
  -- pcall of the server makes a string of a table with a field "err".
  function raise(text) error({ refusal = text }) end

  function refuse(text) raise('ERR ' .. text) end

  -- What f returns, or the error that it raised.
  function caught(f, ...)
    local ok, result = pcall(f, ...)
    if ok then return result end
    if type(result) == 'table' then return { err = result.refusal } end
    -- The server's own error, such as READONLY or OOM. Its code has to stay first, which error() does not keep.
    return { err = match(result, '^%u+ ') and result or 'ERR ' .. result }
  end

  function shown(word)
    local text = sub(word, 1, 40)
    if #word > 40 then text = text .. '...' end
    return (gsub(text, '[^ -~]', '?'))
  end

  function near(word, text) refuse("syntax error near '" .. shown(word) .. "': " .. text) end

  function list_of(names) -- "A, B or C"
    if #names < 2 then return names[1] or '' end
    return concat(names, ', ', 1, #names - 1) .. ' or ' .. names[#names]
  end

  function finder(names, text)
    text = upper(text)
    for _, name in ipairs(names) do
      if name == text then return name end
    end
  end

  function append(names, others)
    for _, name in ipairs(others) do names[#names + 1] = name end
  end

  -- An integer of 64 bits as the server's own commands read it; nil of anything else. Above 2^53 it is rounded.
  function integer(text)
    if #text > 20 then return nil end
    local sign, digits = match(text, '^(%-?)(%d+)$')
    if not digits or #digits > 1 and byte(digits) == 48 or sign == '-' and digits == '0' then return nil end
    if #digits > 19 or #digits == 19 and digits > LARGEST then return nil end
    return tonumber(text)
  end

  -- A number that is not negative; otherwise nil and what is wrong with it.
  local function natural(text, too_large)
    local n = integer(text)
    if n and n >= 0 then return n end
    return nil, #text >= 19 and find(text, '^[1-9]%d*$') and too_large or MALFORMED
  end

  -- Reads whole.fraction units of time.
  local function decimal(digits, fraction, unit)
    if not find(digits, '^%d+$') or not find(fraction, '^%d+$') then return MALFORMED end
    local whole_units, problem = natural(digits, TEXT.tooLong)
    if problem then return problem end
    fraction = gsub(fraction, '0+$', '')
    if #fraction > 16 then return TEXT.tooFine end
    -- The greatest divisor that 10^n and the unit have in common.
    local scale, a, b = 10 ^ #fraction, 10 ^ #fraction, approximately(unit)
    while b > 0 do a, b = b, a % b end
    if wide(0, 1) * a * whole_units >= wide(18446744073, 709551616) then return TEXT.tooLong end
    fraction = rep('0', 18 - #fraction) .. fraction
    local parts, rest = divide(wide(tonumber(sub(fraction, 1, 9)), tonumber(sub(fraction, 10))), wide(0, 1) * (scale / a))
    if rest.s + rest.ns > 0 then return TEXT.tooFine end
    return nil, unit * whole_units + wide(0, 1) * (approximately(unit) / a) * parts
  end

  -- Reads a length of time: what is wrong with it, the time as a wide number, and whether it is in whole days. A unit
  -- alone is one of it if that is allowed. A bare number is one of seconds, and NO_UNIT.
  function length_of_time(text, bare)
    if #text > 64 then return MALFORMED end
    local digits, name = match(text, '^(.-)(%l*)$')
    local unit, is_days = LENGTHS[name], name == 'd'
    if not unit then return MALFORMED end
    if digits == '' and name ~= '' and bare then return nil, unit, is_days end
    local point, problem, ns = find(digits, '.', 1, true), nil, nil
    if point then
      problem, ns = decimal(sub(digits, 1, point - 1), sub(digits, point + 1), unit)
      is_days = is_days and find(digits, '%.0+$') ~= nil
    else
      local n
      n, problem = natural(digits, TEXT.tooLong)
      ns = n and unit * n
    end
    if not problem and name == '' and ns.s + ns.ns > 0 then problem = NO_UNIT end
    return problem, ns, is_days
  end

  -- Reads a length of time of at most 100 years.
  function duration(text)
    local problem, ns = length_of_time(text, true)
    if problem == TEXT.tooLong or ns and ns > wide(36500 * DAY, 0) then return MALFORMED end
    return problem, ns
  end

  -- Divides count/period: what is wrong with it, the count, and the period.
  local function divide_quota(text)
    local slash = find(sub(text, 1, 64), '/', 1, true)
    if not slash then return MALFORMED end
    local count, problem = natural(sub(text, 1, slash - 1), TEXT.tooMany)
    return problem, count, sub(text, slash + 1)
  end

  -- Reads count/period: what is wrong with it, and what a limit is that it says.
  local function quota(text)
    local problem, count, period = divide_quota(text)
    if problem then return problem end
    local length, is_days
    problem, length, is_days = length_of_time(period, true)
    if not problem and length.s + length.ns == 0 then problem = TEXT.noPeriod end
    return problem, { count = count, length = length, is_days = is_days }
  end

  -- Also in whole weeks, months or years.
  local function calendar_quota(text)
    local problem, limit = quota(text)
    if problem ~= MALFORMED then return problem, limit end
    local count, period
    problem, count, period = divide_quota(text)
    if problem or #period > 64 then return MALFORMED end
    local digits, unit = match(period, '^(.-)(%l*)$')
    if unit == 'd' or not UNITS[unit] then return MALFORMED end
    local n = 1
    if digits ~= '' then n, problem = natural(digits, TEXT.tooLong) end
    if n == 0 then problem = TEXT.noPeriod end
    return problem, { count = count, n = n, unit = unit }
  end

  local function denials(text)
    local problem, said = quota(text)
    if problem then return problem end
    if said.count == 0 then return MALFORMED end
    if said.length > LAST then return TEXT.tooLong end
    if said.count > EXACT then return ABOVE_EXACT end
    return nil, limit_of({ kind = 5, count = said.count, period = said.length, head = char(5) .. wide_bytes(said.length) })
  end

  local function integer_from(least_number)
    return function(text)
      local n = integer(text)
      if not n or n < least_number then return MALFORMED end
      return n > EXACT and ABOVE_EXACT or nil, n
    end
  end

  local function duration_from(least_ns)
    return function(text)
      local problem, ns = duration(text)
      if ns and (not problem or problem == NO_UNIT) and ns.s == 0 and ns.ns < least_ns then return MALFORMED end
      return problem, ns
    end
  end

  function is_id(text) return #text > 0 and #text <= 512 end

  -- Whether a command takes a word anywhere, those aside that only one kind of limit has.
  function takes(c, text)
    if c.slots and upper(text) == 'SLOTS' then return true end
    return (finder(c.kinds, text) or finder(c.options, text) or finder(c.terms, text)) ~= nil
  end

  -- How the values of words are read: each returns what is wrong, and what the value says.
  local VALUES = {
    units = integer_from(0),
    slots = integer_from(0),
    rows = integer_from(1),
    capacity = integer_from(1),
    duration = duration_from(0),
    offset = duration_from(0),
    ttl = duration_from(1e6),
    quota = quota,
    denials = denials,
    calendar_quota = calendar_quota,
    id = function(text) return not is_id(text) and MALFORMED or nil, text end,
    zone = function(text, c)
      if text == 'UTC' then return nil end
      if #text > 64 then return MALFORMED end
      local zone = zone_of(text)
      if zone then return nil, zone end
      local meant = not takes(c, text) and similar_zone(text)
      return meant and TEXT.noZone .. meant .. '?' or MALFORMED
    end,
  }

  -- Refuses the value of a word.
  local function misread(p, w, text, problem)
    if problem == NO_UNIT then
      local number = sub(text, (find(text, '/', 1, true) or 0) + 1)
      if #number > 40 then near(text, 'a length of time' .. TEXT.noUnit .. '500ms or 30s') end
      near(text, number .. TEXT.noUnit .. number .. 'ms or ' .. number .. 's')
    end
    if problem ~= MALFORMED then near(text, problem) end
    if not w.is_name and find(text, ' ', 1, true) then near(text, TEXT.severalInOne) end
    local is_right_in_lower_case = w.has_unit and #text <= 64 and not VALUES[w.value](lower(text), p.command)
    near(text, is_right_in_lower_case and TEXT.unitsAreLower or w.name .. ' ' .. w.right)
  end

  function shift(p)
    p.next = p.next + 1
    return p.args[p.next - 1]
  end

  -- Reads the value of a word: what it says, and the text that says so. A word without one says true.
  function read_value(p, name, text)
    local w = WORDS[name]
    if not w.value then return true, text end
    if p.next > #p.args then near(text, w.name .. ' ' .. w.right) end
    local said = shift(p)
    local problem, value = VALUES[w.value](said, p.command)
    if problem then misread(p, w, said, problem) end
    return value, said
  end
end
