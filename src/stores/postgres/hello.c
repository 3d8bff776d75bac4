/* hello.c - the first statement of a connection: whether the server will do; and the schema, which
 * the first candidate makes. */
#include <stdio.h>
#include <stdlib.h>

#include "stores/postgres/private.h"
#include "stores/postgres/schema.h"

#define SCHEMA_COMMENT "tenure schema 4"
#define SCHEMA_BEFORE "tenure schema 3" /* Its owner brings it up to date. */

void tn_pg_say_hello(struct tn_pg_store *store)
{
    static const char sql[] =
        "SELECT pg_is_in_recovery(), current_setting('fsync') = 'off',"
        " has_database_privilege(current_database(), 'CREATE'), n.oid IS NOT NULL,"
        " coalesce(has_schema_privilege(n.oid, 'USAGE'), false),"
        " coalesce(has_schema_privilege(n.oid, 'CREATE'), false),"
        " (SELECT obj_description(p.oid, 'pg_proc') FROM pg_proc p"
        "  WHERE p.pronamespace = n.oid AND p.proname = 'step' LIMIT 1), current_database()::text,"
        " current_setting('server_version'), current_setting('synchronous_commit') = 'off',"
        " coalesce((SELECT pg_has_role(p.proowner, 'USAGE') FROM pg_proc p"
        "  WHERE p.pronamespace = n.oid AND p.proname = 'step' LIMIT 1), false),"
        " NOT EXISTS (SELECT 1 FROM pg_proc p WHERE p.pronamespace = n.oid AND p.proname = 'line')"
        " FROM (SELECT 1) one LEFT JOIN pg_namespace n ON n.nspname = 'tenure'";

    tn_pg_send(store, TN_PG_HELLO, sql, 0, NULL);
}

static void refuse_server(struct tn_pg_store *store, int code, const char *why)
{
    tn_pg_link_fail(&store->work, code, why);
}

static void send_schema(struct tn_pg_store *store, const char *before)
{
    struct tn_pg_buf script = { 0 };

    tn_pg_buf_addf(&script, "%s", before);
    tn_pg_buf_add(&script, tn_postgres_schema, sizeof tn_postgres_schema - 1);
    if (script.failed) {
        refuse_server(store, TENURE_E_NOMEM, "out of memory");
    } else {
        tn_pg_send_install(store, script.data);
    }
    free(script.data);
}

/* Whether this candidate may bring the schema up to date. */
static bool may_upgrade(const struct tn_pg_store *store, const PGresult *result)
{
    return store->base.how.create && tn_pg_bool(result, 0, 10);
}

/* The schema is of the version before this one. */
static void upgrade(struct tn_pg_store *store, const PGresult *result)
{
    if (may_upgrade(store, result))
        send_schema(store, "");
    else
        refuse_server(
            store, TENURE_E_UNSUPPORTED,
            "postgres: the schema tenure is of an older version; a candidate that connects as "
            "its owner brings it up to date");
}

/* The schema is not there, or not all of it. */
static void install(struct tn_pg_store *store, const PGresult *result)
{
    bool there = tn_pg_bool(result, 0, 3);

    if (!store->base.how.create) {
        refuse_server(
            store, TENURE_E_NOT_HELD,
            "postgres: this database has no schema tenure yet; the first candidate makes it");
        return;
    }
    if (there ? !tn_pg_bool(result, 0, 5) : !tn_pg_bool(result, 0, 2)) {
        refuse_server(
            store, TENURE_E_DENIED,
            there ? "postgres: the schema tenure is empty and this user may not fill it; its "
                    "owner runs `tenure` once, or GRANT CREATE ON SCHEMA tenure"
                  : "postgres: there is no schema tenure and this user may not create it; "
                    "GRANT CREATE ON DATABASE, or let its owner run `tenure` once");
        return;
    }
    send_schema(store, there ? "" : "CREATE SCHEMA tenure;\n");
}

/* Our own commits are flushed all the same; those of others that the work makes may not be. */
static void note_facts(struct tn_pg_store *store, const PGresult *result)
{
    const char *warning = "";

    (void)snprintf(store->version, sizeof store->version, "%s", PQgetvalue(result, 0, 8));
    if (store->url.relaxed && tn_pg_bool(result, 0, 1))
        warning = "the server runs with fsync off: it may forget a grant, and lead to two leaders; "
                  "turn it on";
    else if (tn_pg_bool(result, 0, 9))
        warning = "synchronous_commit is off: leases are flushed all the same, but a crash of the "
                  "server may undo what a leader has written; turn it on for its work";
    store->warning = warning;
}

void tn_pg_answer_hello(struct tn_pg_store *store, const PGresult *result)
{
    tn_pg_forget_sent(store);
    note_facts(store, result);
    if (tn_pg_bool(result, 0, 0))
        refuse_server(store, TENURE_E_UNAVAILABLE,
                      "postgres: this is a read-only replica; connect to the primary");
    else if (tn_pg_bool(result, 0, 1) && !store->url.relaxed)
        refuse_server(
            store, TENURE_E_UNSUPPORTED,
            "postgres: the server runs with fsync off and may forget a grant; turn it on, or say "
            "durability=relaxed in the URL");
    else if (tn_pg_bool(result, 0, 3) && !tn_pg_bool(result, 0, 4))
        refuse_server(
            store, TENURE_E_DENIED,
            "postgres: this user may not use the schema tenure; GRANT USAGE ON SCHEMA tenure");
    else if (PQgetisnull(result, 0, 6))
        install(store, result);
    else if (tn_pg_is(result, 0, 6, SCHEMA_BEFORE))
        upgrade(store, result);
    else if (!tn_pg_is(result, 0, 6, SCHEMA_COMMENT))
        refuse_server(
            store, TENURE_E_UNSUPPORTED,
            "postgres: the schema tenure is of another version; use the release that made it");
    else if (tn_pg_bool(result, 0, 11) && may_upgrade(store, result))
        send_schema(store, "");
    else {
        store->lineless = tn_pg_bool(result, 0, 11);
        tn_pg_link_good(&store->work);
        store->ready = true;
        store->look_now = true;
    }
}
