-- postgres_install.sql - fences in a PostgreSQL database; `tenure fence install` runs this.
--
-- A writer presents its token in the transaction that writes:
--
--     BEGIN;
--     SELECT tenure_fence.admit('orders', 34);
--     UPDATE orders SET ...;
--     COMMIT;
--
-- or, without a statement more, in the write itself:
--
--     UPDATE orders SET ... WHERE id = 7 AND (SELECT tenure_fence.admit('orders', 34));
--
-- admit shares a lock of its resource and token until the transaction ends, and then looks where
-- the fence stands. Who moves the fence up takes the lock of the token before alone. So a later
-- holder cannot raise the fence between check and COMMIT, however long the writer is stopped there:
-- it waits for that transaction. Writers with the same token do not wait for each other. These are
-- advisory locks, because sharing a row's lock would be a write to the row.
--
-- Isolation levels: at READ COMMITTED the look is one at the newest row. At REPEATABLE READ and
-- SERIALIZABLE it would be one at the past, so the row itself is locked FOR SHARE: if it has
-- changed since the transaction's snapshot, that is an error of serialization (40001), and nothing
-- of the transaction is kept; tried again, it is stale.
--
-- SQLSTATE TN080: the token is stale, a later holder exists. Do not retry.
-- SQLSTATE TN064: there is no token, or none that can exist.
--
-- Tokens are numeric(20,0): bigint ends at 2^63 - 1, and a double cannot tell 2^53 from 2^53 + 1.
--
-- Nobody but the owner may use this at first. For the role of a writer:
--     GRANT USAGE ON SCHEMA tenure_fence TO writer;
--     GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA tenure_fence TO writer;
--
-- May be run again; what the fences have seen is kept.

BEGIN;

CREATE SCHEMA IF NOT EXISTS tenure_fence;

-- The highest token seen, per resource; 0: none yet. The names are those of leases.
CREATE TABLE IF NOT EXISTS tenure_fence.fences (
    resource text COLLATE "C" PRIMARY KEY
        CHECK (octet_length(resource) <= 255)
        CHECK (resource ~ '^[A-Za-z0-9._~:@-]+(/[A-Za-z0-9._~:@-]+)*$')
        CHECK (resource !~ '(^|/)[.][.]?(/|$)'),
    token numeric(20, 0) NOT NULL CHECK (token BETWEEN 0 AND 18446744073709551615),
    protects boolean NOT NULL DEFAULT false -- A table asks for what was presented.
);

-- Move the fence up to a token, unless it stands higher, when all who were admitted with the token
-- before have ended. Returns where the fence stands: higher than the token means stale.
CREATE OR REPLACE FUNCTION tenure_fence.move(wanted_resource text, wanted_token numeric)
RETURNS numeric LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    highest numeric;
BEGIN
    -- Spelled out for NULL and NaN: anything that is not surely a token is none.
    IF wanted_resource IS NULL OR (wanted_token BETWEEN 1 AND 18446744073709551615
            AND wanted_token = trunc(wanted_token)) IS NOT TRUE THEN
        RAISE EXCEPTION 'tenure: % is not a token', coalesce(wanted_token::text, 'NULL')
            USING ERRCODE = 'TN064';
    END IF;
    -- Stale once is stale for ever: no need to wait for anybody.
    SELECT token INTO highest FROM tenure_fence.fences WHERE resource = wanted_resource;
    IF highest > wanted_token THEN
        RETURN highest;
    END IF;
    LOOP
        -- One at a time; also, at the levels with a snapshot, an error if it is an old one.
        SELECT token INTO highest FROM tenure_fence.fences
            WHERE resource = wanted_resource FOR NO KEY UPDATE;
        EXIT WHEN FOUND;
        INSERT INTO tenure_fence.fences VALUES (wanted_resource, wanted_token)
            ON CONFLICT DO NOTHING;
    END LOOP;
    IF highest < wanted_token THEN
        PERFORM pg_advisory_xact_lock(
            hash_numeric_extended(highest, hashtextextended(wanted_resource, 0)));
        UPDATE tenure_fence.fences SET token = wanted_token WHERE resource = wanted_resource;
        highest := wanted_token;
    END IF;
    -- A fence that stood higher than what a crash brought back would have lied.
    IF current_setting('synchronous_commit') = 'off' THEN
        PERFORM set_config('synchronous_commit', 'on', true);
    END IF;
    RETURN highest;
END
$$;

