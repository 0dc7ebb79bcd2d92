-- The usual release, in front of the others of a Mutex without a queue: nothing is kept, the locks are its only keys, and the
-- token its only argument. If one of them is not ours, what the code below needs is filled in. The functions there cost more
-- than all of this. No token has more than 320 bytes.

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
