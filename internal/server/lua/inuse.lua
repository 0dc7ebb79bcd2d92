-- How many permits of a semaphore are in use; behind head.lua, holder.lua, set.lua and semaphore.lua. It only reads.
-- Reply: {1, now, their number}

return foreign() or {1, now, redis.call('ZCOUNT', lock, '(' .. us(now), '+inf')}
