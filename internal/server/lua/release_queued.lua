-- Give a lock with a queue back, or leave the queue; behind handover.lua.
--
-- KEYS[1]  the lock
-- KEYS[2]  its queue
-- KEYS[3]  its fence counter
-- ARGV[1]  the token
-- ARGV[2]  the member of the queue that stands for this waiter, or ''
-- ARGV[3]  TTL of the fence counter, in ms
-- ARGV[4]  '1' in a cluster
-- ARGV[5]  the member of one who is to wait from now on, or ''
--
-- Replies
--   1   released, and handed to the first live waiter, if there is one
--   µs  the same on this server's clock, and the new one waits or has been handed the lock
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
local time = redis.call('TIME')
local reply = 1
if ARGV[5] ~= '' then
  -- A queue that is there has a TTL, and one that this makes is gone when the only one in it is called.
  -- A server that is full has no room for him, and the lock is released all the same.
  local now = micros(time)
  if type(redis.pcall('ZADD', queue, string.format('%.0f', now), ARGV[5])) == 'number' then
    reply = now
  end
end
if not handover(lock, queue, KEYS[3], time, ARGV[3], ARGV[4] == '1') then
  redis.call('DEL', lock)
end
return reply
