-- Shared by the scripts that give fences; behind head.lua. A counter holds the last fence.

-- Returns a fence for the caller: 0, one above all counters, or the last; or nil and the error, if a counter is no
-- counter or there is no room for it.
--
-- A counter that expired or was lost starts from this server's clock.
local function fenceOf(wanted)
  if wanted == '0' then
    return 0
  end
  local fence, last = now, nil
  for i = locks + 1, 2 * locks do
    last = redis.pcall('GET', KEYS[i])
    if type(last) == 'table' then
      return nil, last
    end
    if last and not (tonumber(last) and tonumber(last) < 2^53 - 1) then -- above, Lua does not count
      return nil, redis.error_reply('ERR the fence counter is not a number below 2^53')
    end
    fence = math.max(fence, tonumber(last or 0) + 1)
  end
  if wanted == 'last' and last then
    redis.pcall('PEXPIRE', KEYS[locks + 1], ARGV[6])
    return tonumber(last)
  end
  for i = locks + 1, 2 * locks do
    local written = redis.pcall('SET', KEYS[i], us(fence), 'PX', ARGV[6])
    if written.err then
      return nil, written
    end
  end
  return fence
end
