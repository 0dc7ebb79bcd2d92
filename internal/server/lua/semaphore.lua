-- A semaphore, behind head.lua: a sorted set of tokens by the end of their leases, in µs on this server's clock. Who
-- holds a permit is who has not expired; nothing is counted up and down. want is the number of permits.

local keys = 0

-- Forgets the permits that have expired. Returns nil, or the error.
local function expire()
  local gone = redis.pcall('ZREMRANGEBYSCORE', lock, '-inf', us(now))
  if type(gone) == 'table' then
    return gone
  end
end

local function look(token, want)
  local failed = expire()
  if failed then
    return failed
  end
  if redis.call('ZSCORE', lock, token) then
    return token
  end
  if redis.call('ZCARD', lock) >= tonumber(want) then
    local first = redis.call('ZRANGE', lock, 0, 0, 'WITHSCORES')
    return first[1], msUntil(first[2])
  end
end

local function take(token, ms)
  local written = redis.pcall('ZADD', lock, us(now + ms * 1000), token)
  if type(written) == 'table' then
    return written
  end
  lasts(lock)
end

local function keep(token, ms)
  if expire() then
    return -1, 1
  end
  local ends = redis.call('ZSCORE', lock, token)
  if not ends then
    return 0, 1
  end
  if tonumber(ends) < now + ms * 1000 then
    redis.call('ZADD', lock, us(now + ms * 1000), token)
    lasts(lock)
  end
  return 1, true
end

local function drop(token)
  if expire() then
    return -1, 1
  end
  if redis.call('ZREM', lock, token) == 0 then
    return 0, 1
  end
  if redis.call('EXISTS', lock) == 1 then
    lasts(lock)
  end
  return 1
end

local show, hide, preferred, together
