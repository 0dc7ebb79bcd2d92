-- The usual release, in front of the others of a Mutex without a queue: it has one key, nothing is kept, and the token is its
-- only argument. If our token is not there, what the caller has left out is filled in, for the code below. The functions
-- there cost more than all of this. No token has more than 320 bytes.

if #ARGV == 1 then
  if redis.pcall('GETRANGE', KEYS[1], '0', '320') == ARGV[1] then
    return redis.call('DEL', KEYS[1])
  end
  for i, usual in ipairs({'0', '0', '1', '0', 'm', '0', '', '', '0', '0'}) do
    ARGV[i + 1] = usual
  end
end
