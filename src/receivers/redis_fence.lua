#!lua name=tenure_fence
-- redis_fence.lua - fences in Redis: check and effect are one call, which nothing comes between.
--
-- Redis 7:   FUNCTION LOAD REPLACE, or `tenure fence install`; then
--     FCALL tenure_admit 1 tenure:fence:{orders} 34
--     FCALL tenure_set   2 tenure:fence:{orders} {orders}:state 34 VALUE [EX 10 ...]
--     FCALL tenure_del   3 tenure:fence:{orders} {orders}:a {orders}:b 34
--     FCALL tenure_call  2 tenure:fence:{orders} {orders}:log 34 XADD {orders}:log * by me
-- Older:     the same text without its first line through EVAL or EVALSHA, and the name of the
--            function in front of the arguments:
--     EVALSHA sha 1 tenure:fence:{orders} tenure_admit 34
--
-- The first key is the fence of a resource. All keys of one call must lie in one slot of a cluster:
-- the resource in braces is the hash tag, so name what it protects {orders}:anything. Every key
-- that a command touches must be among the keys of the call, as Redis demands of all scripts.
--
-- Errors: STALE, a later holder exists, do not retry; BADTOKEN, there is no token, or none that can
-- exist; BADFENCE, the key holds something else. After each of them nothing was written. An error
-- of the command itself is passed on; then the fence has moved and nothing else.
--
-- Tokens go up to 2^64 - 1, and Lua's numbers are doubles, which cannot tell 2^53 from 2^53 + 1. So
-- a token is kept as twenty digits and compared in two halves of ten, which doubles hold exactly.

local MOST = '18446744073709551615'
local ZEROS = '00000000000000000000'

-- -1, 0 or 1, for two texts of twenty digits.
local function compare(a, b)
    for half = 1, 11, 10 do
        local x, y = tonumber(a:sub(half, half + 9)), tonumber(b:sub(half, half + 9))
        if x ~= y then
            return x < y and -1 or 1
        end
    end
    return 0
end

-- The twenty digits of a token as people write it, or nil.
local function pad(token)
    if type(token) ~= 'string' or not token:match('^[1-9][0-9]*$') or #token > 20 then
        return nil
    end
    local digits = ZEROS:sub(#token + 1) .. token
    return compare(digits, MOST) <= 0 and digits or nil
end

local function unpad(digits)
    return (digits:gsub('^0+', ''))
end

-- Where the fence stands by what its key holds, as twenty digits; zeros when it has seen nothing.
-- Or nil and an error.
local function standing(key, digits)
    if not digits then
        return ZEROS
    end
    if #digits ~= 20 or digits:match('[^0-9]') or compare(digits, MOST) > 0 then
        return nil, redis.error_reply('BADFENCE ' .. key .. ' holds something else than a token')
    end
    return digits
end

-- nil when the token is admitted and the fence stands at it; else the error to reply.
local function refusal(key, token)
    local held = redis.call('GET', key)
    -- The common case, in one comparison: the token is the one that the fence stands at.
    if held and held == ZEROS:sub(#token + 1) .. token and token:byte() ~= 48 and held ~= ZEROS then
        return nil
    end
    local digits = pad(token)
    if digits == nil then
        return redis.error_reply('BADTOKEN a token is a whole number from 1 to ' .. MOST)
    end
    local highest, wrong = standing(key, held)
    if wrong then
        return wrong
    end
    local order = compare(digits, highest)
    if order < 0 then
        return redis.error_reply('STALE token ' .. token .. ' is stale, the fence stands at ' ..
            unpad(highest))
    end
    if order > 0 then
        redis.call('SET', key, digits)
    end
    return nil
end

local calls = {}

-- Admit a token; also how a fence is raised. Keys: fence. Arguments: token.
function calls.tenure_admit(keys, args)
    if #keys ~= 1 or #args ~= 1 then
        return redis.error_reply('BADTOKEN one fence and one token are needed')
    end
    return refusal(keys[1], args[1]) or redis.status_reply('OK')
end

-- The highest token seen, as text; '0' when there was none. Keys: fence.
function calls.tenure_show(keys, args)
    local highest, wrong = standing(keys[1], redis.call('GET', keys[1]))
    if wrong then
        return wrong
    end
    return highest == ZEROS and '0' or unpad(highest)
end

-- SET. Keys: fence, key. Arguments: token, value, and what SET takes after it.
function calls.tenure_set(keys, args)
    if #keys ~= 2 or #args < 2 then
        return redis.error_reply('BADTOKEN a fence, a key, a token and a value are needed')
    end
    return refusal(keys[1], args[1]) or redis.call('SET', keys[2], unpack(args, 2))
end

-- DEL. Keys: fence, and one or more. Arguments: token.
function calls.tenure_del(keys, args)
    if #keys < 2 or #args ~= 1 then
        return redis.error_reply('BADTOKEN a fence, keys and one token are needed')
    end
    return refusal(keys[1], args[1]) or redis.call('DEL', unpack(keys, 2))
end

-- Any command. Keys: fence, and all keys of the command. Arguments: token, then the command as one
-- would type it, its keys included.
function calls.tenure_call(keys, args)
    if #keys < 1 or #args < 2 then
        return redis.error_reply('BADTOKEN a fence, a token and a command are needed')
    end
    return refusal(keys[1], args[1]) or redis.call(unpack(args, 2))
end

if redis.register_function then
    redis.register_function('tenure_admit', calls.tenure_admit)
    redis.register_function { function_name = 'tenure_show', callback = calls.tenure_show,
        flags = { 'no-writes' } }
    redis.register_function('tenure_set', calls.tenure_set)
    redis.register_function('tenure_del', calls.tenure_del)
    redis.register_function('tenure_call', calls.tenure_call)
    return
end

local call = calls[ARGV[1]]
if not call then
    return redis.error_reply('BADTOKEN the first argument is the name of a function')
end
return call(KEYS, { unpack(ARGV, 2) })
