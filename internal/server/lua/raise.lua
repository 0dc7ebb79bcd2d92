-- Raise a fence counter, never lower it.
--
-- KEYS[1]  the fence counter
-- ARGV[1]  the fence that a quorum agreed on
-- ARGV[2]  TTL of the counter, in ms
--
-- Reply: 1
--
-- Atomic, so that two holders who write back at once leave the higher fence.

if tonumber(redis.call('GET', KEYS[1]) or 0) < tonumber(ARGV[1]) then
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
else
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return 1
