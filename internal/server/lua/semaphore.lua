-- A semaphore, behind head.lua and set.lua: a set of tokens by the end of their leases. Nothing is counted up and down. want
-- is the number of permits.

local keys = 0

local function look(token, want)
  local held, wrong = living(lock)
  if wrong then
    return wrong
  end
  if redis.call('ZSCORE', lock, token) then
    return token
  end
  if held >= tonumber(want) then
    local first = redis.call('ZRANGE', lock, 0, 0, 'WITHSCORES')
    return first[1], msUntil(first[2])
  end
end

local function take(token, ms)
  return put(lock, token, ms)
end

local function keep(token, ms)
  if not living(lock) then
    return -1, 1
  end
  local ends = redis.call('ZSCORE', lock, token)
  if not ends then
    return 0, 1
  end
  if tonumber(ends) < now + ms * 1000 then
    put(lock, token, ms)
  end
  return 1, true
end

local function drop(token)
  if not living(lock) then
    return -1, 1
  end
  if redis.call('ZREM', lock, token) == 0 then
    return 0, 1
  end
  if living(lock) > 0 then
    lasts(lock)
  end
  return 1
end

local show, hide, preferred, together
