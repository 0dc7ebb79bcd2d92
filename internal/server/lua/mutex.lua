-- A Mutex; after head.lua and holder.lua. Each of its locks holds the token.

local function look(token)
  local ours = 0
  for i = 1, locks do
    local left = redis.call('PTTL', KEYS[i])
    if left ~= -2 then
      local holder, wrong = peek(KEYS[i], #token)
      if wrong then
        return wrong
      end
      if holder ~= token then
        return holder, left, i
      end
      ours = ours + 1
    end
  end
  if ours == locks then
    return token
  end
end

local function take(token, ms)
  for i = 1, locks do
    local written = redis.pcall('SET', KEYS[i], token, 'PX', ms)
    if written.err then -- the first key: what refuses one SET of a script refuses all
      return written
    end
  end
end

local function keep(token, ms)
  for i = 1, locks do
    local holder, wrong = peek(KEYS[i], #token)
    if holder ~= token then
      return (holder or wrong) and -1 or 0, i
    end
  end
  for i = 1, locks do
    raise(KEYS[i], ms)
  end
  return 1
end

local function drop(token, ms)
  local dropped, which = 1, nil
  for i = 1, locks do
    local holder, wrong = peek(KEYS[i], #token)
    if holder == token then
      expire(KEYS[i], ms)
    elseif dropped == 1 then
      dropped, which = (holder or wrong) and -1 or 0, i
    end
  end
  return dropped, which
end
