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
-- admit takes a shared advisory lock on its resource and token until the transaction ends, and then
-- reads where the fence stands. A raise takes the lock of the present token exclusively. So a later
-- holder cannot raise the fence between check and COMMIT, however long the writer is stopped there:
-- it waits for that transaction. Writers with the same token do not wait for each other. The server
-- queues advisory locks: a writer that comes after a waiting raise waits behind it. So a raise
-- waits only for the transactions that were open when it began, however busy the old holder is. Row
-- locks have no such queue: shared ones overtake.
--
-- Isolation levels: at READ COMMITTED every statement reads the newest row. At REPEATABLE READ and
-- SERIALIZABLE it reads the past, so after the advisory lock admit also locks the row FOR SHARE: if
-- the row has changed since the transaction's snapshot, the server reports a serialization failure
-- (40001) and keeps nothing of the transaction; the retry is told that its token is stale.
--
-- Order of locks, at every level and in every function: the advisory lock first, then the row. A
-- transaction that holds the row waits for no advisory lock.
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
-- May be run again: it keeps what the fences have seen, replaces what an older version installed,
-- and extends the protection of tables to partitions and inheritance children made since.

BEGIN ISOLATION LEVEL READ COMMITTED;

-- No operator or function of another schema is taken for one of these.
SET LOCAL search_path = pg_catalog, pg_temp;

CREATE SCHEMA IF NOT EXISTS tenure_fence;

-- A schema that another role made first is its own: it could replace all that stands in it.
DO $$
BEGIN
    IF EXISTS (
            SELECT nspowner FROM pg_namespace WHERE nspname = 'tenure_fence'
            UNION ALL
            SELECT relowner FROM pg_class JOIN pg_namespace n ON n.oid = relnamespace
                WHERE nspname = 'tenure_fence'
            EXCEPT
            SELECT oid FROM pg_roles WHERE rolname = current_user OR rolsuper) THEN
        RAISE EXCEPTION 'tenure: the schema tenure_fence belongs to another role'
            USING ERRCODE = '42501', HINT = 'Drop it, or install as that role.';
    END IF;
END
$$;

-- The highest token seen, per resource; 0: none yet. The names are those of leases.
CREATE TABLE IF NOT EXISTS tenure_fence.fences (
    resource text COLLATE "C" PRIMARY KEY
        CHECK (octet_length(resource) <= 255)
        CHECK (resource ~ '^[A-Za-z0-9._~:@-]+(/[A-Za-z0-9._~:@-]+)*$')
        CHECK (resource !~ '(^|/)[.][.]?(/|$)'),
    token numeric(20, 0) NOT NULL CHECK (token BETWEEN 0 AND 18446744073709551615),
    protects boolean NOT NULL DEFAULT false -- A table asks for what was presented.
);

-- Take the shared lock of a resource and token for the rest of the transaction. Returns whether a
-- table asks for what was presented, or NULL when the fence does not stand at this token.
CREATE OR REPLACE FUNCTION tenure_fence.hold(wanted_resource text, wanted_token numeric)
RETURNS boolean LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    asked boolean;
BEGIN
    PERFORM pg_advisory_xact_lock_shared(
        hash_numeric_extended(wanted_token, hashtextextended(wanted_resource, 0)));
    IF current_setting('transaction_isolation') = 'read committed' THEN
        SELECT protects INTO asked FROM tenure_fence.fences
            WHERE resource = wanted_resource AND token = wanted_token;
    ELSE
        SELECT protects INTO asked FROM tenure_fence.fences
            WHERE resource = wanted_resource AND token = wanted_token FOR SHARE;
    END IF;
    RETURN asked;
END
$$;

-- Move the fence up to a token, unless it stands higher, when all transactions admitted with the
-- present token have ended. Returns where the fence stands: higher than the token means stale.
CREATE OR REPLACE FUNCTION tenure_fence.move(wanted_resource text, wanted_token numeric)
RETURNS numeric LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    highest numeric;
    locked numeric; -- The token whose lock this transaction has taken.
