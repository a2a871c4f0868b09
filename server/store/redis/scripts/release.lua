-- Releases a reservation, or reports its outcome as unknown.
local a = {key = ARGV[3], token = ARGV[4], reason = ARGV[5], unknown = ARGV[6] == '1',
           pause = tonumber(ARGV[7])}

local record = load()
if record == false then return {'failed', 'damaged'} end
if not record then return lost(nil, 'RECORD_EXPIRED') end
if record.k ~= a.key then return {'failed', 'collision'} end
if forgotten(record) then return lost(record, 'RECORD_EXPIRED') end
if record.tk ~= a.token then return lost(record, 'SUPERSEDED') end
local wanted = a.unknown and UNKNOWN or RELEASED
if record.st == wanted then return confirmed(record, {'released'}) end
if record.st ~= RESERVED then return lost(record, LOST_BY[record.st]) end
local pause = a.unknown and 0 or a.pause
write(record, {st = wanted, rr = a.reason, le = math.min(now + pause, record.ea)})
return {'released'}