CREATE OR REPLACE FUNCTION tenure_fence.refuse_stale(resource text, token numeric, highest numeric)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'tenure: token % is stale, the fence of % stands at %', token, resource, highest
        USING ERRCODE = 'TN080', HINT = 'A later holder exists. Stop; do not retry.';
END
$$;

-- Why a protected table refuses; always an exception.
CREATE OR REPLACE FUNCTION tenure_fence.refuse_write(wanted_resource text, held numeric)
RETURNS void LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF held IS NOT NULL THEN
        PERFORM tenure_fence.refuse_stale(wanted_resource, held,
            (SELECT token FROM tenure_fence.fences WHERE resource = wanted_resource));
    END IF;
    RAISE EXCEPTION 'tenure: no token was presented for % in this transaction', wanted_resource
        USING ERRCODE = 'TN064',
        HINT = format('Call tenure_fence.admit(%L, TOKEN) first.', wanted_resource);
END
$$;

-- Move the fence up, or fail: to be called before the holder's first write. Presents nothing.
CREATE OR REPLACE FUNCTION tenure_fence.raise(resource text, token numeric)
RETURNS void LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    highest numeric := tenure_fence.move(resource, token);
BEGIN
    IF highest > token THEN
        PERFORM tenure_fence.refuse_stale(resource, token, highest);
    END IF;
END
$$;

-- admit in the general case: for the first time in a session, at every isolation level, and where a
-- table asks for what was presented.
CREATE OR REPLACE FUNCTION tenure_fence.admit_fully(wanted_resource text, wanted_token numeric)
RETURNS boolean LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    presented text := coalesce(current_setting('tenure_fence.presented', true), '');
    asked boolean;
BEGIN
    PERFORM FROM tenure_fence.fences WHERE resource = wanted_resource AND token = wanted_token;
    IF NOT FOUND THEN
        PERFORM tenure_fence.raise(wanted_resource, wanted_token);
    END IF;
    -- One lock or the other, and the shared one last: who holds it must not wait for the row, as
    -- who moves the fence locks the row and then waits for who holds it.
    IF current_setting('transaction_isolation') = 'read committed' THEN
        PERFORM pg_advisory_xact_lock_shared(
            hash_numeric_extended(wanted_token, hashtextextended(wanted_resource, 0)));
        SELECT protects INTO asked FROM tenure_fence.fences
            WHERE resource = wanted_resource AND token = wanted_token;
    ELSE
        SELECT protects INTO asked FROM tenure_fence.fences
            WHERE resource = wanted_resource AND token = wanted_token FOR SHARE;
    END IF;
    IF NOT FOUND THEN
        PERFORM tenure_fence.raise(wanted_resource, wanted_token); -- It is stale.
    ELSIF asked THEN
        presented := CASE presented WHEN '' THEN '{}' ELSE presented END;
        PERFORM set_config('tenure_fence.presented',
            (presented::jsonb || jsonb_build_object(wanted_resource, wanted_token))::text, true);
    ELSE
        PERFORM set_config('tenure_fence.seen', concat(wanted_resource, ' ', wanted_token), false);
    END IF;
    RETURN true;
END
$$;

-- Admit a token and present it for the rest of the transaction, to the tables that ask for it.
-- Always true, or an exception.
--
-- This and check_write are called for every write. So they do without a search_path of their own,
-- which is costly, and name the schema of every function and operator instead: nobody can slip in
-- another one. The common case, what this session was admitted with before, is one lock and one
-- look at the row; these are two statements, so that the second sees what was committed while the
-- first waited. That the session says it has seen the token is a hint: a fence never goes back.
CREATE OR REPLACE FUNCTION tenure_fence.admit(resource text, token numeric)
RETURNS boolean LANGUAGE plpgsql VOLATILE SECURITY DEFINER AS $$
DECLARE
    asked pg_catalog.bool; -- NULL: not known.
BEGIN
    -- IS TRUE, because NULL would not keep AND from taking the lock.
    IF (pg_catalog.current_setting('tenure_fence.seen', true) OPERATOR(pg_catalog.=)
                pg_catalog.concat(resource, ' ', token)) IS TRUE
            AND pg_catalog.current_setting('transaction_isolation')
                OPERATOR(pg_catalog.=) 'read committed'
            AND pg_catalog.pg_advisory_xact_lock_shared(pg_catalog.hash_numeric_extended(token,
                pg_catalog.hashtextextended(resource, 0))) IS NOT NULL THEN
        SELECT f.protects INTO asked FROM tenure_fence.fences AS f
            WHERE f.resource OPERATOR(pg_catalog.=) admit.resource
            AND f.token OPERATOR(pg_catalog.=) admit.token;
    END IF;
    RETURN asked IS FALSE OR tenure_fence.admit_fully(resource, token);
