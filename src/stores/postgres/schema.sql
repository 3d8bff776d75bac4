-- schema.sql - what Tenure keeps in PostgreSQL, and every step it takes there.
--
-- Run in one transaction, inside a schema named tenure; run again by its owner, it brings an older
-- version up to date and keeps every lease and token. Clients call the functions and touch
-- no table: who may use the schema may campaign, and reads nobody's secrets (only hashes of them
-- are kept). To install it by hand:
--
--   CREATE SCHEMA tenure;  \i schema.sql  GRANT USAGE ON SCHEMA tenure TO app;
--
-- Every step is one statement, so nothing depends on the connection that carries it. Steps that
-- change a lease take the one row of tenure.state first: they happen one after the other, and no
-- two of them can wait for each other. Renewals touch their own session only and wait for nobody.
--
-- There is no clock. A session's beat changes with every renewal; whoever saw it stand still for
-- the session's TTL, on its own clock, may end it with tenure.evict, which compares once more.
--
-- Whoever changes this file writes the next number into the comment on tenure.step at its end.

SELECT pg_catalog.pg_advisory_xact_lock(7420, 1);

-- The row is made with the table and never again: without it nothing is granted, as during a
-- restore, whose own row is still to come.
DO $$
BEGIN
    IF pg_catalog.to_regclass('tenure.state') IS NULL THEN
        CREATE TABLE tenure.state (
            one boolean PRIMARY KEY DEFAULT true CHECK (one),
            token bigint NOT NULL             -- The last one granted. Never lower it, never delete.
        );
        INSERT INTO tenure.state (token) VALUES (0);
    END IF;
END
$$;

CREATE TABLE IF NOT EXISTS tenure.session (
    num bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    secret uuid NOT NULL UNIQUE,              -- A hash of it.
    beat bigint NOT NULL,                     -- Rises with every renewal.
    seq bigint NOT NULL,                      -- Of the newest renewal.
    ttl bigint NOT NULL,                      -- Nanoseconds.
    label bytea NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);

CREATE TABLE IF NOT EXISTS tenure.lease (
    name text COLLATE "C" PRIMARY KEY,
    token bigint NOT NULL,                    -- Of the present or the last term.
    session bigint,                           -- NULL: free.
    term uuid,                                -- A hash of the present or the last term's secret.
    released_token bigint,                    -- What was given back last, so that it can be said
    released_term uuid,                       -- again, also when its session is over.
    queued boolean NOT NULL DEFAULT false,    -- The holder had waited, and may not know yet.
    revoked boolean NOT NULL DEFAULT false
) WITH (fillfactor = 70);
CREATE INDEX IF NOT EXISTS lease_session ON tenure.lease (session) WHERE session IS NOT NULL;

CREATE TABLE IF NOT EXISTS tenure.waiter (
    place bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text COLLATE "C" NOT NULL,
    session bigint NOT NULL,
    term uuid NOT NULL,
    UNIQUE (name, session, term)
);
CREATE INDEX IF NOT EXISTS waiter_name ON tenure.waiter (name, place);
CREATE INDEX IF NOT EXISTS waiter_session ON tenure.waiter (session);

-- --- Parts of steps ---------------------------------------------------------------------------

-- Where commits are not waited for, ours are: an acknowledged step must outlive a crash.
CREATE OR REPLACE FUNCTION tenure.endure() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF current_setting('synchronous_commit') = 'off' THEN
        PERFORM set_config('synchronous_commit', 'on', true);
    END IF;
END $$;

CREATE OR REPLACE FUNCTION tenure.enter() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM tenure.endure();
    IF current_setting('transaction_isolation') = 'read committed' THEN
        PERFORM 1 FROM tenure.state FOR UPDATE;
    ELSE
        -- Who waited here must not go on with what it saw before: this fails, and is asked again.
        UPDATE tenure.state SET token = token;
    END IF;
END $$;

