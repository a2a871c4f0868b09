-- Lengthens a lease.
local a = {key = ARGV[3], token = ARGV[4], lease = tonumber(ARGV[5]), checkpoint = ARGV[6] == '1',
           content = ARGV[7]}

local record = load()
if record == false then return {'failed', 'damaged'} end
if not record then return lost(nil, 'RECORD_EXPIRED') end
if record.k ~= a.key then return {'failed', 'collision'} end
if ended(record) then return lost(record, 'RECORD_EXPIRED') end
if record.tk ~= a.token then return lost(record, 'SUPERSEDED') end
if record.st ~= RESERVED then return lost(record, LOST_BY[record.st]) end
local changes = {le = math.max(record.le, math.min(now + a.lease, record.ea))}
if a.checkpoint then changes.cp = a.content end
write(record, changes)
return {'extended', record.le - now}
