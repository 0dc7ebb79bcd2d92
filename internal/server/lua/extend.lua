-- Extend a lease; behind head.lua, holder.lua, the kind and demoted.lua.
--
-- Replies
--   1        extended
--   {0, i}   lock i is gone; it is not re-created, because another may have held it meanwhile
--   {-1, i}  another holds lock i
--   -now     too late, nothing was done; now is this server's clock, in µs
--   an error, such as READONLY
--
-- Atomic, so that the TTL of another holder's lock is never touched. The deadline keeps an extension that was stuck from
-- running after the release that followed it; and because the expiry is only raised, it takes nothing back of what a
-- later one gave.

if now > tonumber(ARGV[3]) then
  return -now
end
local kept, which = keep(token, ms, want, mark)
if which then
  return demoted(lock, token) or {kept, which}
end
for i = locks + 1, own do
  redis.pcall('PEXPIRE', KEYS[i], ARGV[5]) -- whatever the fence is held against, it outlives the hold
end
return kept
