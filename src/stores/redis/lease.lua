-- lease.lua - every step that Tenure takes in Redis: one call, which nothing comes between.
--
--     EVALSHA sha 1 {tenure} STEP CHANNEL NUMBER ARGUMENT...
--
-- All keys begin with the one that is passed, whose braces put them into one slot of a cluster:
--
--     {tenure}:version    of this layout
--     {tenure}:token      the last token granted; never expires, never goes down
--     {tenure}:due        when what ends by itself: s<session>, r<name of a revoked lease>
--     {tenure}:names      all names known, for listings; {tenure}:idle those that are free, by age
--     {tenure}:l:<name>   a lease: token, term; session, revoked, sure while it is held; last, the
--                         token before; released, the token and term that were given back last;
--                         since, a token and when it was granted, for people;
--                         highest, the highest token that was confirmed, and its term (Redlock)
--     {tenure}:held       of every lease that is held session, token, term and sure once more: who
--                         deletes the lease itself revokes it
--     {tenure}:q:<name>   who waits for it, <session><term>, by place
--     {tenure}:s:<session>  ttl, seq, beat, label; sure, digest
--     {tenure}:h:<session>, :w:<session>, :r:<session>  what it holds, waits for, has lost
--
-- Sessions and terms are hashes of secrets, in hex. Times are milliseconds of the server's clock.
-- No key has a time to live of its own: whoever calls ends what is due, and each name is put right
-- before anything is done with it. So the end of a session is seen, told, and passed on in order.
-- At most WORK leases are let go per call; the rest at the next call, or when somebody asks.
--
-- Tokens are twenty digits and are compared in two halves of ten: Lua's numbers are doubles, which
-- cannot tell 2^53 from 2^53 + 1.
--
-- The answer is an array: NUMBER, which no two calls share, so that an answer that is repeated on
-- its way answers nothing; a word; the time until the next thing is due (-1: nothing); and what the
-- step has to say. News goes to CHANNELs:<session> (g token term name, r token name) and to
-- CHANNELn:<name> (held token ttl remaining beat term label).

local VERSION = '1'
local MOST = '18446744073709551615'
local ZEROS = '00000000000000000000'
local WORK = 200
local IDLE_MAX = 100000

local base, step, channel = KEYS[1], ARGV[1], ARGV[2]
local call = redis.call
local due = base .. ':due'
local held = base .. ':held'
local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local work = WORK

local function key(kind, of)
    return base .. ':' .. kind .. ':' .. of
end

-- Who may not publish is told so when it says hello; a step is not left half done for it.
local function tell(whom, text)
    redis.pcall('PUBLISH', channel .. whom, text)
end

-- --- Tokens -----------------------------------------------------------------------------------

local function is_more(a, b)
    local x, y = tonumber(a:sub(1, 10)), tonumber(b:sub(1, 10))
    if x ~= y then
        return x > y
    end
    return tonumber(a:sub(11)) > tonumber(b:sub(11))
end

-- The token after all that were granted, or nil when there is none. P2: where tokens are made.
local function next_token(lease)
    local last = call('GET', base .. ':token') or ZEROS
    if is_more(lease.token, last) then
        last = lease.token -- The counter was lost, and not all of the rest.
    end
    if last == MOST then
        return nil
    end
    local high, low = tonumber(last:sub(1, 10)), tonumber(last:sub(11)) + 1
    if low == 10000000000 then
        high, low = high + 1, 0
    end
    local fresh = string.format('%010.0f%010.0f', high, low)
    call('SET', base .. ':token', fresh)
    return fresh
end

-- --- Sessions and leases ----------------------------------------------------------------------

local function is_alive(session)
    local at = call('ZSCORE', due, 's' .. session)
    return at and tonumber(at) > now
end

local function keep_copy(lease)
    call('HSET', held, lease.name, lease.session .. lease.token .. lease.term
        .. (lease.sure and '1' or '0'))
end

