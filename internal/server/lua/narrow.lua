-- Behind a script of ours that became a function, in clients on 32-bit systems.
--
-- Replies what the script replies, but numbers beyond 32 bits as {ok = digits}, which none of ours replies
-- otherwise. Redis replies them whole. A server that is embedded in a Go program on such a system cuts them
-- to 32 bits, and times in µs and fences are larger.

local function exact(reply)
  if type(reply) == 'number' and math.abs(reply) >= 2147483648 then
    return {ok = string.format('%.0f', reply)}
  end
  if type(reply) == 'table' then
    for i = 1, #reply do
      reply[i] = exact(reply[i])
    end
  end
  return reply
end
return exact(script())
