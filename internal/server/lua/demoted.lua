-- Shared by the scripts that may answer without having written anything.

-- Returns the error READONLY, or nil. A server that has just become a replica, and is not in step yet, answers from old
-- data, so it has to try a write too, one that changes nothing. Why it might refuse that otherwise does not matter.
--
-- lock   the lock
-- token  any value
--
-- Whether the lock is there has to be asked: a token may be missing in it while others have it.
local function demoted(lock, token)
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