-- Until the holder gives it back, or for a full TTL from now: by then every renewal before this has
-- run out.
local function hold_off(lease)
    local ttl = call('HGET', key('s', lease.session), 'ttl') or '0'
    lease.revoked = now + ttl + 1
    call('HSET', key('l', lease.name), 'revoked', lease.revoked)
    call('SADD', key('r', lease.session), lease.name)
    call('ZADD', due, lease.revoked, 'r' .. lease.name)
end

local function tell_revoked(lease)
    tell('s:' .. lease.session, 'r ' .. lease.token .. ' ' .. lease.name)
end

-- Its record is missing. If somebody holds it, an operator has deleted it under its holder, who has
-- to stop before it may pass on.
local function restore(lease)
    local copy = call('HGET', held, lease.name)
    if not copy then
        return
    end
    lease.session, lease.token, lease.term = copy:sub(1, 32), copy:sub(33, 52), copy:sub(53, 84)
    lease.sure = copy:sub(85) == '1' and '1' or nil
    call('HSET', key('l', lease.name), 'token', lease.token, 'term', lease.term, 'session',
        lease.session)
    if lease.sure then
        call('HSET', key('l', lease.name), 'sure', '1', 'highest', lease.token .. lease.term)
    end
    hold_off(lease)
    tell_revoked(lease)
end

local function load_lease(name)
    local it = call('HMGET', key('l', name), 'token', 'term', 'session', 'revoked', 'sure', 'last')
    local lease = { name = name, token = it[1] or ZEROS, term = it[2] or '', session = it[3],
        revoked = it[4] and tonumber(it[4]), sure = it[5], last = it[6] or ZEROS }
    if not it[1] then
        restore(lease)
    end
    return lease
end

