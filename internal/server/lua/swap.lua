-- Put another token into the place of one's own: to hand a lock over to another process, and to take it over there;
-- behind head.lua, holder.lua and fence.lua.
--
-- ARGV[12]  the token that is there now
--
-- Replies
--   {1, now, fence, left}       left is what the old token had left, in ms. 0: it was done before
--   {-1 or 0, now, 1, holder}   the lock has neither
--
-- Atomic, so that only one of those who have the old token takes its place. A repeat finds the new one, which may have
-- been extended meanwhile: it never shortens that.

local old = ARGV[12]
local holder, wrong = peek(lock, math.max(#token, #old))
if holder ~= token and holder ~= old then
  return demoted() or {(holder or wrong) and -1 or 0, now, 1, string.sub(holder or '', 1, shown)}
end
local fence, failure = fenceOf(ARGV[7])
if not fence then
  return failure
end
local left = redis.call('PTTL', lock)
if holder == token then
  ms, left = math.max(ms, left), 0
end
redis.call('SET', lock, token, 'PX', ms)
return {1, now, fence, left}
