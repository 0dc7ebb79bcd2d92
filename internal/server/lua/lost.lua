-- Shared by the scripts that find a lock lost.

-- Returns 0 if nobody has the lock, -1 if another has it; or the error READONLY. A server that has just become a
-- replica, and is not in step yet, answers from old data, so it has to try a write too, one that changes nothing.
-- Why it might refuse that otherwise does not matter.
--
-- lock   the lock
-- token  ours, which it does not hold
-- there  whether it is there
local function lost(lock, token, there)
  local written
  if there then
    written = redis.pcall('SET', lock, token, 'NX', 'PX', 1)
  else
    written = redis.pcall('DEL', lock)
  end
  if type(written) == 'table' and written.err and string.find(written.err, 'READONLY', 1, true) then
    return written
  end
  return there and -1 or 0
end
