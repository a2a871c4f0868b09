-- Runs a small command that writes, also while memory is full: without the key and the entries of
-- the audit log no record could be removed then.
local command = ARGV[3]
-- An expiry of the log, which an operator may have set, stays.
if command == 'XADD' then redis.call('XDEL', key, '0-1') else need_no_memory() end
return redis.call(command, key, unpack(ARGV, 4))