-- What LISTEN tenure hears: kind, token, session, beat, TTL, term, label, name. Kinds: g granted to
-- a waiter, h held, f free, r revoked.
CREATE OR REPLACE FUNCTION tenure.tell(a_kind text, a_name text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    l tenure.lease;
    s tenure.session;
BEGIN
    SELECT x.* INTO l FROM tenure.lease x WHERE x.name = a_name;
    SELECT x.* INTO s FROM tenure.session x WHERE x.num = l.session;
    PERFORM pg_notify('tenure', concat_ws(' ', a_kind, l.token, coalesce(s.num, 0),
        coalesce(s.beat, 0), coalesce(s.ttl, 0), replace(coalesce(l.term::text, '-'), '-', ''),
        encode(coalesce(s.label, ''), 'hex'), l.name));
END $$;

CREATE OR REPLACE FUNCTION tenure.grant_to(a_name text, a_session bigint, a_term uuid, a_kind text)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    fresh bigint;
BEGIN
    UPDATE tenure.state s SET token = s.token + 1 RETURNING s.token INTO fresh;
    UPDATE tenure.lease l
        SET token = fresh, session = a_session, term = a_term, queued = (a_kind = 'g'),
            revoked = false
        WHERE l.name = a_name;
    PERFORM tenure.tell(a_kind, a_name);
END $$;

-- The term is over; the first waiter has the next one.
CREATE OR REPLACE FUNCTION tenure.vacate(a_name text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    next tenure.waiter;
BEGIN
    SELECT w.* INTO next FROM tenure.waiter w JOIN tenure.session s ON s.num = w.session
        WHERE w.name = a_name ORDER BY w.place LIMIT 1;
    IF FOUND THEN
        DELETE FROM tenure.waiter w WHERE w.place = next.place;
        PERFORM tenure.grant_to(a_name, next.session, next.term, 'g');
    ELSE
        UPDATE tenure.lease l SET session = NULL, revoked = false WHERE l.name = a_name;
        PERFORM tenure.tell('f', a_name);
    END IF;
END $$;

-- All at once, so that none of them is granted what another of them held.
CREATE OR REPLACE FUNCTION tenure.end_sessions(a_nums bigint[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    held text;
BEGIN
    DELETE FROM tenure.waiter w WHERE w.session = ANY (a_nums);
    DELETE FROM tenure.session s WHERE s.num = ANY (a_nums);
    FOR held IN SELECT l.name FROM tenure.lease l WHERE l.session = ANY (a_nums)
            ORDER BY l.name LOOP
        PERFORM tenure.vacate(held);
    END LOOP;
END $$;

CREATE OR REPLACE FUNCTION tenure.do_acquire(a_num bigint, a_term uuid, a_name text, a_wait boolean)
RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    l tenure.lease;
    held boolean;
BEGIN
    INSERT INTO tenure.lease (name, token) VALUES (a_name, 0) ON CONFLICT DO NOTHING;
    SELECT x.* INTO l FROM tenure.lease x WHERE x.name = a_name;
    held := EXISTS (SELECT 1 FROM tenure.session s WHERE s.num = l.session);
    IF held AND l.session = a_num AND l.term = a_term AND NOT l.revoked THEN
        RETURN 'granted';                     -- A repetition: the same term, the same token.
    ELSIF NOT held AND l.term = a_term THEN
        RETURN 'stale';                       -- Delayed on its way: this term is over.
    ELSIF NOT held THEN
        DELETE FROM tenure.waiter w
            WHERE w.name = a_name AND w.session = a_num AND w.term = a_term;
        PERFORM tenure.grant_to(a_name, a_num, a_term, 'h');
        RETURN 'granted';
    ELSIF a_wait THEN
        INSERT INTO tenure.waiter (name, session, term) VALUES (a_name, a_num, a_term)
            ON CONFLICT DO NOTHING;           -- Asking again keeps the place.
        RETURN 'queued';
    END IF;
    RETURN 'held';
END $$;

-- Token 0: whatever the term has or waits for.
CREATE OR REPLACE FUNCTION tenure.do_release(a_num bigint, a_term uuid, a_name text, a_token bigint)
RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    l tenure.lease;
    held boolean;
BEGIN
    IF a_token = 0 THEN
        DELETE FROM tenure.waiter w
            WHERE w.name = a_name AND w.session = a_num AND w.term = a_term;
    END IF;
    SELECT x.* INTO l FROM tenure.lease x WHERE x.name = a_name;
    IF NOT FOUND THEN
        RETURN CASE WHEN a_token = 0 THEN 'released' ELSE 'stale' END;
    END IF;
    held := EXISTS (SELECT 1 FROM tenure.session s WHERE s.num = l.session);
    IF a_token <> 0 AND l.token <> a_token THEN
        RETURN 'stale';
    ELSIF held AND l.session = a_num AND l.term = a_term THEN
        UPDATE tenure.lease x SET released_token = l.token, released_term = a_term
            WHERE x.name = a_name;
        PERFORM tenure.vacate(a_name);
        RETURN 'released';
    ELSIF a_token = 0 OR (NOT held AND l.term = a_term) THEN
        RETURN 'released';                    -- Said again; the first reply was lost.
    END IF;
    RETURN CASE WHEN held THEN 'denied' ELSE 'stale' END;
END $$;

-- The holder is told at once and with every renewal. The lease passes on when it is given back, or
-- when an observer saw the revocation stand for the holder's TTL (tenure.lapse).
CREATE OR REPLACE FUNCTION tenure.do_revoke(a_name text, a_token bigint)
RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    l tenure.lease;
BEGIN
    SELECT x.* INTO l FROM tenure.lease x JOIN tenure.session s ON s.num = x.session
        WHERE x.name = a_name;
    IF NOT FOUND OR (a_token <> 0 AND a_token <> l.token) THEN
        RETURN 'stale';
    END IF;
    UPDATE tenure.lease x SET revoked = true WHERE x.name = a_name;
    PERFORM tenure.tell('r', a_name);
    RETURN 'ok';
END $$;

-- Whoever deletes a lease that is held revokes it: the row stays until the holder has stopped.
CREATE OR REPLACE FUNCTION tenure.keep_held() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NOT EXISTS (SELECT 1 FROM tenure.session s WHERE s.num = OLD.session) THEN
        RETURN OLD;
    END IF;
    UPDATE tenure.lease l SET revoked = true WHERE l.name = OLD.name;
    PERFORM tenure.tell('r', OLD.name);
    RAISE NOTICE 'tenure: % is held, and is revoked instead; its holder stops first', OLD.name;
    RETURN NULL;
END $$;
DROP TRIGGER IF EXISTS keep_held ON tenure.lease;
CREATE TRIGGER keep_held BEFORE DELETE ON tenure.lease
    FOR EACH ROW EXECUTE FUNCTION tenure.keep_held();

-- What session a_num should know: its grants above a_known, its revocations, and the sessions that
-- it has to observe: the holder and all waiters before it, wherever it waits. All of them, and all
-- the time: however many of them are silent, each has its TTL at the same time as the others.
CREATE OR REPLACE FUNCTION tenure.news(a_num bigint, a_known bigint)
RETURNS TABLE (kind text, name text, term uuid, num bigint, token bigint, beat bigint, ttl bigint)
LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN l.revoked THEN 'revoked' ELSE 'granted' END,
            l.name, l.term, a_num, l.token, 0::bigint, 0::bigint
        FROM tenure.lease l
        WHERE l.session = a_num AND (l.revoked OR l.queued AND l.token > a_known)
    UNION ALL
    -- Token 0: a_num comes right after it, and ends it before the others do.
    SELECT 'beat', NULL, NULL, s.num, min(o.rank), s.beat, s.ttl
        FROM (SELECT l.session,
                CASE WHEN EXISTS (SELECT 1 FROM tenure.waiter p
                    WHERE p.name = w.name AND p.place < w.place) THEN 1 ELSE 0 END::bigint AS rank
                FROM tenure.waiter w JOIN tenure.lease l ON l.name = w.name
                WHERE w.session = a_num
            UNION ALL
            SELECT p.session,
                CASE p.place WHEN max(p.place) OVER (PARTITION BY w.place) THEN 0 ELSE 1 END
                FROM tenure.waiter w JOIN tenure.waiter p ON p.name = w.name AND p.place < w.place
                WHERE w.session = a_num) o
        JOIN tenure.session s ON s.num = o.session
        WHERE s.num <> a_num
        GROUP BY s.num
    UNION ALL
    SELECT CASE WHEN s.num IS NULL THEN 'vacant' ELSE 'lapsing' END,
            l.name, NULL, coalesce(s.num, 0), l.token, 0, coalesce(s.ttl, 0)
        FROM tenure.waiter w JOIN tenure.lease l ON l.name = w.name
        LEFT JOIN tenure.session s ON s.num = l.session
        WHERE w.session = a_num AND (l.revoked OR s.num IS NULL)
    UNION ALL
    -- Somebody deleted the record.
    SELECT 'vacant', w.name, NULL, 0, 0, 0, 0
        FROM tenure.waiter w
        WHERE w.session = a_num
            AND NOT EXISTS (SELECT 1 FROM tenure.lease l WHERE l.name = w.name);
$$;

-- --- Steps ------------------------------------------------------------------------------------

-- One operation on one name: acquire, release, revoke or read.
CREATE OR REPLACE FUNCTION tenure.step(a_kind text, a_secret uuid, a_term uuid, a_name text,
    a_token bigint, a_wait boolean)
RETURNS TABLE (answer text, held boolean, revoked boolean, token bigint, num bigint, beat bigint,
    ttl bigint, term uuid, label bytea)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    me bigint;
    said text;
BEGIN
    IF a_kind <> 'read' THEN
        PERFORM tenure.enter();
    END IF;
    IF a_kind = 'acquire' OR a_kind = 'release' THEN
        SELECT s.num INTO me FROM tenure.session s WHERE s.secret = a_secret;
        IF a_kind = 'release' AND EXISTS (SELECT 1 FROM tenure.lease l WHERE l.name = a_name
                AND l.released_token = a_token AND l.released_term = a_term) THEN
            said := 'released';               -- Said again, after the session or the next grant.
        ELSIF me IS NULL THEN
            said := 'gone';
        ELSIF a_kind = 'acquire' THEN
            said := tenure.do_acquire(me, a_term, a_name, a_wait);
        ELSE
            said := tenure.do_release(me, a_term, a_name, a_token);
        END IF;
    ELSIF a_kind = 'revoke' THEN
        said := tenure.do_revoke(a_name, a_token);
    ELSE
        said := 'read';
    END IF;
    RETURN QUERY SELECT said, s.num IS NOT NULL, l.revoked AND s.num IS NOT NULL,
            coalesce(l.token, 0), coalesce(s.num, 0), coalesce(s.beat, 0), coalesce(s.ttl, 0),
            l.term, s.label
        FROM (SELECT 1) one LEFT JOIN tenure.lease l ON l.name = a_name
        LEFT JOIN tenure.session s ON s.num = l.session;
END $$;

-- The first row: ok, stale or gone; with the session, its leases in token, and its TTL. Then news,
-- and the beats of those sessions of a_nums that still are.
CREATE OR REPLACE FUNCTION tenure.renew(a_secret uuid, a_seq bigint, a_known bigint,
    a_nums bigint[])
RETURNS TABLE (kind text, name text, term uuid, num bigint, token bigint, beat bigint, ttl bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    me tenure.session;
    said text := 'ok';
BEGIN
    PERFORM tenure.endure();
    -- Number 0 is newer than all before.
    UPDATE tenure.session s SET beat = s.beat + 1, seq = greatest(a_seq, s.seq)
        WHERE s.secret = a_secret AND (s.seq < a_seq OR a_seq = 0) RETURNING s.* INTO me;
    IF NOT FOUND THEN
        SELECT s.* INTO me FROM tenure.session s WHERE s.secret = a_secret;
        said := CASE WHEN FOUND THEN 'stale' ELSE 'gone' END;
    END IF;
    RETURN QUERY SELECT said, NULL::text, NULL::uuid, coalesce(me.num, 0),
        (SELECT count(*) FROM tenure.lease l WHERE l.session = me.num),
        coalesce(me.beat, 0), coalesce(me.ttl, 0);
    IF said = 'ok' THEN
        RETURN QUERY SELECT n.* FROM tenure.news(me.num, a_known) n;
        -- Now and then any session at all, so that what the dead left behind is found in the end.
        IF random() < 0.25 THEN
            RETURN QUERY SELECT 'stray', NULL::text, NULL::uuid, s.num, 1::bigint, s.beat,
                    greatest(s.ttl, 2 * me.ttl)
                FROM tenure.session s
                WHERE s.num <> me.num AND s.num >= (SELECT min(x.num)
                    + (random() * (max(x.num) - min(x.num)))::bigint FROM tenure.session x)
                ORDER BY s.num LIMIT 1;
        END IF;
    END IF;
    RETURN QUERY SELECT 'seen', NULL::text, NULL::uuid, s.num, 0::bigint, s.beat, s.ttl
        FROM tenure.session s WHERE s.num = ANY (a_nums);
END $$;

-- A session that exists is renewed: the first reply was lost.
CREATE OR REPLACE FUNCTION tenure.open(a_secret uuid, a_seq bigint, a_ttl bigint, a_label bytea)
RETURNS TABLE (kind text, name text, term uuid, num bigint, token bigint, beat bigint, ttl bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    PERFORM tenure.endure();
    INSERT INTO tenure.session (secret, beat, seq, ttl, label)
        VALUES (a_secret, 0, a_seq - 1, a_ttl, a_label) ON CONFLICT (secret) DO NOTHING;
    RETURN QUERY SELECT r.* FROM tenure.renew(a_secret, a_seq, 0, '{}') r;
END $$;

CREATE OR REPLACE FUNCTION tenure.close(a_secret uuid) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    me bigint;
BEGIN
    PERFORM tenure.enter();
    SELECT s.num INTO me FROM tenure.session s WHERE s.secret = a_secret FOR UPDATE;
    IF NOT FOUND THEN
        RETURN 'gone';
    END IF;
    PERFORM tenure.end_sessions(ARRAY[me]);
    RETURN 'ok';
END $$;

-- What a renewal tells beside renewing, for any number of sessions. One row per session that is no
-- more: gone, with its place in a_secrets.
CREATE OR REPLACE FUNCTION tenure.look(a_secrets uuid[], a_known bigint[], a_nums bigint[])
RETURNS TABLE (kind text, name text, term uuid, num bigint, token bigint, beat bigint, ttl bigint)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY SELECT n.* FROM unnest(a_secrets, a_known) o (secret, known)
        JOIN tenure.session s ON s.secret = o.secret
        CROSS JOIN LATERAL tenure.news(s.num, o.known) n;
    RETURN QUERY SELECT 'seen', NULL::text, NULL::uuid, s.num, 0::bigint, s.beat, s.ttl
        FROM tenure.session s WHERE s.num = ANY (a_nums);
END $$;

-- An observer saw each session of a_nums stand still at its beat of a_beats for its TTL. Those that
-- still do are over. Returns those that renewed meanwhile.
CREATE OR REPLACE FUNCTION tenure.evict(a_nums bigint[], a_beats bigint[])
RETURNS TABLE (num bigint, beat bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    PERFORM tenure.enter();
    PERFORM 1 FROM tenure.session s WHERE s.num = ANY (a_nums) ORDER BY s.num FOR UPDATE;
    PERFORM tenure.end_sessions(ARRAY(SELECT s.num FROM unnest(a_nums, a_beats) o (num, beat)
        JOIN tenure.session s ON s.num = o.num AND s.beat = o.beat));
    RETURN QUERY SELECT s.num, s.beat FROM tenure.session s WHERE s.num = ANY (a_nums);
END $$;

-- An observer saw a_token of a_name revoked for its holder's TTL (or, with token 0, that nobody
-- holds what others wait for): it passes on.
CREATE OR REPLACE FUNCTION tenure.lapse(a_name text, a_token bigint) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    l tenure.lease;
    held boolean;
BEGIN
    PERFORM tenure.enter();
    INSERT INTO tenure.lease (name, token)
        SELECT a_name, 0 WHERE EXISTS (SELECT 1 FROM tenure.waiter w WHERE w.name = a_name)
        ON CONFLICT DO NOTHING;
    SELECT x.* INTO l FROM tenure.lease x WHERE x.name = a_name;
    held := EXISTS (SELECT 1 FROM tenure.session s WHERE s.num = l.session);
    IF (held AND l.revoked AND l.token = a_token) OR (NOT held AND l.name IS NOT NULL) THEN
        PERFORM tenure.vacate(a_name);
        RETURN 'ok';
    END IF;
    RETURN 'stale';
END $$;

CREATE OR REPLACE FUNCTION tenure.list(a_prefix text)
RETURNS TABLE (name text, held boolean, revoked boolean, token bigint, num bigint, beat bigint,
    ttl bigint, term uuid, label bytea)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT l.name, s.num IS NOT NULL, l.revoked AND s.num IS NOT NULL, l.token,
            coalesce(s.num, 0), coalesce(s.beat, 0), coalesce(s.ttl, 0), l.term, s.label
        FROM tenure.lease l LEFT JOIN tenure.session s ON s.num = l.session
        WHERE starts_with(l.name, a_prefix) AND l.token > 0 ORDER BY l.name;
$$;

-- The labels of those who wait for a name, the next one first. For people: no step needs it, so it
-- has no number of its own; clients ask whether it is there.
CREATE OR REPLACE FUNCTION tenure.line(a_name text) RETURNS TABLE (label bytea)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT s.label FROM tenure.waiter w JOIN tenure.session s ON s.num = w.session
        WHERE w.name = a_name ORDER BY w.place;
$$;

-- For names that only a test has used: what nobody holds and nobody waits for.
CREATE OR REPLACE FUNCTION tenure.forget(a_prefix text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM tenure.enter();
    DELETE FROM tenure.lease l
        WHERE starts_with(l.name, a_prefix)
            AND NOT EXISTS (SELECT 1 FROM tenure.session s WHERE s.num = l.session)
            AND NOT EXISTS (SELECT 1 FROM tenure.waiter w WHERE w.name = l.name);
END $$;

-- Version 3's evict(bigint, bigint) and end_session stay, for its processes that still run.
COMMENT ON FUNCTION tenure.step(text, uuid, uuid, text, bigint, boolean) IS 'tenure schema 4';
