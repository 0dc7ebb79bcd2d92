-- Shared by the scripts of a lock with a queue; behind head.lua, the kind and fence.lua.
-- The queue is a sorted set of waiters by arrival, in µs on this server's clock. A member is
-- "channel want fence lease name": where its process listens, what it wants and which fence, for how long it is given the
-- lock, in ms, and the token that it gets. The lease is the waiter's, because it has to know how long the lock is its
-- own before it has extended it. The channel is its mark too, where waiters show themselves.

local queue = KEYS[own + keys + 1]
local alone = {m = true, w = true} -- what is wanted by those who let no other in

-- Returns the waiter who is served next; then the error, if the queue is none; the place of the waiter in it; and how far
-- it was looked at, for the next call. No waiter is returned if it is the turn of one that polls.
--
-- all   what is in the queue, if it has been read
-- seen  how far the call before has looked; from there it goes on, as long as the same are preferred
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
    -- Those who poll are not in the queue: the first must not wait for them, and they for it.
    local channel, wants, name = string.match(first, '^(%S+) (%S+) %S+ %d+ (.+)$')
    if channel and look(name, wants, channel) then
      return
    end
  end
  return first, nil, 1, seen
end

-- Takes a waiter out. Returns nil, or why the server refuses that.
local function leave(member)
  local gone = redis.pcall('ZREM', queue, member)
  if type(gone) == 'table' and not string.find(gone.err, 'WRONGTYPE', 1, true) then
    return gone
  end
end

-- Hands the lock to those who wait, in order, as long as the kind lets them in.
--
-- mine  the member of the caller, who needs no message; or ''
--
-- Returns true when it is the turn of mine, which stays in the queue.
-- The message is "fence name". A waiter that does not listen on its channel is gone, and is passed over. A waiter that listens
-- but hangs costs one hand-off lease, and no more: it is out of the queue as soon as it is called.
-- A waiter that was not counted as a receiver must never see the message: a waiter that listens at a replica would take the
-- lock for its own while the next one is given it. So the message is not replicated; and the lock is written before it,
-- so that no caller is told what can't be kept. A message that the server refuses has told no one: the lock stays free, and
-- the waiters find it when they look. A key of another type in the place of the queue is ignored: the lock is released.
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
      -- In a cluster the number says nothing: the waiter may listen at another node. It knows that; the caller may not.
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
