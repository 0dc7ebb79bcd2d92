-- Raise the fence counters to the number that a quorum agreed on, and never lower them; after head.lua, holder.lua, the kind
-- and fence.lua. Reply: 1. Atomic, so that two holders that write back at the same time leave the higher fence.

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
