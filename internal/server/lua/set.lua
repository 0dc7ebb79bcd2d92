-- Shared by the kinds that keep tokens or marks in a sorted set by their ends, in µs on this server's clock: who is in is
-- who has not ended. Behind head.lua.

-- Returns how long it is until t, in ms.
local function msUntil(t)
  return math.max(math.ceil((t - now) / 1000), 1)
end

-- Forgets those that have ended. Returns how many are left; or nil and the error.
local function living(set)
  local gone = redis.pcall('ZREMRANGEBYSCORE', set, '-inf', us(now))
  if type(gone) == 'table' then
    return nil, gone
  end
  return redis.call('ZCARD', set)
end

-- Has a set that is not empty live as long as the last of it. Returns how long that is, in ms.
local function lasts(set)
  local left = msUntil(redis.call('ZRANGE', set, -1, -1, 'WITHSCORES')[2])
  redis.call('PEXPIRE', set, left)
  return left
end

-- Has one be in the set for ms. Returns nil, or the error.
local function put(set, name, ms)
  local written = redis.pcall('ZADD', set, us(now + ms * 1000), name)
  if type(written) == 'table' then
    return written
  end
  lasts(set)
end
