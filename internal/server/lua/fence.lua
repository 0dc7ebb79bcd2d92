-- Shared by the scripts that give fences, or take some back.

-- Reserves n fences. Returns the first; or nil and the error, if the counter is no counter or there is no room for it.
--
-- counter  the fence counter; it holds the last fence that was reserved
-- now      this server's clock, in µs: what a counter starts from that expired or was lost
-- ttl      TTL of the counter, in ms
local function reserve(counter, n, now, ttl)
  local last = redis.pcall('GET', counter)
  if type(last) == 'table' then
    return nil, last
  end
  last = tonumber(last or 0)
  if not last then
    return nil, redis.error_reply('ERR the fence counter is not a number')
  end
  local first = math.max(last + 1, now)
  local written = redis.pcall('SET', counter, string.format('%.0f', first + n - 1), 'PX', ttl)
  if written.err then
    return nil, written
  end
  return first
end

-- Gives the fences after used back, if nobody has reserved others since. The caller holds the lock.
local function giveBack(counter, reserved, used, ttl)
  if redis.pcall('GET', counter) == reserved then
    redis.pcall('SET', counter, used, 'PX', ttl)
  end
end
