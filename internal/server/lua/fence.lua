-- Shared by the scripts that write fences; after head.lua and holder.lua. A counter holds the last fence.

-- Writes a fence to a counter. The TTL begins when this server's clock has reached the fence: if the counter expired earlier,
-- the next fence would be lower. So all other code only raises that TTL.
local function count(counter, fence)
  local lead = math.ceil((fence - now) / 1000)
  return redis.pcall('SET', counter, us(fence), 'PX', lead > 0 and us(ARGV[6] + lead) or ARGV[6])
end

-- Returns a fence for the caller: 0, one above all counters, or the last; or nil and the error, if a key is not a counter or
-- the server has no room for it. A counter that expired or was lost starts from this server's clock.
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
    pcall(raise, KEYS[locks + 1], ARGV[6])
    return tonumber(last)
  end
  for i = locks + 1, 2 * locks do
    local written = count(KEYS[i], fence)
    if written.err then
      return nil, written
    end
  end
  return fence
end
