-- A semaphore; after head.lua, holder.lua and set.lua. It is a set of tokens by the end of their leases: nothing is counted up
-- and down. want is the number of permits.

-- Returns an error if the set is not ours, else nil. Our sets expire and hold tokens. put would remove members of another set.
local function foreign()
  local first = redis.call('ZRANGE', lock, '0', '0')[1]
  if first and not string.find(first, '^%x+%-%x+%-%x+%-%x+%-%x+') or redis.call('PTTL', lock) == -1 then
    return redis.error_reply('WRONGTYPE the sorted set holds something else, so it is no semaphore')
  end
end

local function look(token, want)
  -- All permits are in use if the want-th token from the end, by expiry, has not ended.
  local ends, first = living(lock, '-' .. want)
  if first and not ends then
    return first
  end
  if endOf(lock, token) then
    return token
  end
  if ends then
    return foreign() or first, msUntil(ends)
  end
end

local function take(token, ms)
  return foreign() or put(lock, token, ms)
end

local function keep(token, ms)
  local ends, wrong = endOf(lock, token)
  if not ends then
    return wrong and -1 or 0, 1
  end
  put(lock, token, ms, ends)
  return 1
end

local function drop(token)
  local ends, wrong = endOf(lock, token)
  if not ends then
    return wrong and -1 or 0, 1
  end
  redis.call('ZREM', lock, token)
  follow(lock)
  return 1
end
