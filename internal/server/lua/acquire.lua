-- One try for a lock; after head.lua, holder.lua, the kind, fence.lua and, with a queue, queue.lua.
--
-- ARGV[8], ARGV[9]  '' for a try that does not wait
-- ARGV[12]  how long the mark of the caller lasts, in ms
-- ARGV[13]  when the waiter first arrived, in µs on this server's clock; '0': now
-- ARGV[14]  '1': a waiter that is missing in the queue goes back to its place
-- ARGV[15]  TTL of the queue, in ms; '0': the caller can't be woken just now, and does not queue
-- ARGV[16]  and those after it: further tokens, which enter together with the first
--
-- Replies
--   {1, now, fence}             granted; fence is 0 without fencing
--   {2, now, left, n, i, holder}  lock i is held for left ms more (-1: it has no TTL); n wait in the queue, if the caller does
--   {3, now}                    the waiter was called and let its hand-off lapse, or was passed over; nothing was done
--
-- Atomic, so that nothing comes between looking at the lock and taking it, and a lock that becomes free is never taken past a
-- waiter. A caller that finds the lock free serves the first waiter, so that no hand-off depends on the hand-off before.

if queue and not redis.set_repl then -- see serve
  return redis.error_reply('ERR this server has no redis.set_repl')
end
local place = member
if ARGV[15] == '0' then
  member = ''
end

local function granted(ours)
  local fence, failure = fenceOf(ARGV[7] or '0')
  if not fence then
    return failure
  end
  if ours then -- only raised, so that a try which is executed late takes nothing back
    keep(token, ms, want, mark)
  else
    failure = take(token, ms, want, mark)
  end
  if failure then
    return failure
  end
  for i = 16, #ARGV do
    together(ARGV[i], ms)
  end
  if place ~= '' then
    leave(place)
  end
  if queue and not alone[want] then -- there may be room for more
    serve('')
  end
  return {1, now, fence}
end

local holder, left, which = look(token, want, mark)
if type(holder) == 'table' then
  return holder
end
if holder == token then
  return granted(true) -- the reply was lost; or it was handed to us, and the message was lost
end
if not holder then
  local first, wrong
  if queue and not together then
    first, wrong = head()
  end
  if wrong or not first then
    return wrong or granted()
  end
end

local waiting = member ~= '' and redis.call('ZCARD', queue) or 0 -- a user who may not is refused before it is in the queue
if member ~= '' then
  local arrived = tonumber(redis.call('ZSCORE', queue, member) or nil)
  if not arrived then
    redis.call('ZREM', queue, member) -- so is a user who may not leave: others would find the lock free behind it, and wait
    arrived = tonumber(ARGV[13])
    if arrived == 0 then
      arrived = now
    elseif ARGV[14] ~= '1' then
      return {3, now}
    end
    add(queue, math.min(arrived, now), member, ARGV[15])
    waiting = waiting + 1
  elseif arrived > now then
    -- A waiter that came before the clock was set back must not stand behind all that come after it.
    add(queue, now, member, ARGV[15])
  else
    redis.call('PEXPIRE', queue, ARGV[15])
  end
end
if show and mark ~= '' then
  show(mark, ARGV[12], want, holder)
elseif member == '' and holder then
  local refused = demoted()
  if refused then
    return refused
  end
end
-- If only a mark is in the way, it may be that of a waiter in the queue that was not called.
if not holder or queue and preferred and redis.call('PTTL', lock) == -2 then
  -- Waiters in front of us that are gone are passed over: then it may be our turn after all.
  if serve(member) then
    return granted()
  end
  holder, left, which = look(token, want, mark)
  if type(holder) == 'table' then
    return holder
  end
  if not holder and not head() then
    return granted()
  end
end
return {2, now, left or 0, waiting, which or 1, string.sub(holder or '', 1, shown)}
