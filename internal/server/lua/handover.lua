-- Shared by the scripts of the queue; behind fence.lua.
--
-- The queue is a sorted set of waiters by arrival, in µs on this server's clock. A member is "channel fencing
-- lease name": where its process listens, whether it wants a fence (1 or 0), for how long it is given the lock, in ms,
-- and the value that the lock gets. The lease is the waiter's, because it has to know how long the lock is
-- its own before it has extended it.
--
-- The last member is a mark: its score tells when a waiter last looked at the queue.

local mark, marked = '*', 4e15 -- what is added to the time, so that the mark sorts behind all waiters

-- Returns the first waiter, or nil.
local function firstOf(queue)
  local first = redis.call('ZRANGE', queue, 0, 0)[1]
  if first ~= mark then
    return first
  end
end

-- Takes a waiter out. A mark that is left alone goes with it. Returns nil, or why the server refuses that.
local function leave(queue, member)
  local gone = redis.pcall('ZREM', queue, member)
  if type(gone) == 'table' and not string.find(gone.err, 'WRONGTYPE', 1, true) then
    return gone
  end
  local left = redis.pcall('ZRANGE', queue, 0, 0)
  if left[1] == mark then
    redis.pcall('DEL', queue)
  end
end

-- Hands a lock that nobody may claim any more to the waiter who came first and listens.
--
-- lock, queue, counter  the keys
-- now              this server's clock, in µs
-- ttl              TTL of the fence counter, in ms
-- ignoreReceivers  the number of receivers that PUBLISH returns says nothing (cluster)
-- own              the member of the caller, who needs no message; or ''
--
-- Returns the name of who has it, or own. Else nil, and the lock is deleted: nobody waits, or it can't be given.
--
-- The message is "fence name". Whoever does not listen on its channel is gone, and is passed over. A waiter
-- that listens but hangs costs one hand-off lease, and no more: it is out of the queue as soon as it is called.
--
-- Whoever was not counted as a receiver must never see the message: a waiter that listens at a replica would
-- take the lock for its own while the next one is given it. So the message is not replicated; and the lock
-- is written before it, so that nobody is told what can't be kept.
local function handover(lock, queue, counter, now, ttl, ignoreReceivers, own)
  while true do
    local popped = redis.pcall('ZPOPMIN', queue)
    local first = popped[1]
    if first == own then
      return own
    end
    if not first or first == mark then
      break
    end
    local channel, fencing, lease, name = string.match(first, '^(%S+) (%d+) (%d+) (.+)$')
    if channel then
      local fence = 0
      if fencing ~= '0' then
        fence = newFence(counter, now, ttl)
      end
      if not fence or redis.pcall('SET', lock, name, 'PX', lease).err then
        break
      end
      redis.set_repl(redis.REPL_NONE)
      local heard = redis.pcall('PUBLISH', channel, string.format('%.0f', fence) .. ' ' .. name)
      redis.set_repl(redis.REPL_ALL)
      if type(heard) == 'table' then -- refused: it was not told, keeps its place, and finds the lock free when it looks
        redis.pcall('ZADD', queue, popped[2], first)
        break
      end
      if ignoreReceivers or heard > 0 then
        return name
      end
    end
  end
  redis.call('DEL', lock)
end
