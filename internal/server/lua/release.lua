-- Release a lock, or leave the queue, or both; after head.lua, holder.lua, the kind and, with a queue, fence.lua and
-- queue.lua. The lock goes to the waiters for which there is room. If one of several locks is gone, the others are released.
--
-- ARGV[2]  '0', or how long the lock stays locked, in ms
--
-- Atomic, for three reasons. A lock that expired and was taken by another holder between the comparison and the deletion is
-- never deleted, nor its TTL touched. A waiter that leaves just when it is given the lock passes the lock on. And no caller
-- can take the lock between the release and the hand-off.

local stays = member ~= '' and leave(member)
local dropped, which = drop(token, ms, mark)
if hide and mark ~= '' and dropped ~= 1 then -- one that was in has been hidden by its take
  hide(mark, want)
end
if queue and ms == '0' and (dropped == 1 and not which or mark ~= '') then -- which: others are in, so no waiter can enter
  serve('')
end
if dropped ~= 1 then
  return stays or demoted() or {dropped, now, which}
end
return 1
