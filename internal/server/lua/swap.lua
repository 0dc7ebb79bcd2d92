-- Put another token into the place of one's own: to hand a lock over to another process, and to take it over there;
-- behind head.lua, holder.lua, demoted.lua, fence.lua and guard.lua.
--
-- ARGV[11]  '1': the last key is the server's restart guard
-- ARGV[12]  the token that is there now
--
-- Replies
--   {now, fence, left}  done; left is what the old token had left, in ms. 0: it was done before
--   {0, 1}              the lock is gone
--   {-1, 1}             another token holds it
--   -now                too late, nothing was done; now is this server's clock, in µs
--   error GUARD         this server lost its data less than one TTL ago
--
-- Atomic, so that only one of those who have the old token takes its place. A repeat finds the new one, which may have
-- been extended meanwhile: it never shortens that.

if now > tonumber(ARGV[3]) then
  return -now
end
local abstention = abstain(ARGV[11])
if abstention then
  return abstention
end
local old = ARGV[12]
local holder, wrong = peek(lock, math.max(#token, #old))
if holder ~= token and holder ~= old then
  return demoted(lock, token) or {(holder or wrong) and -1 or 0, 1}
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
return {now, fence, left}
