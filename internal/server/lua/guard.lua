-- Shared by the scripts that acquire: whether this server has to abstain because it lost its data.
--
-- guarded  '1': the last key marks a server that has kept its data; its value is when it was first seen, in µs
--
-- Returns nil, or the error to reply with. After the TTL of the caller's lock every lock that the server forgot has expired.

local function abstain(guarded)
  if guarded ~= '1' then
    return
  end
  local born = tonumber(redis.call('GET', KEYS[#KEYS]) or nil)
  if not born or born > now then -- or the clock was set back: it may have been wrong for as long as that says
    born = now
    redis.call('SET', KEYS[#KEYS], us(born))
  end
  local left = math.ceil((born - now) / 1000) + ms
  if left > 0 then
    return redis.error_reply('GUARD the server started without data; it votes again in ' .. left .. ' ms')
  end
end
