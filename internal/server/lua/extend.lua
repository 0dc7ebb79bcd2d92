-- Extend a lease.
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
--
-- Atomic, so that the TTL of another holder's lock is never touched. The deadline keeps a renewal
-- that was stuck from running after the release that followed it.

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
if now > tonumber(ARGV[3]) then
  return -now
end
local holder = redis.call('GET', KEYS[1])
if not holder then
  return 0
end
if holder ~= ARGV[1] then
  return -1
end
if KEYS[2] then
  redis.call('PEXPIRE', KEYS[2], ARGV[4]) -- whatever the fence is held against, it outlives the hold
end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])
