-- Decides on a reservation by the table of states and verdicts.
local a = {key = ARGV[3], token = ARGV[4], request_token = ARGV[5], lease = tonumber(ARGV[6]),
           retention = tonumber(ARGV[7]), window = tonumber(ARGV[8]), policy = tonumber(ARGV[9]),
           recover = ARGV[10] == '1', reply_retention = tonumber(ARGV[11]),
           tombstone = tonumber(ARGV[12]), parent = ARGV[13], labels = ARGV[14],
           only_existing = ARGV[15] == '1', key_time = tonumber(ARGV[16]), prints = ARGV[17],
           compared = ARGV[18], inline = tonumber(ARGV[19])}

-- As EncodeFingerprints() writes them: digests by version and key.
local function parse(bytes)
  local prints, i = {}, 1
  while i <= #bytes do
    local name, size = bytes:sub(i, i + 3), bytes:byte(i + 4) or 0
    i = i + 5
    if size >= 128 then
      name, size, i = name .. bytes:sub(i, i + 3), size - 128, i + 4
    end
    prints[name] = bytes:sub(i, i + size - 1)
    i = i + size
  end
  return prints
end

-- nil: nothing in common; otherwise whether all that is common agrees.
local function compare(stored, sent)
  local same = nil
  for name, digest in pairs(sent) do
    if stored[name] and stored[name] ~= digest then return false end
    if stored[name] then same = true end
  end
  return same
end

local function compare_request(stored)
  local match = compare(stored, parse(a.prints))
  if match == false or a.compared == '' then return match end
  local also = compare(stored, parse(a.compared))
  if also == nil then return match end
  return also
end

local PREVIOUS = {none = 0, released = 1, lease_expired = 2, unknown = 3}

local function reserved(record, previous, is)
  return {'reserved', record.at, tonumber(record.rc), math.max(record.le - now, 0), record.ca,
          record.ea, record.cp, record.lb, previous, flag(is.took_over), flag(is.after_expiry),
          flag(is.repeated), record.tk}
end

local function start(old)
  if old and old.tu and now < old.tu then return confirmed(old, {'expired'}) end
  if a.key_time then
    if now >= a.key_time + a.window then return confirmed(old, {'expired'}) end
    if a.key_time > now + MAX_KEY_AHEAD then return {'failed', 'ahead'} end
  end
  if a.only_existing then return {'failed', 'quota'} end
  local expires = now + a.retention
  if a.key_time then expires = math.max(now, a.key_time) + math.max(a.retention, a.window) end
  local record = {}
  write(record, {
    k = a.key, st = RESERVED, at = 1, tk = a.token, rt = a.request_token, rc = '0', po = a.policy,
    ca = now, le = math.min(now + a.lease, expires), ea = expires, cm = '',
    ru = a.reply_retention and now + a.reply_retention or '',
    tu = a.tombstone > 0 and expires + a.tombstone or '',
    fp = a.prints, pa = a.parent, lb = a.labels, rr = '', cp = '', rd = '', cd = '', rp = ''}, old)
  return reserved(record, PREVIOUS.none, {after_expiry = old})
end

local function next_attempt(record, recovering)
  local before = record.st
  local previous = PREVIOUS.released
  if before == RESERVED then previous = PREVIOUS.lease_expired end
  if recovering then previous = PREVIOUS.unknown end
  local changes = {st = RESERVED, at = record.at + 1, tk = a.token, rt = a.request_token,
                   rc = flag(recovering)}
  local expires = record.ea
  if recovering then
    expires = math.max(expires, now + a.retention)
    changes.ea = expires
    if record.tu then changes.tu = expires + (record.tu - record.ea) end
  end
  changes.le = math.min(now + a.lease, expires)
  if before == RESERVED then changes.rr = '' end
  write(record, changes)
  return reserved(record, previous, {took_over = before == RESERVED})
end

local function repeated(record)
  local previous = PREVIOUS.released
  if record.rr == '' then previous = PREVIOUS.lease_expired end
  if record.rc == '1' then previous = PREVIOUS.unknown end
  if record.at == 1 then previous = PREVIOUS.none end
  if now >= record.le then
    write(record, {le = math.min(now + a.lease, record.ea)})
  else
    confirmed(record)
  end
  return reserved(record, previous, {repeated = true})
end

local function replay(record)
  if not record.cm or #record.rd ~= 32 then return {'failed', 'damaged'} end
  local size = redis.call('HSTRLEN', key, 'rp')
  local reply = size <= a.inline and redis.call('HGET', key, 'rp') or ''
  return confirmed(record, {'replay', record.at, record.cm, record.ea, record.lb, record.tk,
                            record.rd, size, reply, flag(record.ru and now >= record.ru)})
end

local function outcome_unknown(record, marked)
  return {'outcome_unknown', record.at, record.rr, record.le, flag(marked)}
end

local function decide(record)
  if record.k ~= a.key then return {'failed', 'collision'} end
  if forgotten(record) then return start(record) end
  local same = compare_request(parse(record.fp))
  if same == nil then return {'failed', 'fingerprint'} end
  if not same then return confirmed(record, {'mismatch', record.at}) end
  local repeats = a.request_token ~= '' and a.request_token == record.rt
  if record.st == COMPLETED then return replay(record) end
  if record.st == RESERVED then
    if repeats then return repeated(record) end
    if now < record.le then
      return confirmed(record, {'in_flight', record.at, record.le - now, 0})
    end
    if record.po ~= REQUIRE_RECOVERY then return next_attempt(record, false) end
    if a.recover then return next_attempt(record, true) end
    write(record, {st = UNKNOWN, rr = ''})
    return outcome_unknown(record, true)
  end
  if record.st == UNKNOWN then
    if a.recover then return next_attempt(record, true) end
    return confirmed(record, outcome_unknown(record, false))
  end
  if repeats then return lost(record, 'RELEASED') end
  if now < record.le then
    return confirmed(record, {'in_flight', record.at, record.le - now, 1})
  end
  return next_attempt(record, false)
end

local record = load()
if record == false then return {'failed', 'damaged'} end
if not record then return start(nil) end
return decide(record)
