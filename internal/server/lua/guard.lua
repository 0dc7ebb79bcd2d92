-- Shared by the scripts that acquire: whether this server has to abstain because it lost its data.
--
-- key  marks a server that has kept its data; its value is when it was first seen, in µs
-- now  this server's clock, in µs
-- ttl  TTL of the locks, in ms: after that, every lock that the server forgot has expired
--
-- Returns nil, or the error to reply with.

local function abstain(key, now, ttl)
  local born = redis.call('GET', key)
  if not born then
    born = string.format('%.0f', now)
    redis.call('SET', key, born)
  elseif tonumber(born) > now then -- the clock was set back: it may have been wrong for as long as the mark says
    born = string.format('%.0f', now)
    redis.call('SET', key, born)
  end
  local left = math.ceil((born - now) / 1000) + ttl
  if left > 0 then
    return redis.error_reply('GUARD the server started without data; it votes again in ' .. left .. ' ms')
  end
end
