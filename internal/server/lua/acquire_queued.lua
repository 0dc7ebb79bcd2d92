-- One try for a lock with a queue; behind guard.lua and handover.lua.
--
-- KEYS[1]  the lock
-- KEYS[2]  its queue
-- KEYS[3]  its fence counter
-- KEYS[4]  the server's restart guard (only with a guard)
-- ARGV[1]  the token
-- ARGV[2]  TTL of the lock, in ms
-- ARGV[3]  deadline of this try, in µs on this server's clock
-- ARGV[4]  TTL of the fence counter, in ms
-- ARGV[5]  the member of the queue that stands for this waiter; '' for a try that does not wait
-- ARGV[6]  when the waiter first arrived, in µs on this server's clock; '0': now
-- ARGV[7]  '0': who finds the lock free takes it, because one server alone can't keep an order
-- ARGV[8]  TTL of the queue, in ms
-- ARGV[9]  '1' in a cluster
-- ARGV[10] '1' with fencing
--
-- Replies
--   {now, fence}                  granted; fence is 0 without fencing
--   {holder, ms, now, waiting}    held, for ms more; so many wait
--   -now                          too late, nothing was done
--
-- Atomic, so that a lock that becomes free is never taken past somebody who waits for it. Whoever
-- comes by and finds it free hands it to the first waiter, so that no hand-over depends on the
-- one before.

local time = redis.call('TIME')
local now = micros(time)
if now > tonumber(ARGV[3]) then
  return -now
end
local lock, queue, counter, member = KEYS[1], KEYS[2], KEYS[3], ARGV[5]
local deaf = ARGV[9] == '1'

if KEYS[4] then
  local abstention = abstain(KEYS[4], now, ARGV[2])
  if abstention then
    return abstention
  end
end

local function granted()
  local fence = 0
  if ARGV[10] == '1' then
    fence = fenced(counter, now, ARGV[4])
  end
  redis.call('SET', lock, ARGV[1], 'PX', ARGV[2])
  return {now, fence}
end

local holder = redis.call('GET', lock)
if holder == ARGV[1] then
  return granted() -- it was handed to us, and the message was lost
end
if not holder and (ARGV[7] == '0' or redis.call('EXISTS', queue) == 0) then
  if member ~= '' then
    redis.call('ZREM', queue, member)
  end
  return granted()
end
if member ~= '' then
  local arrived = tonumber(ARGV[6])
  if arrived == 0 or arrived > now then
    arrived = now -- who came before the clock was set back is not put behind all who come after it
  end
  redis.call('ZADD', queue, string.format('%.0f', arrived), member)
  redis.call('PEXPIRE', queue, ARGV[8])
end
if not holder then
  if member ~= '' and redis.call('ZRANGE', queue, 0, 0)[1] == member then
    redis.call('ZREM', queue, member)
    return granted()
  end
  -- Others came first. Those who are gone are passed over, until it may be our turn after all.
  if not handover(lock, queue, counter, time, ARGV[4], deaf) then
    return granted()
  end
  holder = redis.call('GET', lock)
  if holder == ARGV[1] then
    return granted()
  end
end
return {holder, redis.call('PTTL', lock), now, redis.call('ZCARD', queue)}