BEGIN
    -- Spelled out for NULL and NaN: anything that is not surely a token is none.
    IF wanted_resource IS NULL OR (wanted_token BETWEEN 1 AND 18446744073709551615
            AND wanted_token = trunc(wanted_token)) IS NOT TRUE THEN
        RAISE EXCEPTION 'tenure: % is not a token', coalesce(wanted_token::text, 'NULL')
            USING ERRCODE = 'TN064';
    END IF;
    -- Lock, then read again: another raise may have moved the fence while this one waited. With the
    -- lock of the token where the fence still stands, nobody else can move it.
    LOOP
        SELECT token INTO highest FROM tenure_fence.fences WHERE resource = wanted_resource;
        IF highest > wanted_token THEN
            RETURN highest; -- Stale once is stale for ever: no need to wait.
        END IF;
        EXIT WHEN highest = wanted_token OR highest = locked;
        IF highest IS NULL THEN
            INSERT INTO tenure_fence.fences VALUES (wanted_resource, wanted_token)
                ON CONFLICT DO NOTHING;
        ELSE
            PERFORM pg_advisory_xact_lock(
                hash_numeric_extended(highest, hashtextextended(wanted_resource, 0)));
            locked := highest;
        END IF;
    END LOOP;
    IF highest < wanted_token THEN
        -- With an old snapshot this fails when the row has changed.
        UPDATE tenure_fence.fences SET token = wanted_token WHERE resource = wanted_resource;
        highest := wanted_token;
    ELSIF current_setting('transaction_isolation') <> 'read committed' THEN
        PERFORM tenure_fence.hold(wanted_resource, wanted_token); -- So does this.
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
    asked := tenure_fence.hold(wanted_resource, wanted_token);
    IF asked IS NULL THEN
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

-- What a protected table asks before every row that is written, and before TRUNCATE. It does not
-- believe what was presented: it takes the lock and reads the row, as hold does.
CREATE OR REPLACE FUNCTION tenure_fence.check_write()
RETURNS trigger LANGUAGE plpgsql VOLATILE SECURITY DEFINER AS $$
DECLARE
    presented pg_catalog.text := pg_catalog.current_setting('tenure_fence.presented', true);
    held pg_catalog.numeric;
    locked pg_catalog.bool;
BEGIN
    IF pg_catalog.length(presented) OPERATOR(pg_catalog.>) 0 THEN
        held := presented::pg_catalog.jsonb OPERATOR(pg_catalog.->>) TG_ARGV[0];
    END IF;
    locked := pg_catalog.pg_advisory_xact_lock_shared(pg_catalog.hash_numeric_extended(held,
        pg_catalog.hashtextextended(TG_ARGV[0], 0))) IS NOT NULL;
    IF NOT locked OR pg_catalog.current_setting('transaction_isolation')
                OPERATOR(pg_catalog.=) 'read committed' THEN
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

-- --- Protected tables ------------------------------------------------------------------------
--
-- A table has a trigger for every row, because a statement's trigger does not fire when the write
-- comes through a parent (of a partition or an inheritance child), nor when logical replication
-- applies it; and one for TRUNCATE, which fires however the table is reached. Both are ENABLE
-- ALWAYS: session_replication_role = replica does not switch them off.
--
-- Below a protected table, the server copies the row trigger of a partitioned table to every
-- partition, also to later ones. It copies neither TRUNCATE triggers nor anything to inheritance
-- children, so those get triggers here, with the word 'child' as a second argument.

-- A table and all partitions and inheritance children below it.
CREATE OR REPLACE FUNCTION tenure_fence.family(head regclass)
RETURNS SETOF regclass LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    WITH RECURSIVE member (id) AS (
        SELECT head::oid
        UNION SELECT i.inhrelid FROM member JOIN pg_inherits i ON i.inhparent = member.id)
    SELECT id::regclass FROM member
$$;

-- The triggers that there are, but for the server's own copies. own: of a table that was named to
-- protect. always: also with session_replication_role = replica, copies included.
CREATE OR REPLACE FUNCTION tenure_fence.guards()
RETURNS TABLE (guarded regclass, guard name, resource text, own boolean, always boolean)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT t.tgrelid::regclass, t.tgname, split_part(encode(t.tgargs, 'escape'), E'\\000', 1),
            t.tgnargs = 1,
            NOT EXISTS (SELECT FROM pg_trigger c WHERE c.tgfoid = t.tgfoid AND c.tgname = t.tgname
                AND c.tgenabled <> 'A')
        FROM pg_trigger t
        WHERE t.tgfoid = 'tenure_fence.check_write()'::regprocedure
            AND coalesce(to_jsonb(t) ->> 'tgparentid', '0') = '0' -- None before version 13.
