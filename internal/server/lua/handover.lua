-- Shared by the scripts of the queue: hand the free lock to whoever waits first.
--
-- lock      the lock's key, which must not exist
-- queue     sorted set of waiters by arrival; a member is "channel fencing claim token". The claim is
--           for how long its waiter wants to be given the lock, in ms, and then extends it. It is the
--           waiter's, because he has to know how long the lock is his. '0': he is not given the lock,
--           only woken, because one server alone can't decide
-- counter   the fence counter
-- now       this server's clock, in µs
-- ttl       TTL of the fence counter, in ms
-- deaf      the number of receivers that PUBLISH returns says nothing (cluster)
--
-- The message is "fence now token". Returns whether somebody has the lock now. Who does not listen on
-- his channel is dead, or will queue again with his old time of arrival, and is passed over. A waiter
-- who listens but hangs costs one claim, and no more: he is out of the queue as soon as he is called.

local function fenced(counter, now, ttl)
  local fence = math.max((redis.call('GET', counter) or 0) + 1, now)
  redis.call('SET', counter, string.format('%.0f', fence), 'PX', ttl)
  return fence
end

local function handover(lock, queue, counter, now, ttl, deaf)
  while true do
    local first = redis.call('ZPOPMIN', queue)[1]
    if not first then
      return false
    end
    local channel, fencing, claim, token = string.match(first, '^(%S+) (%d) (%d+) (.+)$')
    if channel then
      local fence = 0
      if fencing == '1' and claim ~= '0' then
        fence = fenced(counter, now, ttl)
      end
      local heard = redis.pcall('PUBLISH', channel, string.format('%.0f %.0f ', fence, now) .. token)
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
