-- Raise the fence counters to the number that a quorum agreed on, never lower them; behind head.lua, holder.lua, the kind
-- and fence.lua. Reply: 1. Atomic, so that two holders who write back at once leave the higher fence.

for i = locks + 1, own do
  if tonumber(redis.call('GET', KEYS[i]) or 0) < tonumber(ARGV[7]) then
    local written = count(KEYS[i], tonumber(ARGV[7]))
    if written.err then
      return written
    end
  else
    raise(KEYS[i], ARGV[6])
  end
end
return 1
