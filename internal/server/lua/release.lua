-- Give a lock back; behind simple.lua, holder.lua and demoted.lua.
--
-- KEYS[1]  the lock
-- ARGV[1]  the token
-- ARGV[2]  '0', or for how long the lock stays locked, in ms
--
-- Replies
--   1   released, or left to expire
--   0   the lock was gone already
--   -1  another token holds it
--   an error, such as READONLY
--
-- Atomic, so that a lock which expired and was taken by another holder between the comparison and
-- the deletion is never deleted, nor its TTL touched.

local lock, token = KEYS[1], ARGV[1]
local holder, wrong = peek(lock, #token)
if holder ~= token then
  local there = holder or wrong
  return demoted(lock, token, there) or there and -1 or 0
end
if ARGV[2] ~= '0' then
  return redis.call('PEXPIRE', lock, ARGV[2])
end
return redis.call('DEL', lock)