$$;

-- The triggers that there should be when subject is protected for its resource, or for none when
-- that is NULL, and all other tables as they are. The names are unique in every family.
CREATE OR REPLACE FUNCTION tenure_fence.wanted_guards(subject regclass, subject_resource text)
RETURNS TABLE (guarded regclass, guard name, resource text, own boolean, always boolean)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT c.oid::regclass, concat('tenure_fence_', h.oid, kind.suffix)::name, head.resource,
            c.oid = h.oid, true
        FROM (SELECT g.guarded, g.resource FROM tenure_fence.guards() g
                WHERE g.own AND g.guarded IS DISTINCT FROM subject
            UNION SELECT subject, subject_resource WHERE subject_resource IS NOT NULL) head
        JOIN pg_class h ON h.oid = head.guarded
        CROSS JOIN LATERAL tenure_fence.family(head.guarded) member
        JOIN pg_class c ON c.oid = member
        CROSS JOIN (VALUES (''), ('_truncate')) kind (suffix)
        WHERE CASE kind.suffix WHEN '' THEN c.oid = h.oid OR h.relkind = 'r'
            ELSE c.relkind IN ('r', 'p') END -- A foreign table need not have it.
$$;

-- Make it so. Only tables where something differs are locked. Both lists come from one statement,
-- because the first half of the work removes what the second list is made from.
CREATE OR REPLACE FUNCTION tenure_fence.arrange(subject regclass, subject_resource text)
RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    step text;
BEGIN
    FOREACH step IN ARRAY ARRAY(
        SELECT format('DROP TRIGGER %I ON %s', guard, guarded)
            FROM (SELECT * FROM tenure_fence.guards() EXCEPT
                SELECT * FROM tenure_fence.wanted_guards(subject, subject_resource)) surplus
        UNION ALL
        SELECT format('CREATE TRIGGER %1$I BEFORE %3$s ON %2$s FOR EACH %4$s'
                ' EXECUTE FUNCTION tenure_fence.check_write(%5$L%6$s);'
                ' ALTER TABLE %2$s ENABLE ALWAYS TRIGGER %1$I', guard, guarded,
                CASE WHEN truncates THEN 'TRUNCATE' ELSE 'INSERT OR UPDATE OR DELETE' END,
                CASE WHEN truncates THEN 'STATEMENT' ELSE 'ROW' END,
                resource, CASE WHEN own THEN '' ELSE ', child' END)
            FROM (SELECT *, guard LIKE '%truncate' AS truncates FROM (
                SELECT * FROM tenure_fence.wanted_guards(subject, subject_resource) EXCEPT
                SELECT * FROM tenure_fence.guards()) missing) planned) LOOP
        EXECUTE step;
    END LOOP;
END
$$;

CREATE OR REPLACE FUNCTION tenure_fence.unprotect(protected regclass)
RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM tenure_fence.arrange(protected, NULL);
END
$$;

-- Make a table, and all below it, refuse INSERT, UPDATE, DELETE, MERGE, COPY and TRUNCATE without
-- the current token of a resource, whichever way they come.
CREATE OR REPLACE FUNCTION tenure_fence.protect(protected regclass, resource text)
RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM FROM pg_catalog.pg_class WHERE oid = protected AND relkind IN ('r', 'p');
    IF NOT FOUND THEN
        RAISE EXCEPTION 'tenure: % is not a table', protected USING ERRCODE = '42809';
    END IF;
    -- The fence before the table, as a writer does that presents its token first.
    INSERT INTO tenure_fence.fences VALUES (resource, 0, true)
        ON CONFLICT ON CONSTRAINT fences_pkey DO UPDATE SET protects = true;
    -- Nothing is attached or made below it meanwhile.
    EXECUTE format('LOCK TABLE %s IN SHARE ROW EXCLUSIVE MODE', protected);
    PERFORM tenure_fence.arrange(protected, resource);
END
$$;

-- What an older version has protected, and what has come below protected tables since.
SELECT tenure_fence.arrange(NULL, NULL);

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA tenure_fence FROM PUBLIC;

COMMIT;
