-- A writer becomes a reader; after head.lua, holder.lua, rwmutex.lua and, with a queue, fence.lua and queue.lua. A repeat
-- finds what was done. Atomic, so that no writer comes between, and the waiting readers enter with it.

local writes = peek(lock, #token) == token
local kept, which = keep(token, ms, 'r', mark)
if kept ~= 1 then
  return demoted() or {kept, now, which}
end
if writes then
  entitle()
  if queue then
    serve('')
  end
end
return {1, now}
