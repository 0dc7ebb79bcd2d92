-- Give a lock with a queue back, or leave the queue, or both; behind holder.lua, demoted.lua, fence.lua and handover.lua.
--
-- KEYS[1]  the lock
-- KEYS[2]  its queue
-- KEYS[3]  its fence counter
-- ARGV[1]  the token
-- ARGV[2]  '0', or for how long the lock stays locked, in ms
-- ARGV[3]  TTL of the fence counter, in ms
-- ARGV[4]  the member of the queue that stands for this waiter, or ''
-- ARGV[5]  the waiter's name: a lock that was handed to it is ours too; or ''
-- ARGV[6]  '1' in a cluster
--
-- Replies
--   1   released, and handed to the first live waiter, if there is one; or left to expire
--   0   the lock was gone already
--   -1  another token holds it
--   an error, such as READONLY, where there is nothing to release, or the queue can't be left
--
-- Atomic, so that a waiter who leaves just when it is given the lock passes it on, and so that
-- nobody can take the lock between the release and the hand-over. Whatever the queue and the counter are,
-- the lock is released.

local lock, queue, counter = KEYS[1], KEYS[2], KEYS[3]
local token, member, name = ARGV[1], ARGV[4], ARGV[5]
local stays = member ~= '' and leave(queue, member)
local holder, wrong = peek(lock, math.max(#token, #name))
if not holder then
  return stays or demoted(lock, token, wrong) or wrong and -1 or 0
end
if holder ~= token and (name == '' or holder ~= name) then
  return stays or demoted(lock, token, true) or -1
end
if ARGV[2] ~= '0' then
  leave(queue, member) -- the mark, if it is alone there
  return redis.call('PEXPIRE', lock, ARGV[2])
end
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
handover(lock, queue, counter, now, ARGV[3], ARGV[6] == '1', '')
return 1
