-- Extend a lease; after head.lua, holder.lua and the kind. A lock that is gone is not re-created, because another may have
-- held it meanwhile. Atomic, so that the TTL of another holder's lock is never touched. The expiry is only raised, so an
-- extension that is executed late takes back nothing that a later extension gave.

local kept, which = keep(token, ms, want, mark)
if kept ~= 1 then
  return demoted() or {kept, now, which}
end
for i = locks + 1, own do
  pcall(raise, KEYS[i], ARGV[6]) -- whatever the fence is held against, it outlives the hold
end
return 1
