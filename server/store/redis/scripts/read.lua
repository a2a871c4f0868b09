-- Reads a record with the time of the read, and its reply if that is not larger than asked for.
local largest = tonumber(ARGV[3])

local values = redis.call('HMGET', key, unpack(NAMES))
if confirm then
  local record = load()
  if record then confirmed(record) end
end
local size = redis.call('HSTRLEN', key, 'rp')
local reply = size <= largest and redis.call('HGET', key, 'rp') or ''
return {now, size, reply or '', values}