END
$$;

-- The highest token of a resource; 0 when there was none.
CREATE OR REPLACE FUNCTION tenure_fence.highest(wanted_resource text)
RETURNS numeric LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce((SELECT token FROM tenure_fence.fences WHERE resource = wanted_resource), 0)
$$;

-- All fences.
CREATE OR REPLACE FUNCTION tenure_fence.list()
RETURNS TABLE (resource text, token numeric) LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
    SELECT resource, token FROM tenure_fence.fences WHERE token > 0 ORDER BY resource
$$;

-- What a protected table asks before every write. It does not believe what was presented: it
-- takes the lock and looks at the row, as admit does.
CREATE OR REPLACE FUNCTION tenure_fence.check_write()
RETURNS trigger LANGUAGE plpgsql VOLATILE SECURITY DEFINER AS $$
DECLARE
    presented pg_catalog.text := pg_catalog.current_setting('tenure_fence.presented', true);
    held pg_catalog.numeric;
BEGIN
    IF pg_catalog.length(presented) OPERATOR(pg_catalog.>) 0 THEN
        held := presented::pg_catalog.jsonb OPERATOR(pg_catalog.->>) TG_ARGV[0];
    END IF;
    IF pg_catalog.current_setting('transaction_isolation')
                OPERATOR(pg_catalog.=) 'read committed'
            AND pg_catalog.pg_advisory_xact_lock_shared(pg_catalog.hash_numeric_extended(held,
                pg_catalog.hashtextextended(TG_ARGV[0], 0))) IS NOT NULL THEN
        PERFORM FROM tenure_fence.fences AS f WHERE f.resource OPERATOR(pg_catalog.=) TG_ARGV[0]
            AND f.token OPERATOR(pg_catalog.=) held;
    ELSE
        PERFORM FROM tenure_fence.fences AS f WHERE f.resource OPERATOR(pg_catalog.=) TG_ARGV[0]
            AND f.token OPERATOR(pg_catalog.=) held FOR SHARE;
    END IF;
    IF NOT FOUND THEN
        PERFORM tenure_fence.refuse_write(TG_ARGV[0], held);
    END IF;
    IF TG_LEVEL OPERATOR(pg_catalog.=) 'STATEMENT' THEN
        RETURN NULL;
    ELSIF TG_OP OPERATOR(pg_catalog.=) 'DELETE' THEN
        RETURN OLD;
    END IF;
    RETURN NEW;
END
$$;

CREATE OR REPLACE FUNCTION tenure_fence.unprotect(protected regclass)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('DROP TRIGGER IF EXISTS tenure_fence ON %s', protected);
    EXECUTE format('DROP TRIGGER IF EXISTS tenure_fence_row ON %s', protected);
END
$$;

-- Make a table refuse INSERT, UPDATE, DELETE, TRUNCATE and COPY without the current token of a
-- resource, once per statement. The partitions of a table can be written to directly, so there
-- every row asks; such a trigger is copied to all partitions, also to those that are still to come.
CREATE OR REPLACE FUNCTION tenure_fence.protect(protected regclass, resource text)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    kind "char" := (SELECT relkind FROM pg_catalog.pg_class WHERE oid = protected);
BEGIN
    IF kind NOT IN ('r', 'p') THEN
        RAISE EXCEPTION 'tenure: % is not a table', protected USING ERRCODE = '42809';
    END IF;
    INSERT INTO tenure_fence.fences VALUES (resource, 0, true)
        ON CONFLICT ON CONSTRAINT fences_pkey DO UPDATE SET protects = true;
    PERFORM tenure_fence.unprotect(protected);
    EXECUTE format('CREATE TRIGGER tenure_fence BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON %s'
        ' FOR EACH STATEMENT EXECUTE FUNCTION tenure_fence.check_write(%L)', protected, resource);
    IF kind = 'p' THEN
        EXECUTE format('CREATE TRIGGER tenure_fence_row BEFORE INSERT OR UPDATE OR DELETE ON %s'
            ' FOR EACH ROW EXECUTE FUNCTION tenure_fence.check_write(%L)', protected, resource);
    END IF;
END
$$;

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA tenure_fence FROM PUBLIC;

COMMIT;
