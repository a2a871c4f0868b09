-- One process sweeps at a time: 1 if it is the caller. With a life of 0 it stops.
local owner, life = ARGV[3], tonumber(ARGV[4])
local holder = redis.call('GET', key)
if holder and holder ~= owner then return 0 end
need_no_memory()
if life == 0 then
  redis.call('DEL', key)
else
  redis.call('SET', key, owner, 'PX', life)
end
return 1
