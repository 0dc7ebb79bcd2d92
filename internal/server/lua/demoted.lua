-- Shared by the scripts that may answer without having written anything.

-- Returns the error READONLY, or nil. A server that has just become a replica, and is not in step yet, answers from old
-- data, so it has to try a write too, one that changes nothing. Why it might refuse that otherwise does not matter.
--
-- lock   the lock
-- token  any value
-- there  whether the lock is there
local function demoted(lock, token, there)
  local written
  if there then
    written = redis.pcall('SET', lock, token, 'NX', 'PX', 1)
  else
    written = redis.pcall('DEL', lock)
  end
  if type(written) == 'table' and written.err and string.find(written.err, 'READONLY', 1, true) then
    return written
  end
end
