-- The beginning of all scripts of a lock: what they have in common.
--
-- KEYS  the locks; their fence counters, if ARGV[6] is not '0'; the keys of the kind; the queue; the restart guard.
--       Only rwmutex.lua has keys of its own. All scripts of a lock get the same keys, whether they use them or not; only
--       simple.lua gets fewer.
-- ARGV  From ARGV[5] on, arguments at the end are left out if they have the usual values: '1', '0', '0', '', '', '0', '0'.
-- ARGV[1]  the token
-- ARGV[2]  a TTL in ms
-- ARGV[3]  deadline of the command, in µs on this server's clock; '0': none
-- ARGV[4]  what the caller wants: see the kind
-- ARGV[5]  how many locks there are; more than one are held together, all or none
-- ARGV[6]  TTL of the fence counters, in ms; '0': there are none among the keys
-- ARGV[7]  the fence: '0' none, 'next' above all earlier ones, 'last' that of the last writer; or, of raise.lua, its number
-- ARGV[8]  the mark that shows, or has shown, that the caller waits; or ''
-- ARGV[9]  the member of the queue that stands for this waiter, or ''
-- ARGV[10] '1' in a cluster
-- ARGV[11] '1': the last key marks a server that has kept its data; the value is when the server was first seen, in µs
--
-- Replies; now is this server's clock, in µs
--   1, {1, now, ...}  done; each script says what follows
--   {0, now, i}       lock i is gone
--   {-1, now, i}      another holds lock i
--   {4, now}          too late, nothing was done
--   error GUARD       this server lost its data less than one TTL ago, and nothing was done
--
-- A kind of lock is four functions. token, ms and want are those of the caller, or of a waiter that is served. ms is text as a
-- rule: to turn a number into text takes Redis longer than some commands.
--
--   look(token, want, mark)      returns nil if token may enter now; token if it is in; else the holder in the way, for how
--                                long in ms (-1: for ever), and at which of several locks. An error is a table.
--   take(token, ms, want, mark)  token enters; returns nil, or the error
--   keep(token, ms, want, mark)  token stays for ms at least, and a key is written; returns 1; or 0 if token is gone, -1 if
--                                another has the lock, and which of the locks that is
--   drop(token, ms, mark)        token leaves in ms, whatever it wants; returns 1 and whether no other can enter, or as keep
--
-- A kind whose waiters show themselves has more functions: show(mark, ms, want, holder) and hide(mark, want); preferred, which
-- says whom the queue serves first; and together(token, ms), which lets another token in beside the caller, for the same time.
-- If a kind has together, a caller that may enter need not heed the queue.

local token, ms, want, mark, member = ARGV[1], ARGV[2], ARGV[4], ARGV[8] or '', ARGV[9] or ''
local lock, locks = KEYS[1], tonumber(ARGV[5] or 1)
local own = locks + ((ARGV[6] or '0') == '0' and 0 or locks) -- the keys of the kind come after these
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

-- The deadline is compared on the same clock and at the same moment as the lock is taken. So a script that the server executes
-- after the caller gave up takes nothing, shows no waiter, and extends nothing that a release was to end.
if ARGV[3] ~= '0' and now > tonumber(ARGV[3]) then
  return {4, now}
end

-- Returns a time in µs as the text of a score.
local function us(t)
  return string.format('%.0f', t)
end

-- A server that lost its data abstains for the TTL of the caller's lock: then every lock that it forgot has expired.
if ARGV[11] == '1' then
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

-- Only some kinds have these, and only locks with a queue have those of queue.lua. keys: how many keys of its own a kind has.
local keys, show, hide, preferred, together = 0
local queue, head, leave, serve