-- Put right what was deleted of the leases of a session.
local function restore_all(session)
    local names = call('SMEMBERS', key('h', session))
    for first = 1, #names, 1000 do
        local keys = {}
        for i = first, math.min(first + 999, #names) do
            keys[#keys + 1] = key('l', names[i])
        end
        if call('EXISTS', unpack(keys)) < #keys then
            for i = first, first + #keys - 1 do
                load_lease(names[i])
            end
        end
    end
end

local function is_over(lease)
    return lease.session and (not is_alive(lease.session)
        or lease.revoked and lease.revoked <= now)
end

-- held, token, ttl, remaining, beat, term, label. Also published: other versions read it.
local function describe(lease)
    if not lease.session or is_over(lease) then
        return { '0', lease.token, '0', '0', '0', '', '' }
    end
    local of = call('HMGET', key('s', lease.session), 'ttl', 'beat', 'label')
    local left = call('ZSCORE', due, 's' .. lease.session) - now
    return { '1', lease.token, of[1] or '0', string.format('%.0f', left), of[2] or '0', lease.term,
        of[3] or '' }
end

local function tell_change(lease)
    tell('n:' .. lease.name, table.concat(describe(lease), ' '))
end

-- Which leases a session is sure of, as one number: nodes that agree on it agree on all of them.
local function count_sure(lease, sign)
    local of = key('s', lease.session)
    local part = tonumber(redis.sha1hex(lease.name .. ' ' .. lease.term):sub(1, 12), 16)
    local sum = (tonumber(call('HGET', of, 'digest') or '0') + sign * part) % 281474976710656
    call('HSET', of, 'digest', string.format('%.0f', sum))
    call('HINCRBY', of, 'sure', sign)
end

local function forget_waiter(name, session, term)
    call('ZREM', key('q', name), session .. term)
    call('SREM', key('w', session), term .. name)
end

local function let_go(lease)
    call('SREM', key('h', lease.session), lease.name)
    if lease.revoked then
        call('SREM', key('r', lease.session), lease.name)
        call('ZREM', due, 'r' .. lease.name)
    end
    if lease.sure and call('EXISTS', key('s', lease.session)) == 1 then
        count_sure(lease, -1)
    end
    call('HDEL', key('l', lease.name), 'session', 'revoked', 'sure')
    call('HDEL', held, lease.name)
    call('ZADD', base .. ':idle', now, lease.name)
    lease.session, lease.revoked, lease.sure = nil, nil, nil
end

local function give(lease, session, term)
    local token = next_token(lease)
    if not token then
        return false
    end
    call('HSET', key('l', lease.name), 'token', token, 'term', term, 'session', session, 'last',
        lease.token, 'since', token .. string.format('%.0f', now))
    call('SADD', key('h', session), lease.name)
    call('ZREM', base .. ':idle', lease.name)
    lease.last, lease.token, lease.term, lease.session = lease.token, token, term, session
    keep_copy(lease)
    return true
end

-- The term is over. The first waiter whose session is alive has the next one.
local function vacate(lease)
    work = work - 1
    let_go(lease)
    while not lease.session do
        local first = call('ZRANGE', key('q', lease.name), 0, 0)[1]
        if not first then
            break
        end
        local session, term = first:sub(1, 32), first:sub(33)
        forget_waiter(lease.name, session, term)
        if is_alive(session) and give(lease, session, term) then
            tell('s:' .. session, 'g ' .. lease.token .. ' ' .. term .. ' ' .. lease.name)
        end
    end
    tell_change(lease)
end

local function settled(name)
    local lease = load_lease(name)
    if is_over(lease) then
        vacate(lease)
    end
    return lease
end

-- --- What is due ------------------------------------------------------------------------------

local function end_session(session)
    for _, it in ipairs(call('SMEMBERS', key('w', session))) do
        call('ZREM', key('q', it:sub(33)), session .. it:sub(1, 32))
    end
    call('DEL', key('w', session))
    repeat
        local name = call('SRANDMEMBER', key('h', session))
        if name then
            local lease = load_lease(name)
            if lease.session == session then
                vacate(lease)
            end
            call('SREM', key('h', session), name)
        end
    until not name or work <= 0
    if call('EXISTS', key('h', session)) == 0 then
        call('DEL', key('s', session), key('r', session))
        call('ZREM', due, 's' .. session)
    end
end

local function work_off()
    while work > 0 do
        local first = call('ZRANGEBYSCORE', due, '-inf', now, 'LIMIT', 0, 1)[1]
        if not first then
            break
        end
        work = work - 1
        if first:sub(1, 1) == 's' then
            end_session(first:sub(2))
        else
            settled(first:sub(2))
            call('ZREM', due, first)
        end
    end
end

local function next_due()
    local first = call('ZRANGE', due, 0, 0, 'WITHSCORES')
    if not first[1] then
        return '-1'
    end
    return string.format('%.0f', math.max(first[2] - now, 0))
end

-- --- Steps ------------------------------------------------------------------------------------

local steps = {}

-- Whether all of this may be done here.
function steps.hello()
    local version = call('GET', base .. ':version')
    if version and version ~= VERSION then
        return { 'version', '-1', version }
    end
    if not version then
        call('SET', base .. ':version', VERSION)
    end
    local said = redis.pcall('PUBLISH', channel .. 'hello', '')
    if type(said) == 'table' and said.err then
        return { 'mute', '-1' }
    end
    return { 'ok' }
end

local function renew(session, seq)
    local of = key('s', session)
    local it = call('HMGET', of, 'seq', 'ttl', 'sure', 'digest')
    if is_more(seq, it[1]) then
        call('HSET', of, 'seq', seq)
    elseif seq ~= ZEROS then -- Number 0 is newer than all before.
        return { 'stale' }
    end
    call('HINCRBY', of, 'beat', 1)
    call('ZADD', due, now + it[2] + 1, 's' .. session)
    restore_all(session)
    local said = { 'ok', '', tostring(call('SCARD', key('h', session))), it[2], it[3] or '0',
        it[4] or '0' }
    for _, name in ipairs(call('SMEMBERS', key('r', session))) do
        said[#said + 1] = load_lease(name).token
        said[#said + 1] = name
    end
    return said
end

-- session, seq, ttl, label. A session that exists is renewed: the first answer was lost.
function steps.open(session, seq, ttl, label)
    if call('EXISTS', key('s', session)) == 1 then
        return is_alive(session) and renew(session, seq) or { 'gone' }
    end
    call('HSET', key('s', session), 'seq', ZEROS, 'ttl', ttl, 'label', label, 'beat', '0')
    return renew(session, seq)
end

function steps.renew(session, seq)
    return is_alive(session) and renew(session, seq) or { 'gone' }
end

function steps.close(session)
    if not is_alive(session) then
        return { 'gone' }
    end
    call('ZADD', due, 0, 's' .. session)
    return { 'ok' }
end

local function answer(word, lease)
    local said = { word, '', unpack(describe(lease)) }
    said[10] = lease.sure and '1' or '0'
    said[11] = lease.session and lease.last or lease.token
    said[12] = lease.revoked and '1' or '0'
    return said
end

local function know_name(name)
    if call('ZADD', base .. ':names', 0, name) == 0 then
        return
    end
    if call('ZCARD', base .. ':idle') > IDLE_MAX then
        local oldest = call('ZPOPMIN', base .. ':idle')[1]
        call('ZREM', base .. ':names', oldest)
        call('DEL', key('l', oldest))
    end
end

-- session, term, name; 1: wait if it is held; 2: the same, for a term that has a majority elsewhere
-- and lost its vote here (Redlock).
function steps.acquire(session, term, name, wait)
    if not is_alive(session) then
        return { 'gone' }
    end
    know_name(name)
    local lease = settled(name)
    if lease.session == session and lease.term == term and not lease.revoked then
        return answer('granted', lease) -- A repetition: the same term, the same token.
    elseif not lease.session and lease.term == term and wait ~= '2' then
        return answer('stale', lease)   -- Delayed on its way: this term is over.
    elseif not lease.session then
        if not give(lease, session, term) then
            return answer('full', lease)
        end
        forget_waiter(name, session, term)
        tell_change(lease)
        return answer('granted', lease)
    elseif wait == '0' then
        return answer('held', lease)
    end
    if not call('ZSCORE', key('q', name), session .. term) then
        local last = call('ZRANGE', key('q', name), -1, -1, 'WITHSCORES')
        call('ZADD', key('q', name), (last[2] or 0) + 1, session .. term)
        call('SADD', key('w', session), term .. name)
    end
    return answer('queued', lease)
end

-- session, term, name, token; token 0: whatever the term has or waits for; 1: a vote that was never
-- confirmed does not end its term here, it may be asked for again (Redlock).
function steps.release(session, term, name, token, again)
    local lease = settled(name)
    if call('HGET', key('l', name), 'released') == token .. term then
        return answer('released', lease) -- Said again, after the session or the next grant.
    elseif not is_alive(session) then
        return { 'gone' }
    end
    if token == ZEROS then
        forget_waiter(name, session, term)
    end
    if token ~= ZEROS and lease.token ~= token then
        return answer('stale', lease)
    elseif lease.session == session and lease.term == term then
        if again and not lease.sure then
            call('HDEL', key('l', name), 'term')
        else
            call('HSET', key('l', name), 'released', lease.token .. term)
        end
        vacate(lease)
        return answer('released', lease)
    elseif token == ZEROS or not lease.session and lease.term == term then
        return answer('released', lease) -- Said again; the first answer was lost.
    end
    return answer(lease.session and 'denied' or 'stale', lease)
end

-- name
function steps.read(name)
    local lease = settled(name)
    return answer(lease.session and 'held' or 'free', lease)
end

-- name, token (0: any). The holder is told at once and with every renewal.
function steps.revoke(name, token)
    local lease = settled(name)
    if not lease.session or token ~= ZEROS and token ~= lease.token then
        return answer('stale', lease)
    end
    if not lease.revoked then
        hold_off(lease)
    end
    tell_revoked(lease)
    return answer('ok', lease)
end

local function raise_token(token)
    if is_more(token, call('GET', base .. ':token') or ZEROS) then
        call('SET', base .. ':token', token)
    end
end

-- name, token. No grant from now on at or below it, of any name.
function steps.raise(name, token)
    raise_token(token)
    return answer('ok', settled(name))
end

-- session, term, name, token. For Redlock: the votes of a majority are in, and this is the token of
-- all. It counts here if the vote still stands.
function steps.confirm(session, term, name, token)
    local lease = settled(name)
    local highest = call('HGET', key('l', name), 'highest') or ZEROS
    -- P2: no token that is not above the highest, unless it is of the same term.
    if lease.session ~= session or lease.term ~= term or lease.revoked or
        highest ~= token .. term and not is_more(token, highest:sub(1, 20)) then
        return answer('stale', lease)
    end
    raise_token(token)
    call('HSET', key('l', name), 'token', token, 'sure', '1', 'highest',
        token .. term)
    if not lease.sure then
        count_sure(lease, 1)
    end
    local changed = lease.token ~= token
    lease.token, lease.sure = token, '1'
    keep_copy(lease)
    if changed then
        tell_change(lease)
    end
    return answer('ok', lease)
end

-- session. What it has: token, term, name, 1: revoked; for who may have missed news.
function steps.look(session)
    local said = { is_alive(session) and 'ok' or 'gone', '' }
    for _, name in ipairs(call('SMEMBERS', key('h', session))) do
        local lease = load_lease(name)
        if said[1] == 'ok' and lease.session == session then
            said[#said + 1] = lease.token
            said[#said + 1] = lease.term
            said[#said + 1] = name
            said[#said + 1] = lease.revoked and '1' or '0'
        end
    end
    return said
end

-- When the term began. A version that does not keep it leaves that of an earlier token.
local function began(lease)
    local since = call('HGET', key('l', lease.name), 'since')
    return since and since:sub(1, 20) == lease.token and since:sub(21) or '0'
end

-- prefix, 1: only this name. All names that begin with it, in order; but for keys that are somebody
-- else's.
function steps.list(prefix, exact)
    local said = { 'ok', '' }
    for _, name in ipairs(call('ZRANGEBYLEX', base .. ':names', '[' .. prefix,
        '[' .. prefix .. (exact == '1' and '' or '\255'))) do
        local ours, lease = pcall(load_lease, name)
        if ours and lease.token ~= ZEROS then
            said[#said + 1] = name
            for _, part in ipairs(describe(lease)) do
                said[#said + 1] = part
            end
            said[#said + 1] = lease.revoked and '1' or '0'
            said[#said + 1] = lease.session and began(lease) or '0'
            said[#said + 1] = tostring(call('ZCARD', key('q', name)))
        end
    end
    return said
end

-- name. The labels of those who wait for it, the next one first; no more than a hundred.
function steps.line(name)
    local said = { 'ok', '' }
    for _, it in ipairs(call('ZRANGE', key('q', name), 0, 99)) do
        if is_alive(it:sub(1, 32)) then
            said[#said + 1] = call('HGET', key('s', it:sub(1, 32)), 'label') or ''
        end
    end
    return said
end

-- prefix. What is on record of free names that begin with it.
function steps.forget(prefix)
    for _, name in ipairs(call('ZRANGEBYLEX', base .. ':names', '[' .. prefix,
        '[' .. prefix .. '\255')) do
        if not settled(name).session then
            call('DEL', key('l', name))
            call('ZREM', base .. ':names', name)
            call('ZREM', base .. ':idle', name)
        end
    end
    return { 'ok' }
end

function steps.tick()
    return { 'ok' }
end

local said = steps[step](unpack(ARGV, 4))
if said[1] ~= 'version' and step ~= 'list' and step ~= 'line' then
    work_off()
end
said[2] = next_due()
table.insert(said, 1, ARGV[3])
return said
