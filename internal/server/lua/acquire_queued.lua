-- One try for a lock with a queue; behind holder.lua, demoted.lua, fence.lua, guard.lua and handover.lua.
--
-- KEYS[1]  the lock
-- KEYS[2]  its queue
-- KEYS[3]  its fence counter
-- KEYS[4]  the server's restart guard (only with a guard)
-- ARGV[1]  the token
-- ARGV[2]  TTL of the lock, in ms
-- ARGV[3]  deadline of this try, in µs on this server's clock
-- ARGV[4]  '1' with fencing, else '0'
-- ARGV[5]  TTL of the fence counter, in ms
-- ARGV[6]  the member of the queue that stands for this waiter; '' for a try that does not wait
-- ARGV[7]  the waiter's name; ''
-- ARGV[8]  when the waiter first arrived, in µs on this server's clock; '0': now
-- ARGV[9]  '1': a waiter who is missing in the queue goes back to its place
-- ARGV[10] TTL of the queue, in ms
-- ARGV[11] '1' in a cluster
--
-- Replies
--   {now, fence}              granted; fence is 0 without fencing
--   {holder, ms, now, gap}    held, for ms more; gap µs ago a waiter looked at the queue (0: nobody has)
--   0                         the waiter was called and let its hand-off lapse, or was passed over; nothing was done
--   -now                      too late, nothing was done
--
-- Atomic, so that a lock that becomes free is never taken past somebody who waits for it. Whoever
-- comes by and finds it free hands it to the first waiter, so that no hand-over depends on the
-- one before.

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
if now > tonumber(ARGV[3]) then
  return -now
end
local lock, queue, counter = KEYS[1], KEYS[2], KEYS[3]
local token, member, name = ARGV[1], ARGV[6], ARGV[7]

if KEYS[4] then
  local abstention = abstain(KEYS[4], now, ARGV[2])
  if abstention then
    return abstention
  end
end

local function granted()
  local fence, failure = 0, nil
  if ARGV[4] ~= '0' then
    fence, failure = newFence(counter, now, ARGV[5])
    if not fence then
      return failure
    end
  end
  redis.call('SET', lock, token, 'PX', ARGV[2])
  if member ~= '' then
    leave(queue, member)
  end
  return {now, fence}
end

local holder, wrong = peek(lock, math.max(#token, #name))
if wrong then
  return wrong
end
if holder and (holder == token or holder == name) then
  return granted() -- it was handed to us, and the message was lost
end
if not holder and not firstOf(queue) then
  return granted()
end

local gap = 0
if member ~= '' then
  local arrived = tonumber(redis.call('ZSCORE', queue, member) or nil)
  if not arrived then
    arrived = tonumber(ARGV[8])
    if arrived == 0 then
      arrived = now
    elseif ARGV[9] ~= '1' then
      return 0
    end
    redis.call('ZADD', queue, string.format('%.0f', math.min(arrived, now)), member)
  elseif arrived > now then
    -- Whoever came before the clock was set back is not put behind all who come after it.
    redis.call('ZADD', queue, string.format('%.0f', now), member)
  end
  local looked = redis.call('ZSCORE', queue, mark)
  if looked then
    gap = math.max(now - (tonumber(looked) - marked), 1)
  end
  redis.call('ZADD', queue, string.format('%.0f', now + marked), mark)
  redis.call('PEXPIRE', queue, ARGV[10])
elseif holder then
  local refused = demoted(lock, token, true)
  if refused then
    return refused
  end
end
if not holder then
  -- Those in front who are gone are passed over, until it may be our turn after all.
  holder = handover(lock, queue, counter, now, ARGV[5], ARGV[11] == '1', member)
  if not holder or holder == member then
    return granted()
  end
end
return {string.sub(holder, 1, shown), redis.call('PTTL', lock), now, gap}
