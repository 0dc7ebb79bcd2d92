-- Put another token in the place of an old one, to hand a lock over or to take it over; after head, holder and fence.lua.
--
-- ARGV[12]  '1': the token lasts as long as the old one would have
-- ARGV[13]  and those after it: the old token has to be one of these
--
-- Replies
--   {1, now, fence, ms}         ms: how long the token lasts
--   {-1 or 0, now, 1, holder}   the lock has none of these tokens
--
-- Atomic, so that only one of those that have the old token takes its place. A repeat finds the new token, which may have been
-- extended meanwhile, and never shortens its TTL.

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
  ms = math.max(tonumber(ms), left)
end
redis.call('SET', lock, token, 'PX', ms)
return {1, now, fence, ms}
