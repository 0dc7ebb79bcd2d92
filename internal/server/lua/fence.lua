-- Shared by the scripts that give fences.

-- Returns a new fence; or nil and the error, if the counter is no counter or there is no room for it.
--
-- counter  the fence counter; it holds the last fence
-- now      this server's clock, in µs: what a counter starts from that expired or was lost
-- ttl      TTL of the counter, in ms
local function newFence(counter, now, ttl)
  local last = redis.pcall('GET', counter)
  if type(last) == 'table' then
    return nil, last
  end
  last = tonumber(last or 0)
  if not last then
    return nil, redis.error_reply('ERR the fence counter is not a number')
  end
  local fence = math.max(last + 1, now)
  local written = redis.pcall('SET', counter, string.format('%.0f', fence), 'PX', ttl)
  if written.err then
    return nil, written
  end
  return fence
end
