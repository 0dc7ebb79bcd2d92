-- Raise the fence counters to the number that a quorum agreed on, never lower them; behind head.lua. Reply: 1
--
-- Atomic, so that two holders who write back at once leave the higher fence.

for i = locks + 1, own do
  if tonumber(redis.call('GET', KEYS[i]) or 0) < tonumber(ARGV[7]) then
    redis.call('SET', KEYS[i], ARGV[7], 'PX', ARGV[6])
  else
    redis.call('PEXPIRE', KEYS[i], ARGV[6])
  end
end
return 1
