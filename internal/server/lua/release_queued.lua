-- Give a lock with a queue back, or leave the queue; behind handover.lua.
--
-- KEYS[1]  the lock
-- KEYS[2]  its queue
-- KEYS[3]  its fence counter
-- ARGV[1]  the token
-- ARGV[2]  the member of the queue that stands for this waiter, or ''
-- ARGV[3]  TTL of the fence counter, in ms
-- ARGV[4]  '1' in a cluster
--
-- Replies
--   1   released, and handed to the first live waiter, if there is one
--   0   the lock was gone already
--   -1  another token holds it
--
-- Atomic, so that a waiter who leaves just when he is given the lock passes it on, and so that
-- nobody can take the lock between the release and the hand-over.

local lock, queue = KEYS[1], KEYS[2]
if ARGV[2] ~= '' then
  redis.call('ZREM', queue, ARGV[2])
end
local holder = redis.call('GET', lock)
if holder ~= ARGV[1] then
  return holder and -1 or 0
end
redis.call('DEL', lock)
local time = redis.call('TIME')
handover(lock, queue, KEYS[3], time[1] * 1000000 + time[2], ARGV[3], ARGV[4] == '1')
return 1
