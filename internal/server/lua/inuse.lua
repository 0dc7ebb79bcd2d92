-- How many permits of a semaphore are in use; after head.lua, holder.lua, set.lua and semaphore.lua. It only reads.
-- Reply: {1, now, their number}

local n = redis.pcall('ZCOUNT', lock, '(' .. us(now), '+inf') -- first: it refuses a key of another type
return type(n) == 'table' and n or foreign() or {1, now, n}
