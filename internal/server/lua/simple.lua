-- The usual release of a Mutex without a queue, in front of all others, whose arguments it reads: it has one key, our token
-- is there, and nothing is kept. What it does not find so is looked at below; the functions there cost more than all of this.

if ARGV[2] == '0' and ARGV[4] == '1' and redis.pcall('GETRANGE', KEYS[1], 0, #ARGV[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
