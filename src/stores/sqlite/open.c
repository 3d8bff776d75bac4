/* open.c - opening and closing a store: checked first, then configured, then checked again.
 *
 * What can fail: everything that sqlite.h lists. A store that cannot be opened leaves the file as
 * it was; one that is created appears complete or not at all. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "runtime/random.h"
#include "runtime/sqlite_vfs.h"
#include "stores/sqlite/private.h"

/* The journal is a rollback journal that stays in place: the flush after its header was zeroed is
 * the commit. DELETE would need the directory to be flushed as well (EXTRA does that), TRUNCATE
 * makes the filesystem allocate anew each time, and WAL loses data in a race of writer and
 * checkpoint before SQLite 3.51.3 (sqlite.org/wal.html#walresetbug). */
static const char pragmas[] = "PRAGMA journal_mode=PERSIST; PRAGMA journal_size_limit=1048576;"
                              "PRAGMA synchronous=EXTRA; PRAGMA trusted_schema=OFF;"
                              "PRAGMA cell_size_check=ON; PRAGMA temp_store=MEMORY;";

/* A small file is checked as a whole; a large one would take too long at every start. */
enum { CHECK_PAGES = 256 };

static int ask_database(struct tn_sqlite *store, const char *question, char *ret_answer,
                        size_t size)
{
    sqlite3_stmt *statement = NULL;

    ret_answer[0] = '\0';
    int rc = sqlite3_prepare_v2(store->db, question, -1, &statement, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_step(statement);
    if (rc == SQLITE_ROW) {
        const unsigned char *text = sqlite3_column_text(statement, 0);
        (void)snprintf(ret_answer, size, "%s", text != NULL ? (const char *)text : "");
        rc = SQLITE_OK;
    }
    (void)sqlite3_finalize(statement);
    return rc;
}

/* What the check found. That it could not look, for want of memory or because of the disk, is told
 * there as well, with a code, and is no damage. */
static int judge(const char *answer)
{
    static const char words[] = "error code=";
    const char *at = strstr(answer, words);
    long code = at != NULL ? strtol(at + sizeof words - 1, NULL, 10) : 0;

    if (strcmp(answer, "ok") == 0)
        return SQLITE_OK;
    return code > 0 ? (int)code : SQLITE_CORRUPT;
}

static int configure(struct tn_sqlite *store)
{
    char answer[128];

    int rc = sqlite3_extended_result_codes(store->db, 1);
    if (rc == SQLITE_OK)
        rc = sqlite3_exec(store->db, pragmas, NULL, NULL, NULL);
    if (rc == SQLITE_OK)
        rc = ask_database(store, "PRAGMA journal_mode", answer, sizeof answer);
    if (rc == SQLITE_OK && strcmp(answer, "persist") != 0)
        rc = SQLITE_BUSY; /* Somebody has it open in another mode. */
    if (rc == SQLITE_OK)
        rc = ask_database(store, "PRAGMA page_count", answer, sizeof answer);
    if (rc == SQLITE_OK && strtol(answer, NULL, 10) <= CHECK_PAGES) {
        rc = ask_database(store, "PRAGMA quick_check(1)", answer, sizeof answer);
        if (rc == SQLITE_OK)
            rc = judge(answer);
    }
    return rc;
}

static bool is_old(struct tn_sqlite *store, const char *schema, int *rc)
{
    char answer[128];

    *rc = ask_database(store, "PRAGMA user_version", answer, sizeof answer);
    return *rc == SQLITE_OK && strcmp(answer, schema) == 0;
}

/* A file of schema 3 from before there was a history, or before there were soft limits. */
static int add_history(struct tn_sqlite *store)
{
    char answer[8];

    int rc =
        ask_database(store, "SELECT count(*) FROM sqlite_master WHERE name IN ('history', 'soft')",
                     answer, sizeof answer);
    if (rc != SQLITE_OK || strcmp(answer, "2") == 0)
        return rc;
    rc = sqlite3_exec(store->db, "BEGIN IMMEDIATE", NULL, NULL, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_exec(store->db, tn_sqlite_schema_history, NULL, NULL, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_exec(store->db, "COMMIT", NULL, NULL, NULL);
    if (rc != SQLITE_OK && sqlite3_get_autocommit(store->db) == 0)
        (void)sqlite3_exec(store->db, "ROLLBACK", NULL, NULL, NULL);
    return rc;
}

/* Schemas 1 and 2 become 3 in one transaction; another process may be faster. */
static int migrate(struct tn_sqlite *store)
{
    int rc;

    if (!is_old(store, "1", &rc) && !is_old(store, "2", &rc))
        return rc == SQLITE_OK ? add_history(store) : rc;
    rc = sqlite3_exec(store->db, "BEGIN IMMEDIATE", NULL, NULL, NULL);
    if (rc != SQLITE_OK)
        return rc;
    bool first = is_old(store, "1", &rc);
    if (first)
        rc = sqlite3_exec(store->db, tn_sqlite_schema_2, NULL, NULL, NULL);
    if (rc == SQLITE_OK && (first || is_old(store, "2", &rc)))
        rc = sqlite3_exec(store->db, tn_sqlite_schema_3, NULL, NULL, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_exec(store->db, tn_sqlite_schema_history, NULL, NULL, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_exec(store->db, "PRAGMA user_version=3", NULL, NULL, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_exec(store->db, "COMMIT", NULL, NULL, NULL);
    if (rc != SQLITE_OK && sqlite3_get_autocommit(store->db) == 0)
        (void)sqlite3_exec(store->db, "ROLLBACK", NULL, NULL, NULL);
    return rc;
}

static int open_checked(struct tn_sqlite *store, struct tn_text *reterr)
{
    const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOFOLLOW | SQLITE_OPEN_PRIVATECACHE;

    const char *vfs = tn_sqlite_vfs();
    int rc = vfs != NULL ? sqlite3_open_v2(store->path, &store->db, flags, vfs) : SQLITE_NOMEM;
    if (rc == SQLITE_OK)
        rc = configure(store);
    if (rc == SQLITE_OK)
        rc = migrate(store);
    store->was_busy = (rc & 0xff) == SQLITE_BUSY;
    if (rc != SQLITE_OK)
        return tn_sql_error(store->path, rc, tn_sql_detail(store, rc), reterr);
    /* Again, should the file have been exchanged in between: each transaction makes sure that the
     * file SQLite has open is still the one with this name. */
    return tn_sqlite_check(store->path, reterr);
}

int tn_sqlite_connect(struct tn_sqlite *store, bool create, struct tn_text *reterr)
{
    char scratch[TN_NAME_MAX];
    struct tn_text ignored;

    tn_text_init(&ignored, scratch, sizeof scratch);
    store->was_busy = false;
    store->adopted = false;
    int rc = tn_sqlite_check(store->path, create ? &ignored : reterr);
    if (rc < 0 && create) {
        rc = rc == TENURE_E_NOT_HELD ? tn_sqlite_create(store->path, reterr) : 0;
        if (rc == 0)
            rc = tn_sqlite_check(store->path, reterr);
    }
    if (rc == 0)
        rc = open_checked(store, reterr);
    if (rc < 0)
        tn_sqlite_disconnect(store);
    return rc;
}

void tn_sqlite_disconnect(struct tn_sqlite *store)
{
    for (int i = 0; i < TN_SQL_COUNT; i++) {
        (void)sqlite3_finalize(store->statements[i]);
        store->statements[i] = NULL;
    }
    (void)sqlite3_close(store->db);
    store->db = NULL;
}

int tn_sqlite_new(const char *path, const struct tn_clock *clock, struct tn_sqlite **ret_store,
                  struct tn_text *reterr)
{
    struct tn_sqlite *store = calloc(1, sizeof *store);
    struct tn_secret seed;

    if (store == NULL) {
        tn_text_add(reterr, "out of memory");
        return TENURE_E_NOMEM;
    }
    store->clock = *clock;
    int rc = tn_sqlite_resolve(path, store->path, reterr);
    if (rc == 0) {
        rc = tn_random_secret(&seed);
        if (rc < 0)
            tn_text_add(reterr, "the kernel gives no random numbers");
    }
    if (rc < 0) {
        tn_sqlite_close(store);
        return rc;
    }
    tn_prng_seed(&store->prng, tn_load_le(seed.bytes, 8));
    *ret_store = store;
    return 0;
}

void tn_sqlite_close(struct tn_sqlite *store)
{
    if (store == NULL)
        return;
    tn_sqlite_disconnect(store);
    free(store);
}
