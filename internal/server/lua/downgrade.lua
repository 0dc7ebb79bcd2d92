-- A writer becomes a reader; behind head.lua, holder.lua, rwmutex.lua and, with a queue, fence.lua and queue.lua. A repeat
-- finds what was done.
--
-- Atomic, so that no writer comes between; and the readers that wait come in with it.

if peek(lock, #token) == token then
  begin(token, math.max(ms, redis.call('PTTL', lock))) -- an extension may have given it more
  entitle()
  if queue then
    serve('')
  end
  return {1, now}
end
local kept, which = keep(token, ms, 'r', '')
if kept ~= 1 then
  return demoted() or {kept, now, which}
end
return {1, now}
