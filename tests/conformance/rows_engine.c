/* rows_engine.c - the smallest engine there can be: versioned rows in memory, get and put.
 *
 * It shows what a new engine costs, and puts stores/rows and core/rows through the suite. Stores
 * that are opened under one name share their rows; all of them are on the bed's one loop. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stores/rows/rows.h"
#include "tests/conformance/bed.h"

struct kept_row {
    struct kept_row *next;
    struct tn_row row;
    unsigned version;
    char place[64];
    char name[TN_NAME_MAX + 1];
    char label[TN_LABEL_MAX + 1];
};

struct memory_rows {
    struct tn_rows_store base;
    struct memory_rows *next;
    char place[64];
};

static struct kept_row *kept; /* Until the process ends. */
static struct memory_rows *opened;
static unsigned versions;

static struct kept_row *find(const struct memory_rows *store, const char *name)
{
    struct kept_row *row = kept;

    while (row != NULL && (strcmp(row->place, store->place) != 0 || strcmp(row->name, name) != 0))
        row = row->next;
    return row;
}

static void version_text(const struct kept_row *row, char ret_text[TN_ROW_VERSION])
{
    (void)snprintf(ret_text, TN_ROW_VERSION, "%u", row != NULL ? row->version : 0);
    if (row == NULL)
        ret_text[0] = '\0';
}

static void get(struct tn_rows_store *base, struct tn_rows_io *io)
{
    struct kept_row *row = find((struct memory_rows *)base, tn_rows_io_name(io));
    char version[TN_ROW_VERSION];

    version_text(row, version);
    tn_rows_io_got(io, row != NULL ? &row->row : NULL, row != NULL ? version : NULL);
}

static struct kept_row *add(const struct memory_rows *store, const char *name)
{
    struct kept_row *row = calloc(1, sizeof *row);

    CHECK(row != NULL);
    (void)snprintf(row->place, sizeof row->place, "%s", store->place);
    (void)snprintf(row->name, sizeof row->name, "%s", name);
    row->next = kept;
    kept = row;
    return row;
}

static void put(struct tn_rows_store *base, struct tn_rows_io *io, const struct tn_row *row,
                const char *if_version)
{
    struct memory_rows *store = (struct memory_rows *)base;
    const char *name = tn_rows_io_name(io);
    struct kept_row *old = find(store, name);
    char version[TN_ROW_VERSION];

    version_text(old, version);
    if (strcmp(version, if_version) != 0) {
        tn_rows_io_put(io, TN_ROWS_CONFLICT, NULL, NULL);
        return;
    }
    if (old == NULL)
        old = add(store, name);
    old->row = *row;
    if (row->label_len > 0)
        memcpy(old->label, row->label, row->label_len);
    old->row.label = old->label;
    old->version = ++versions;
    version_text(old, version);
    for (struct memory_rows *each = opened; each != NULL; each = each->next)
        if (strcmp(each->place, store->place) == 0)
            tn_rows_changed(&each->base, name, version);
    tn_rows_io_put(io, TN_ROWS_WRITTEN, version, NULL);
}

static void list(struct tn_rows_store *base, const char *prefix, tn_store_listed *done, void *arg)
{
    const struct memory_rows *store = (struct memory_rows *)base;
    struct tn_rows_listing listing;

    tn_rows_listing_begin(&listing, prefix, done, arg);
    for (const struct kept_row *row = kept; row != NULL; row = row->next) {
        char version[TN_ROW_VERSION];
        version_text(row, version);
        if (strcmp(row->place, store->place) == 0)
            CHECK(tn_rows_listing_add(&listing, row->name, &row->row, version));
    }
    tn_rows_listing_end(&listing, 0, NULL);
}

static void shut(struct tn_rows_store *base)
{
    struct memory_rows **link = &opened;

    while (*link != (struct memory_rows *)base)
        link = &(*link)->next;
    *link = (*link)->next;
    tn_rows_shut(base);
}

static const struct tn_rows_engine engine = { .get = get, .put = put, .list = list, .shut = shut };
static const struct tn_rows_engine minting = {
    .get = get, .put = put, .list = list, .shut = shut, .mints = true
};

static int open_rows(const struct tn_store_ops *ops, const struct tn_store_open *how,
                     struct tn_store **ret_store, struct tn_text *reterr)
{
    const struct tn_rows_engine *kind = ops == &bed_minted_ops ? &minting : &engine;
    struct memory_rows *store = tn_rows_open(sizeof *store, ops, kind, how, reterr);

    if (store == NULL)
        return TENURE_E_NOMEM;
    (void)snprintf(store->place, sizeof store->place, "%s", how->rest);
    store->next = opened;
    opened = store;
    *ret_store = &store->base.base;
    return 0;
}

const struct tn_store_ops bed_rows_ops = {
    .scheme = "rows",
    .caps = TN_STORE_LOCAL | TN_STORE_LINGERS | TN_STORE_PER_NAME,
    .ttl_min = TN_SEC(1),
    .ttl_max = TN_SEC(86400),
    .open = open_rows,
    TN_ROWS_OPS,
};

const struct tn_store_ops bed_minted_ops = {
    .scheme = "minted",
    .caps = TN_STORE_LOCAL | TN_STORE_LINGERS | TN_STORE_PER_NAME,
    .ttl_min = TN_SEC(1),
    .ttl_max = TN_SEC(86400),
    .open = open_rows,
    TN_ROWS_OPS,
};
