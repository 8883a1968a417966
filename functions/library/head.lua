#!lua name=throttle
-- redis-throttle as a function library: the limiter of the module, where no module can be loaded. It has the same
-- words, replies and errors, and keeps the same bytes in the keys, so that both can work on a key in turns.
-- docs/functions.md tells how to use it, docs/internals/state.md what a key holds, and the Go packages gcra and limiter
-- why each decision is made as it is.
--
--     FUNCTION LOAD REPLACE <this file>       then  FCALL cl_limit 1 user:42 RATE 5/s BURST 10
--     SCRIPT LOAD <it without its first line> then  EVALSHA <sha> 1 user:42 cl_limit RATE 5/s BURST 10
--
-- Change functions/library, whose files "go generate ./functions" puts together here. Each follows the Go package that
-- it names. It is a block, because Lua has room for 200 local names at a time; what others use of it is declared in
-- front of it.

-- What the language of the commands is made of, from the Go code: go generate ./functions.
-- BEGIN GENERATED: words
-- END GENERATED: words

local CLOCKS, read_clocks -- of time zones, at the end of the file

-- A library that is being loaded has no standard functions; they are bound when one of its functions first runs.
-- "unpack" is that of struct from here on.
local function unpack_table(t, from, to) return unpack(t, from, to) end
local byte, char, find, match, sub, rep, upper, lower, gsub, format, concat, floor, huge, pack, unpack, bxor, call, try

local IS_SCRIPT = not redis.register_function -- which is told the name of the function as its first argument
