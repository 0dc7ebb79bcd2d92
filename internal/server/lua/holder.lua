-- Shared by the scripts that look at a lock; after head.lua.

local shown = 320 -- bytes of a holder that a reply tells

-- Returns the value of a lock, or its beginning; nil if the key is missing; or nil and the error if the key is not a string.
-- n is how many bytes matter: those of the token, or those that a reply tells of another holder. A value may be anything, even
-- 200 MB. So only one byte more is read than matter, to tell a longer value. A user without GETRANGE reads the whole value.
local function peek(key, n)
  local value = redis.pcall('GETRANGE', key, '0', n > shown and n or '320') -- Redis takes longer to write a number
  if type(value) == 'table' then
    if string.find(value.err, 'WRONGTYPE', 1, true) then
      return nil, value
    end
    value = redis.call('GET', key)
    return value and string.sub(value, 1, math.max(n, shown) + 1) or nil
  end
  if value == '' and redis.call('PTTL', key) == -2 then
    return nil
  end
  return value
end

-- Makes a key live for ms at least. It always writes: WAIT counts the replicas that have the last write of a connection, so
-- without a write it would confirm an expiry that no replica has. Returns the TTL before; less than 0 if the key is missing.
local function raise(key, ms)
  local left = redis.call('PTTL', key)
  redis.call('PEXPIRE', key, left < tonumber(ms) and ms or left)
  return left
end

-- Adds a member to a sorted set, which then lives for ms at least. A user who may not set a TTL is refused before the set
-- exists: a set without a TTL would never go away.
local function add(set, score, member, ms)
  local left = raise(set, ms)
  redis.call('ZADD', set, us(score), member)
  if left < 0 then
    redis.call('PEXPIRE', set, ms)
  end
end

-- Makes a key expire in ms; 0: now.
local function expire(key, ms)
  if tonumber(ms) > 0 then
    redis.call('PEXPIRE', key, ms)
  else
    redis.call('DEL', key)
  end
end

-- Returns the error READONLY, or nil; for scripts that may answer without having written anything. A server that has just
-- become a replica, and is not in step yet, answers from old data. So the script tries a write that changes nothing. Another
-- reason to refuse that write does not matter. The script has to ask whether the lock exists: it may be another holder's.
local function demoted()
  local written
  if redis.call('PTTL', lock) == -2 then
    written = redis.pcall('DEL', lock)
  else
    written = redis.pcall('SET', lock, token, 'NX', 'PX', 1)
  end
  if type(written) == 'table' and written.err and string.find(written.err, 'READONLY', 1, true) then
    return written
  end
end
