-- Readers and writers, phase-fair; after head.lua, holder.lua and set.lua. want is 'r' or 'w'. A waiter of the queue may want
-- 'm': a plain Mutex enters alone, as a writer does. The lock holds the token of a writer. While readers have it, it holds '*'
-- until the last of their leases ends. So a client that takes the key for a plain Mutex is kept out, and keeps out both sides.
--
-- readers   the tokens of the readers by the end of their leases. It counts only while the lock is '*'.
-- writers   the marks of waiting writers, by their end: while there is one, new readers wait
-- waiting   the marks of waiting readers
-- entitled  the marks of readers that have waited for a writer: while there is one, writers wait
--
-- A writer that takes the lock makes all waiting readers entitled. All times are in µs on this server's clock. A plain Mutex
-- hands the lock on without knowing any of this. Then the lock may hold the token of a reader too, and the mark of the new
-- holder, reader or writer, still exists. keep and drop put both right.

local readers, writers, waiting, entitled = KEYS[own + 1], KEYS[own + 2], KEYS[own + 3], KEYS[own + 4]
local keys = 4

-- Returns who has the lock: '*', a token, or nil; or nil and the error. With '*' the third value is the reader that ends last.
local function current(n)
  local holder, wrong = peek(lock, n)
  if holder ~= '*' then
    return holder, wrong
  end
  local ends, last = living(readers, '-1')
  if ends then
    return holder, nil, last
  end
  if not last then
    redis.call('DEL', lock)
  end
  return nil, last
end

-- Lets a reader in for ms, as the first of its phase.
local function begin(token, ms)
  redis.call('DEL', readers)
  put(readers, token, ms)
  redis.call('SET', lock, '*', 'PX', ms)
end

-- Lets a reader in beside others for ms, or until ends if that is later.
local function read(token, ms, ends)
  put(readers, token, ms, ends)
  raise(lock, ms)
end

-- Returns when the last mark of the set ends, or nil.
local function any(set)
  local ends = tonumber(redis.call('ZRANGE', set, '-1', '-1', 'WITHSCORES')[2])
  return ends and ends > now and ends
end

-- Makes all waiting readers entitled.
local function entitle()
  if any(waiting) then
    raise(entitled, 0) -- see add
    redis.call('ZUNIONSTORE', entitled, '2', entitled, waiting, 'AGGREGATE', 'MAX')
    follow(entitled)
    redis.call('DEL', waiting)
  end
end

local function look(token, want, mark)
  local holder, wrong = current(#token)
  if wrong then
    return wrong
  end
  if holder == token or holder == '*' and endOf(readers, token) then
    return token
  end
  if holder and (want ~= 'r' or holder ~= '*') then
    return holder, redis.call('PTTL', lock)
  end
  local ends = any(want == 'r' and writers or entitled)
  if ends and not (want == 'r' and endOf(entitled, mark)) then
    return '*', msUntil(ends)
  end
end

-- Undoes show. A process has the same mark on both sides, so only the mark on the side of want is removed.
local function hide(mark, want)
  if want == 'r' then
    redis.call('ZREM', waiting, mark)
    redis.call('ZREM', entitled, mark)
  else
    redis.call('ZREM', writers, mark)
  end
end

local function take(token, ms, want, mark)
  hide(mark, want)
  if want ~= 'r' then
    redis.call('DEL', readers)
    entitle()
    local written = redis.pcall('SET', lock, token, 'PX', ms) -- last: a user who may not do all of this gets no lock
    return written.err and written or nil
  end
  local enter = peek(lock, 1) == '*' and read or begin
  enter(token, ms)
end

-- Removes the mark of a caller that a plain Mutex has let in. A writer ends a phase, as in take.
local function entered(mark)
  if mark ~= '' then
    hide(mark, want)
    if want == 'w' then
      entitle()
    end
  end
end

-- Here want is the argument, and not what the caller wants: a writer that is downgraded stays as a reader.
local function keep(token, ms, want, mark)
  local holder, wrong = current(#token)
  if holder == token then
    entered(mark)
    if want == 'r' then
      begin(token, math.max(tonumber(ms), redis.call('PTTL', lock)))
    else
      raise(lock, ms)
    end
    return 1
  end
  local ends = holder == '*' and endOf(readers, token)
  if not ends then
    return (wrong or holder and (holder ~= '*' or want == 'w')) and -1 or 0, 1
  end
  read(token, ms, ends)
  return 1
end

local function drop(token, ms, mark)
  local holder, wrong, last = current(#token)
  if holder == token then
    expire(lock, ms) -- first: nothing in the keys beside the lock keeps it from being released
    entered(mark)
    return 1
  end
  if holder == '*' and endOf(readers, token) then
    redis.call('ZREM', readers, token)
    return 1, token ~= last or follow(readers, lock)
  end
  return (wrong or holder and (holder ~= '*' or want == 'w')) and -1 or 0, 1
end

-- Shows that a caller waits, so that the others let it have its turn.
local function show(mark, ms, want, holder)
  if want == 'w' then
    put(writers, mark, ms)
  elseif holder and holder ~= '*' or endOf(entitled, mark) then
    redis.call('ZREM', waiting, mark)
    put(entitled, mark, ms)
  else
    put(waiting, mark, ms)
  end
end

-- A reader that may enter does so, whatever the queue: the waiters that it must not overtake have marks. Another token enters
-- with it for the same time, so the set and the lock live long enough for both.
local together = want == 'r' and function(other, ms)
  redis.call('ZADD', readers, us(now + ms * 1000), other)
end

-- Returns a function that says which waiters of the queue are served before all others, and a name for them. Whatever the
-- order of arrival, a waiter must not have to wait for one behind it: readers wait for the mark of a writer, and writers for
-- entitled readers. A writer without a mark is gone.
local function preferred()
  local side, set = 'r', any(entitled) and entitled
  if not set and any(writers) then
    side, set = 'w', writers
  end
  return function(wants, channel)
    return wants == side and (not set or endOf(set, channel))
  end, side .. (set or '')
end
