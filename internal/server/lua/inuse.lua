-- How many permits of a semaphore are in use; behind head.lua and semaphore.lua.
--
-- Reply: their number
--
-- It only reads.

return redis.call('ZCOUNT', lock, '(' .. us(now), '+inf')
