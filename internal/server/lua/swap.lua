-- Put another token into the place of one's own: to hand a lock over to another process, and to take it over there;
-- behind head.lua, holder.lua and fence.lua.
--
-- ARGV[12]  '1': it lasts as long as the old one would have
-- ARGV[13]  and those behind it: the token that is there now is one of these
--
-- Replies
--   {1, now, fence, ms}         ms: for how long it lasts
--   {-1 or 0, now, 1, holder}   the lock has none of them
--
-- Atomic, so that only one of those who have the old token takes its place. A repeat finds the new one, which may have
-- been extended meanwhile: it never shortens that.

local holder, wrong = peek(lock, #token)
local ours = holder == token
for i = 13, #ARGV do
  ours = ours or holder == ARGV[i]
end
if not ours then
  return demoted() or {(holder or wrong) and -1 or 0, now, 1, string.sub(holder or '', 1, shown)}
end
local fence, failure = fenceOf(ARGV[7])
if not fence then
  return failure
end
local left = redis.call('PTTL', lock)
if ARGV[12] == '1' and left >= 0 then
  ms = math.max(left, 1)
elseif holder == token then
  ms = math.max(ms, left)
end
redis.call('SET', lock, token, 'PX', ms)
return {1, now, fence, ms}
