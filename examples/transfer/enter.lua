-- Raise the fence of two accounts, and read their balances.
--
-- KEYS[1], KEYS[2]  the accounts: hashes with the fields balance and fence
-- ARGV[1]           the fence of the holder
--
-- Replies
--   the two balances, or an error if a later holder has entered one of the accounts
--
-- Atomic, so that no earlier holder can change a balance after it was read.

for _, account in ipairs(KEYS) do
  if tonumber(ARGV[1]) < tonumber(redis.call('HGET', account, 'fence')) then
    return redis.error_reply('STALE a later holder has entered ' .. account)
  end
end
local balances = {}
for i, account in ipairs(KEYS) do
  redis.call('HSET', account, 'fence', ARGV[1])
  balances[i] = redis.call('HGET', account, 'balance')
end
return balances
