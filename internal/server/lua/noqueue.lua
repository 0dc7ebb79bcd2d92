-- In the place of queue.lua, for locks without a queue.

local queue, head, leave, serve
