-- Shared by the kinds that keep tokens or marks in a sorted set; after head.lua and holder.lua. The score is when a member
-- ends, in µs on this server's clock. Ended members do not count, and are removed when another comes or stays.

-- Runs a command that reads. If the key is of another type, it returns that error; any other error ends the script.
local function ask(...)
  local reply = redis.pcall(...)
  if type(reply) == 'table' and reply.err and not string.find(reply.err, 'WRONGTYPE', 1, true) then
    return redis.call(...)
  end
  return reply
end

-- Returns how long it is until t, in ms.
local function msUntil(t)
  return math.max(math.ceil((t - now) / 1000), 1)
end

-- Returns when the member at a place of the set ends, and its name; '-1' is the last to end. Returns nil if that has ended or
-- there is none; or nil and the error, if the key is not a set.
local function living(set, place)
  local found = ask('ZRANGE', set, place, place, 'WITHSCORES')
  local ends = tonumber(found[2])
  if ends and ends > now then
    return ends, found[1]
  end
  return nil, found.err and found
end

-- Returns when a member of the set ends; nil if it has ended or is missing; or nil and the error, if the key is not a set.
local function endOf(set, name)
  local found = ask('ZSCORE', set, name) or 0
  local ends = tonumber(found) -- an error is no number
  if not ends or ends > now then
    return ends, found
  end
end

-- Puts a name into the set for ms, or until ends if that is later. If the server refuses a command, the script ends with the
-- error. The first command that writes is one that a full server allows, and so it allows the others.
local function put(set, name, ms, ends)
  redis.call('ZREMRANGEBYSCORE', set, '-inf', us(now))
  add(set, math.max(ends or 0, now + ms * 1000), name, ms)
end

-- Makes a set, and another key if given, live as long as the last member. Returns whether any member has not ended.
local function follow(set, key)
  local ends = living(set, '-1')
  local left = ends and msUntil(ends) or 0
  expire(set, left)
  if key then
    expire(key, left)
  end
  return left > 0
end
