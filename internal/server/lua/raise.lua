-- Raise fence counters, never lower them.
--
-- KEYS     the counters
-- ARGV[1]  the fence that a quorum agreed on
-- ARGV[2]  TTL of the counters, in ms
--
-- Reply: 1
--
-- Atomic, so that two holders who write back at once leave the higher fence.

for _, counter in ipairs(KEYS) do
  if tonumber(redis.call('GET', counter) or 0) < tonumber(ARGV[1]) then
    redis.call('SET', counter, ARGV[1], 'PX', ARGV[2])
  else
    redis.call('PEXPIRE', counter, ARGV[2])
  end
end
return 1
