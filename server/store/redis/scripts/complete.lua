-- Stores a reply.
local a = {key = ARGV[3], token = ARGV[4], digest = ARGV[5], others = ARGV[6], reply = ARGV[7]}

-- The digest of the reply, or one of the same reply under other keys.
local function is_same(stored)
  if stored == a.digest then return true end
  for i = 1, #a.others, 32 do
    if a.others:sub(i, i + 31) == stored then return true end
  end
  return false
end

local function completed(record, repeats)
  return {'completed', record.cm, record.ea, flag(record.cm >= record.le), flag(repeats)}
end

local record = load()
if record == false then return {'failed', 'damaged'} end
if not record then return lost(nil, 'RECORD_EXPIRED') end
if record.k ~= a.key then return {'failed', 'collision'} end
if ended(record) then return lost(record, 'RECORD_EXPIRED') end
if record.tk ~= a.token then return lost(record, 'SUPERSEDED') end
if record.st == RESERVED or record.st == UNKNOWN then
  write(record, {st = COMPLETED, cm = now, rp = a.reply, rd = a.digest, cd = ''})
  return completed(record, false)
end
if record.st == RELEASED then return lost(record, 'RELEASED') end
local stored = record.cd ~= '' and record.cd or record.rd
if not record.cm or not is_same(stored) then return lost(record, 'COMPLETED') end
return confirmed(record, completed(record, true))
