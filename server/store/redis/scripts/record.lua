-- The first part of every script. A record is one hash, and each script decides and writes it
-- alone: Redis runs a script without any other command in between.
--
-- A script that fails in the middle is not rolled back. So a script writes the fields of a
-- decision with one HSET; before it, it removes an expiry that would end the new state too early,
-- and it sets the expiry of the new state after it. Where HSET fails, the record is as it was,
-- and at worst without an expiry, which the next write or the sweep sets again.

-- Redis 6 may be configured to replicate the script instead of its writes; the time would differ.
if redis.replicate_commands then redis.replicate_commands() end

local RESERVED, COMPLETED, RELEASED, UNKNOWN = 1, 2, 3, 4
local NAMES = {'k', 'st', 'at', 'tk', 'rt', 'rc', 'po', 'ca', 'le', 'ea', 'cm', 'ru', 'tu', 'fp',
               'pa', 'lb', 'rr', 'cp', 'rd', 'cd'}
local NEEDED = {'st', 'at', 'po', 'ca', 'le', 'ea'}
local OPTIONAL = {'cm', 'ru', 'tu'}

local key = KEYS[1]
local time = redis.call('TIME')
-- Microseconds, exact in a double until the year 2255.
local real = tonumber(time[1]) * 1000000 + tonumber(time[2])
-- Tests set the time of a decision.
local now = tonumber(ARGV[1]) or real
-- The answer is to be confirmed by replicas.
local confirm = ARGV[2] == '1'

local function whole(number) return string.format('%.0f', number) end

-- The record; nil if there is none, false if it cannot be read.
local function load()
  local values = redis.call('HMGET', key, unpack(NAMES))
  local record, found = {}, false
  for i, name in ipairs(NAMES) do
    record[name] = values[i]
    found = found or values[i]
  end
  if not found then return nil end
  for _, name in ipairs(NAMES) do
    if not record[name] then return false end
  end
  for _, name in ipairs(NEEDED) do
    record[name] = tonumber(record[name])
    if not record[name] then return false end
  end
  for _, name in ipairs(OPTIONAL) do record[name] = tonumber(record[name]) end
  return record
end

-- Such a record stays until it is settled, however old it is.
local function lasts(record)
  return record.st == UNKNOWN or (record.st == RESERVED and record.po == REQUIRE_RECOVERY)
end

-- A purge leaves it at the time of its own clock: one that was set back since may not have reached
-- the record's end yet.
local function tombstone(record) return record.st == RELEASED and record.fp == '' and record.tu end

-- Its holder comes too late, under any policy.
local function ended(record) return now >= record.ea or tombstone(record) end

local function forgotten(record) return ended(record) and not lasts(record) end

-- When Redis may forget the key: as long after the record and its tombstone as the clock may
-- step back.
local function expire(record)
  local known = math.max(record.ea, record.tu or record.ea, now) + MARGIN
  redis.call('PEXPIREAT', key, whole(math.ceil((known - now + real) / 1000)))
end

-- Redis refuses commands for want of memory only until a script has written, and never this one.
-- For what frees memory, or adds a few bytes to a key once: otherwise a full server stays full. The
-- key has no expiry, or gets one again at once.
local function need_no_memory() redis.call('PERSIST', key) end

-- Writes the changed fields, a table of name and value. `old` is the forgotten record that a new
-- one replaces.
local function write(record, changes, old)
  local extended = changes.ea or changes.tu
  local was = record.st or (old and old.st)
  for name, value in pairs(changes) do record[name] = value end
  local arguments = {}
  for name, value in pairs(changes) do
    arguments[#arguments + 1] = name
    arguments[#arguments + 1] = type(value) == 'number' and whole(value) or value
  end
  -- An optional time that is absent is the empty string.
  for _, name in ipairs(OPTIONAL) do record[name] = tonumber(record[name]) end
  if was and (extended or lasts(record)) then
    -- Redis refuses writes for want of memory only until a script has written: the first write
    -- must be one that it refuses, and change nothing.
    redis.call('HSET', key, 'st', whole(was))
    redis.call('PERSIST', key)
  end
  redis.call('HSET', key, unpack(arguments))
  if not lasts(record) then expire(record) end
end

-- An answer that wrote nothing waits for the replicas only if something was written on this
-- connection: the same value again.
local function confirmed(record, answer)
  if confirm and record then
    if lasts(record) then
      redis.call('HSET', key, 'st', whole(record.st))
    else
      expire(record)
    end
  end
  return answer
end

-- The caller's reservation is over.
local function lost(record, cause) return confirmed(record, {'failed', 'lost', cause}) end

-- The cause in a record that is not RESERVED any more.
local LOST_BY = {[COMPLETED] = 'COMPLETED', [RELEASED] = 'RELEASED', [UNKNOWN] = 'OUTCOME_UNKNOWN'}

local function flag(value) return value and 1 or 0 end
