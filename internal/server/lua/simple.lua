-- The usual release of a Mutex without a queue; before head.lua and the rest of its release. Nothing is kept, the locks are
-- the only keys, and the token is the only argument. If a lock is not ours, this fills in the arguments that the code below
-- needs. The functions there cost more than all of this. No token has more than 320 bytes.

if #ARGV == 1 then
  local ours = true
  for i = 1, #KEYS do
    ours = ours and redis.pcall('GETRANGE', KEYS[i], '0', '320') == ARGV[1]
  end
  if ours then
    redis.call('DEL', unpack(KEYS))
    return 1
  end
  ARGV[2], ARGV[3], ARGV[5] = '0', '0', #KEYS
end
