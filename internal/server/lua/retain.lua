-- Give a lock back, but leave it locked for a while.
--
-- KEYS[1]  the lock
-- ARGV[1]  the token
-- ARGV[2]  for how long, in ms
--
-- Replies
--   1   done; the lock expires by itself
--   0   the lock was gone already
--   -1  another token holds it
--
-- Atomic, so that the TTL of another holder's lock is never touched.

local holder = redis.call('GET', KEYS[1])
if holder == ARGV[1] then
  return redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return holder and -1 or 0
