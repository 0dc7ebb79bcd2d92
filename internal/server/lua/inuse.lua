-- How many permits of a semaphore are in use; behind head.lua. It only reads. Reply: {1, now, their number}

return {1, now, redis.call('ZCOUNT', lock, '(' .. us(now), '+inf')}
