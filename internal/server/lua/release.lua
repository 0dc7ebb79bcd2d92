-- Give a lock back.
--
-- KEYS[1]  the lock
-- ARGV[1]  the token
--
-- Replies
--   1   released
--   0   the lock was gone already
--   -1  another token holds it
--
-- Atomic, so that a lock which expired and was taken by another holder between the comparison and
-- the deletion is never deleted.

local holder = redis.call('GET', KEYS[1])
if holder == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return holder and -1 or 0
