-- Changes a record that was read and decided on elsewhere, if it is still the same: 1, else 0.
local a = {state = ARGV[3], attempt = ARGV[4], token = ARGV[5], lease = ARGV[6],
           expires = ARGV[7], tombstone = ARGV[8], remove = ARGV[9] == '1',
           anyway = ARGV[10] == '1'}

local record = load()
if not record then return 0 end
local same = whole(record.st) == a.state and whole(record.at) == a.attempt and
             record.tk == a.token and whole(record.le) == a.lease and
             whole(record.ea) == a.expires and
             -- A purge that leaves a tombstone may change nothing else of these.
             (record.tu and whole(record.tu) or '') == a.tombstone
if not same then return 0 end
if a.remove then
  redis.call('UNLINK', key)
  return 1
end
local numbers = {}
for _, name in ipairs(NEEDED) do numbers[name] = true end
for _, name in ipairs(OPTIONAL) do numbers[name] = true end
local changes = {}
for i = 11, #ARGV, 2 do
  local name, value = ARGV[i], ARGV[i + 1]
  -- A text that looks like a number stays as it is.
  changes[name] = numbers[name] and tonumber(value) or value
end
if a.anyway then need_no_memory() end
write(record, changes)
return 1
