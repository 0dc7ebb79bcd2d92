-- Shared by the kinds that keep tokens or marks in a sorted set by their ends, in µs on this server's clock: who is in is
-- who has not ended. Those that have ended are forgotten when another comes or stays. Behind head.lua and holder.lua.

-- Runs a command that reads. That the key is of another type is returned as the error; any other error ends the script.
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

-- Returns when the one at a place of the set ends, and its name: '-1' is the last to end. Nil if it has ended, or is none;
-- or nil and the error, if the set is none.
local function living(set, place)
  local found = ask('ZRANGE', set, place, place, 'WITHSCORES')
  local ends = tonumber(found[2])
  if ends and ends > now then
    return ends, found[1]
  end
  return nil, found.err and found
end

-- Returns when a name in the set ends; nil if it has ended, or is not there; or nil and the error, if the set is none.
local function endOf(set, name)
  local found = ask('ZSCORE', set, name) or 0
  local ends = tonumber(found) -- an error is no number
  if not ends or ends > now then
    return ends, found
  end
end

-- Has a name be in the set for ms, or until then if that is later. What the server refuses is an error of the script. The
-- first command of those that write is one that a full server allows, and so it allows the others.
local function put(set, name, ms, ends)
  redis.call('ZREMRANGEBYSCORE', set, '-inf', us(now))
  add(set, math.max(ends or 0, now + ms * 1000), name, ms)
end

-- Has a set, and another key if there is one, live as long as the last of the set. Returns whether one is in.
local function follow(set, key)
  local ends = living(set, '-1')
  local left = ends and msUntil(ends) or 0
  expire(set, left)
  if key then
    expire(key, left)
  end
  return left > 0
end
