-- Shared by the scripts of the queue: hand a lock that nobody may claim any more to whoever waits first.
--
-- lock      the lock's key
-- queue     sorted set of waiters by arrival; a member is "channel fencing claim token". The claim is
--           for how long its waiter wants to be given the lock, in ms, and then extends it. It is the
--           waiter's, because he has to know how long the lock is his. '0': he is not given the lock,
--           only woken, because one server alone can't decide
-- counter   the fence counter
-- time      this server's clock, as TIME tells it
-- ttl       TTL of the fence counter, in ms
-- deaf      the number of receivers that PUBLISH returns says nothing (cluster)
--
-- The message is "fence seconds microseconds token". Returns whether somebody has the lock now. Who does
-- not listen on his channel is dead, or will queue again with his old time of arrival, and is passed over.
-- A waiter who listens but hangs costs one claim, and no more: he is out of the queue as soon as he is
-- called.

local function micros(time)
  return time[1] * 1000000 + time[2]
end

-- The next fence, as a number and in digits.
local function fenced(counter, now, ttl)
  local fence = math.max((redis.call('GET', counter) or 0) + 1, now)
  local digits = string.format('%.0f', fence)
  redis.call('SET', counter, digits, 'PX', ttl)
  return fence, digits
end

local function handover(lock, queue, counter, time, ttl, deaf)
  while true do
    local first = redis.call('ZPOPMIN', queue)[1]
    if not first then
      return false
    end
    local channel, fencing, claim, token = string.match(first, '^(%S+) (%d) (%d+) (.+)$')
    if channel then
      local fence = '0'
      if fencing == '1' and claim ~= '0' then
        local _, digits = fenced(counter, micros(time), ttl)
        fence = digits
      end
      local message = fence .. ' ' .. time[1] .. ' ' .. time[2] .. ' ' .. token
      local heard = redis.pcall('PUBLISH', channel, message)
      if deaf or type(heard) == 'number' and heard > 0 then
        if claim == '0' then
          return false
        end
        redis.call('SET', lock, token, 'PX', claim)
        return true
      end
    end
  end
end
