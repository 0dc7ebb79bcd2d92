-- A writer becomes a reader; behind head.lua, holder.lua, rwmutex.lua, demoted.lua and, with a queue, fence.lua and
-- queue.lua.
--
-- Replies
--   {now, 0}  done, or done before; now is this server's clock, in µs
--   {0, i}    the lock is gone
--   {-1, i}   another holds it
--   -now      too late, nothing was done
--
-- Atomic, so that no writer comes between; and the readers that wait come in with it.

if now > tonumber(ARGV[3]) then
  return -now
end
if peek(lock, #token) == token then
  local failure = begin(token, math.max(ms, redis.call('PTTL', lock))) -- an extension may have given it more
  if failure then
    return failure
  end
  entitle()
  if queue then
    serve('')
  end
  return {now, 0}
end
local kept, which = keep(token, ms, 'r', '')
if which then
  return demoted(lock, token) or {kept, which}
end
return {now, 0}
