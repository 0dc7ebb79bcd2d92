-- Shared by the scripts of a lock with a queue; after head.lua, the kind and fence.lua.
-- The queue is a sorted set of waiters by arrival, in µs on this server's clock. A member is "channel want fence lease name":
-- where its process listens, what it wants, which fence it gets, how long a hand-off lasts in ms, and its token. The waiter
-- chooses the lease, because it has to know how long the lock is its own before it has extended the lock. If the waiters of
-- the kind show themselves, the channel is also the mark.

local queue = KEYS[own + keys + 1]
local alone = {m = true, w = true} -- what is wanted by those who let no other in

-- Returns the waiter that is served next; the error, if the key is not a queue; the place of the waiter in the queue; and how
-- far this call has looked, for the next call. It returns no waiter if it is the turn of one that polls.
--
-- all   the members of the queue, if they have been read
-- seen  how far the call before has looked; this call goes on there, if the same waiters are preferred
local function head(all, seen)
  local waiters = all or redis.pcall('ZRANGE', queue, '0', preferred and '-1' or '0')
  if waiters.err then
    return nil, waiters
  end
  local first = waiters[1]
  if first and preferred then
    local comesFirst, whom = preferred()
    seen = seen and seen.whom == whom and seen or {whom = whom, place = 1}
    for place = seen.place, #waiters do
      local channel, wants = string.match(waiters[place], '^(%S+) (%S+)')
      if channel and comesFirst(wants, channel) then
        seen.place = place
        return waiters[place], nil, place, seen
      end
    end
    seen.place = #waiters -- all were looked at; the caller takes out the first
    -- Waiters that poll are not in the queue. The first must not wait for them while they wait for it.
    local channel, wants, name = string.match(first, '^(%S+) (%S+) %S+ %d+ (.+)$')
    if channel and look(name, wants, channel) then
      return
    end
  end
  return first, nil, 1, seen
end

-- Removes a waiter from the queue. Returns nil, or the error if the server refuses.
local function leave(member)
  local gone = redis.pcall('ZREM', queue, member)
  if type(gone) == 'table' and not string.find(gone.err, 'WRONGTYPE', 1, true) then
    return gone
  end
end

-- Hands the lock to the waiters, in order, as long as the kind lets them in.
--
-- mine  the member of the caller, which needs no message; or ''
--
-- Returns true when it is the turn of mine, which stays in the queue.
-- The message is "fence name". A waiter that does not listen on its channel is gone, and is passed over. A waiter that listens
-- but hangs costs one hand-off lease, and no more: it is removed from the queue when it is called. A waiter that was not
-- counted as a receiver must never see the message. A waiter that listens at a replica would believe that it has the lock,
-- while the lock goes to the next waiter. So the message is not replicated. The lock is written before the message, so that no
-- waiter is told of a lock that could not be written. If the server refuses the message, no waiter has got it: the lock stays
-- free, and the waiters find it when they look. If the key is not a queue, it is ignored: the lock is released.
local function serve(mine)
  local all = preferred and redis.pcall('ZRANGE', queue, '0', '-1')
  local ok, first, _, place, seen
  while true do
    ok, first, _, place, seen = pcall(head, all, seen)
    if not ok or not first then
      return false
    end
    local channel, wants, fenced, lease, name = string.match(first, '^(%S+) (%S+) (%S+) (%d+) (.+)$')
    local fits = channel and not tonumber(wants) == not tonumber(want) -- a number is of permits
    local held = fits and look(name, wants, channel)
    if not fits or type(held) == 'table' then -- it wants a lock of another kind, and goes
      channel = nil
    elseif held then
      return false
    end
    if first == mine then
      return true
    end
    if type(redis.pcall('ZREM', queue, first)) == 'table' then
      return false
    end
    if all then
      table.remove(all, place)
    end
    if channel then
      local fence = fenceOf(fenced)
      if not fence or take(name, lease, wants, channel) then
        return false
      end
      redis.set_repl(redis.REPL_NONE)
      local heard = redis.pcall('PUBLISH', channel, us(fence) .. ' ' .. name)
      redis.set_repl(redis.REPL_ALL)
      -- In a cluster the number says nothing: the waiter may listen elsewhere. The caller may not know; the channel tells.
      local elsewhere = ARGV[10] == '1' or string.find(channel, '^redimutex:cluster:')
      local refused, gone = type(heard) == 'table', heard == 0 and not elsewhere
      if refused or gone then
        drop(name, 0, '')
      end
      if refused or alone[wants] and not gone then
        return false
      end
    end
  end
end
