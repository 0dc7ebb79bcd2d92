-- Give a lock back; behind simple.lua, holder.lua, demoted.lua and fence.lua.
--
-- KEYS[1]  the lock
-- KEYS[2]  its fence counter (only if fences are given back)
-- ARGV[1]  the token
-- ARGV[2]  '0', or for how long the lock stays locked, in ms
-- ARGV[3]  the last fence that was reserved
-- ARGV[4]  the last fence that was used
-- ARGV[5]  TTL of the fence counter, in ms
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
if KEYS[2] then
  giveBack(KEYS[2], ARGV[3], ARGV[4], ARGV[5])
end
if ARGV[2] ~= '0' then
  return redis.call('PEXPIRE', lock, ARGV[2])
end
return redis.call('DEL', lock)
