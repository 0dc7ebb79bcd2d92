-- Shared by the scripts of the queue: hand the free lock to whoever waits first.
--
-- lock      the lock's key, which must not exist
-- queue     sorted set of waiters by arrival; a member is "channel fencing token"
-- counter   the fence counter
-- now       this server's clock, in µs
-- claim     for how long the lock is given, in ms; the new holder extends it. '0': it is not given,
--           only the waiter woken, because one server alone can't decide
-- ttl       TTL of the fence counter, in ms
-- deaf      the number of receivers that PUBLISH returns says nothing (cluster)
--
-- The message is "fence now token". Returns whether somebody has the lock now. Who does not listen on his channel is dead, or will
-- queue again with his old time of arrival, and is passed over. A waiter who listens but hangs
-- costs one claim.

local function fenced(counter, now, ttl)
  local fence = math.max((redis.call('GET', counter) or 0) + 1, now)
  redis.call('SET', counter, string.format('%.0f', fence), 'PX', ttl)
  return fence
end

local function handover(lock, queue, counter, now, claim, ttl, deaf)
  while true do
    local first = redis.call('ZRANGE', queue, 0, 0)[1]
    if not first then
      return false
    end
    local channel, fencing, token = string.match(first, '^(%S+) (%d) (.*)$')
    local fence = 0
    if fencing == '1' and claim ~= '0' then
      fence = fenced(counter, now, ttl)
    end
    local heard = redis.pcall('PUBLISH', channel, string.format('%.0f %.0f ', fence, now) .. token)
    local alive = deaf or type(heard) == 'number' and heard > 0
    if alive and claim == '0' then
      return false
    end
    redis.call('ZREM', queue, first)
    if alive then
      redis.call('SET', lock, token, 'PX', claim)
      return true
    end
  end
end
