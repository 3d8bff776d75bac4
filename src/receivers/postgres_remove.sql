-- postgres_remove.sql - `tenure fence remove` without a table runs this: the fences and all they
-- have seen are gone. Refused while a table is protected: unprotect it first.

BEGIN;
DROP FUNCTION IF EXISTS tenure_fence.check_write();
DROP FUNCTION IF EXISTS tenure_fence.protect(regclass, text);
DROP FUNCTION IF EXISTS tenure_fence.unprotect(regclass);
DROP FUNCTION IF EXISTS tenure_fence.arrange(regclass, text);
DROP FUNCTION IF EXISTS tenure_fence.wanted_guards(regclass, text);
DROP FUNCTION IF EXISTS tenure_fence.guards();
DROP FUNCTION IF EXISTS tenure_fence.family(regclass);
DROP FUNCTION IF EXISTS tenure_fence.admit(text, numeric);
DROP FUNCTION IF EXISTS tenure_fence.admit_fully(text, numeric);
DROP FUNCTION IF EXISTS tenure_fence.raise(text, numeric);
DROP FUNCTION IF EXISTS tenure_fence.highest(text);
DROP FUNCTION IF EXISTS tenure_fence.list();
DROP FUNCTION IF EXISTS tenure_fence.move(text, numeric);
DROP FUNCTION IF EXISTS tenure_fence.hold(text, numeric);
DROP FUNCTION IF EXISTS tenure_fence.refuse_write(text, numeric);
DROP FUNCTION IF EXISTS tenure_fence.refuse_stale(text, numeric, numeric);
DROP TABLE IF EXISTS tenure_fence.fences;
DROP SCHEMA IF EXISTS tenure_fence;
COMMIT;
