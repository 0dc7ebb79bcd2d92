-- Give a lock back.
--
-- KEYS[1]  the lock
-- ARGV[1]  the token
-- ARGV[2]  0: delete the lock; else leave it to expire after so many ms
--
-- Replies
--   1   released
--   0   the lock was gone already
--   -1  another token holds it
--
-- Atomic, so that a lock which expired and was taken by another holder between the comparison and
-- the deletion is never deleted.

local holder = redis.call('GET', KEYS[1])
if not holder then
  return 0
end
if holder ~= ARGV[1] then
  return -1
end
if ARGV[2] == '0' then
  return redis.call('DEL', KEYS[1])
end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])
