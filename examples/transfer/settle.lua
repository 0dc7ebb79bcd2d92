-- Write the balances of two accounts.
--
-- KEYS[1], KEYS[2]  the accounts: hashes with the fields balance and fence
-- ARGV[1]           the fence of the holder
-- ARGV[2], ARGV[3]  the balances
--
-- Replies
--   1, or an error if a later holder has entered one of the accounts
--
-- Atomic, so that no money is made or lost by a writer that crashes halfway.

for _, account in ipairs(KEYS) do
  if tonumber(ARGV[1]) < tonumber(redis.call('HGET', account, 'fence')) then
    return redis.error_reply('STALE a later holder has entered ' .. account)
  end
end
for i, account in ipairs(KEYS) do
  redis.call('HSET', account, 'balance', ARGV[1 + i])
end
return 1
