-- One try for a lock; behind holder.lua, fence.lua and guard.lua.
--
-- KEYS[1]  the lock
-- KEYS[2]  its fence counter           (only with fencing)
-- KEYS[#]  the server's restart guard  (only with a guard, always last)
-- ARGV[1]  the token
-- ARGV[2]  TTL of the lock, in ms
-- ARGV[3]  deadline of this try, in µs on this server's clock
-- ARGV[4]  how many fences to reserve; '0' without fencing
-- ARGV[5]  TTL of the fence counter, in ms
-- ARGV[6]  '1' with a guard
--
-- Replies
--   now             granted; now is this server's clock, in µs
--   {now, fence}    granted, with fencing: the first of the reserved fences
--   {holder, ms}    held by another token for ms more (-1: it has no TTL)
--   -now            too late, nothing was done
--   error GUARD     this server lost its data less than one TTL ago
--
-- Atomic, so that nothing comes between looking at the lock and taking it, and the deadline is
-- compared on the same clock and at the same moment as the lock is taken: a try that the server
-- executes after its caller gave up takes nothing. The lock is written first, so that a server that has
-- become a replica says so, whatever it knows of the lock.

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
if now > tonumber(ARGV[3]) then
  return -now
end

if ARGV[6] == '1' then
  local abstention = abstain(KEYS[#KEYS], now, ARGV[2])
  if abstention then
    return abstention
  end
end

local written = redis.pcall('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2])
if not written or written.err and not string.find(written.err, 'READONLY', 1, true) then
  local holder, wrong = peek(KEYS[1], #ARGV[1])
  if holder ~= ARGV[1] then
    if holder then -- a server that is full, for one, refuses the SET whoever holds the lock
      return {string.sub(holder, 1, shown), redis.call('PTTL', KEYS[1])}
    end
    return wrong or written
  end
  -- The try is a repeated one, and its connection broke before the reply.
  written = redis.pcall('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
  if written.err then
    redis.pcall('DEL', KEYS[1])
  end
end
if written.err then
  return written
end
if ARGV[4] == '0' then
  return now
end
local fence, failure = reserve(KEYS[2], ARGV[4], now, ARGV[5])
if not fence then
  redis.pcall('DEL', KEYS[1])
  return failure
end
return {now, fence}
