-- Extend a lease; behind holder.lua and demoted.lua.
--
-- KEYS[1]  the lock
-- KEYS[2]  its fence counter (only with fencing)
-- ARGV[1]  the token
-- ARGV[2]  the new TTL, in ms
-- ARGV[3]  deadline of this command, in µs on this server's clock
-- ARGV[4]  TTL of the fence counter, in ms
--
-- Replies
--   1     extended
--   0     the lock is gone; it is not re-created, because somebody may have held it meanwhile
--   -1    another token holds it
--   -now  too late, nothing was done; now is this server's clock, in µs
--   an error, such as READONLY
--
-- Atomic, so that the TTL of another holder's lock is never touched. The deadline keeps an extension
-- that was stuck from running after the release that followed it; and because the expiry is only
-- raised, it takes nothing back of what a later one gave.

local lock, token = KEYS[1], ARGV[1]
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
if now > tonumber(ARGV[3]) then
  return -now
end
local holder, wrong = peek(lock, #token)
if holder ~= token then
  local there = holder or wrong
  return demoted(lock, token, there) or there and -1 or 0
end
if KEYS[2] then
  redis.pcall('PEXPIRE', KEYS[2], ARGV[4]) -- whatever the fence is held against, it outlives the hold
end
if redis.call('PTTL', lock) < tonumber(ARGV[2]) then
  redis.call('PEXPIRE', lock, ARGV[2])
  return 1
end
return demoted(lock, token, true) or 1
