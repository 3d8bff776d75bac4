/* url.c - what a postgres: URL says; libpq parses its own part of it.
 *
 * libpq's complaints may quote a piece of the URL, and that may be the password. So they are not
 * passed on, but for those that name an option. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "stores/postgres/private.h"

const char *tn_pg_url_get(const struct tn_pg_url *url, const char *keyword)
{
    for (const PQconninfoOption *option = url->options; option->keyword != NULL; option++)
        if (strcmp(option->keyword, keyword) == 0)
            return option->val != NULL ? option->val : "";
    return "";
}

static bool set_option(PQconninfoOption *options, const char *keyword, const char *value)
{
    for (PQconninfoOption *option = options; option->keyword != NULL; option++) {
        if (strcmp(option->keyword, keyword) != 0)
            continue;
        char *copy = strdup(value);
        if (copy == NULL)
            return false;
        free(option->val);
        option->val = copy;
    }
    return true;
}

/* --- Our own options ------------------------------------------------------------------------ */

/* HOST:PORT; an IPv6 address in brackets. */
static int parse_listen(const char *value, struct tn_pg_url *url, struct tn_text *reterr)
{
    const char *colon = strrchr(value, ':');
    size_t len = colon != NULL ? (size_t)(colon - value) : 0;

    if (strcmp(value, "off") == 0) {
        url->listen_off = true;
        return 0;
    }
    if (len == 0 || colon[1] == '\0' || strspn(colon + 1, "0123456789") != strlen(colon + 1)) {
        tn_text_add(reterr, "the store's URL: listen is off or HOST:PORT");
        return TENURE_E_INVALID;
    }
    if (len > 2 && value[0] == '[' && value[len - 1] == ']') {
        value++;
        len -= 2;
    }
    url->listen.name = strndup(value, len);
    url->listen.port = strdup(colon + 1);
    url->listen.addr = strdup("");
    url->listen_apart = true;
    return url->listen.name != NULL && url->listen.port != NULL && url->listen.addr != NULL
               ? 0
               : TENURE_E_NOMEM;
}

/* @item is "key=value"; *@ret_ours: it was for us. */
static int take_ours(const char *item, struct tn_pg_url *url, bool *ret_ours,
                     struct tn_text *reterr)
{
    *ret_ours = true;
    if (strncmp(item, "listen=", 7) == 0)
        return parse_listen(item + 7, url, reterr);
    if (strcmp(item, "durability=relaxed") == 0) {
        url->relaxed = true;
        return 0;
    }
    if (strncmp(item, "durability=", 11) == 0 && strcmp(item, "durability=strict") != 0) {
        tn_text_add(reterr, "the store's URL: durability is strict or relaxed");
        return TENURE_E_INVALID;
    }
    *ret_ours = strncmp(item, "durability=", 11) == 0;
    return 0;
}

/* Take our options out of @text, in place. */
static int strip_ours(char *text, struct tn_pg_url *url, struct tn_text *reterr)
{
    char *query = strchr(text, '?');
    char *rest = query != NULL ? strdup(query + 1) : NULL;
    char *save = NULL;
    int rc = 0;

    if (query == NULL)
        return 0;
    if (rest == NULL)
        return TENURE_E_NOMEM;
    *query = '\0';
    char *end = query;
    for (char *item = strtok_r(rest, "&", &save); item != NULL && rc == 0;
         item = strtok_r(NULL, "&", &save)) {
        bool ours = false;
        rc = take_ours(item, url, &ours, reterr);
        if (ours || rc < 0)
            continue;
        *end = end == query ? '?' : '&';
        end++;
        memmove(end, item, strlen(item) + 1);
        end += strlen(item);
    }
    *end = '\0';
    free(rest);
    return rc;
}

/* --- Hosts ---------------------------------------------------------------------------------- */

/* Item @n of a comma-separated list; a single one counts for all when @spread. NULL: no memory. */
static char *item_of(const char *list, unsigned n, bool spread)
{
    const char *at = list;

    if (strchr(list, ',') == NULL)
        return strdup(n == 0 || spread ? list : "");
    for (; n > 0 && at != NULL; n--)
        at = strchr(at, ',') != NULL ? strchr(at, ',') + 1 : NULL;
    return at != NULL ? strndup(at, strcspn(at, ",")) : strdup("");
}

static unsigned count_items(const char *list)
{
    unsigned count = 1;

    for (; *list != '\0'; list++)
        count += *list == ',';
    return count;
}

static int read_hosts(struct tn_pg_url *url, struct tn_text *reterr)
{
    const char *names = tn_pg_url_get(url, "host");
    const char *addrs = tn_pg_url_get(url, "hostaddr");
    unsigned count = count_items(addrs[0] != '\0' ? addrs : names);

    if (count > TN_PG_HOSTS) {
        tn_text_addf(reterr, "the store's URL names more than %d hosts", TN_PG_HOSTS);
        return TENURE_E_INVALID;
    }
    for (unsigned i = 0; i < count; i++) {
        struct tn_pg_host *host = &url->hosts[i];
        url->host_count = i + 1;
        host->name = item_of(names, i, false);
        host->addr = item_of(addrs, i, false);
        host->port = item_of(tn_pg_url_get(url, "port"), i, true);
        if (host->name == NULL || host->addr == NULL || host->port == NULL)
            return TENURE_E_NOMEM;
    }
    return 0;
}

/* --- All of it ------------------------------------------------------------------------------ */

/* What the URL does not say: the environment, libpq's defaults, and then ours. */
static int fill_defaults(struct tn_pg_url *url, const PQconninfoOption *given)
{
    static const char *const ours[][2] = {
        { "sslmode", "verify-full" },
        { "gssencmode", "disable" },
        { "fallback_application_name", "tenure" },
        { "keepalives_idle", "10" },
        { "keepalives_interval", "5" },
        { "keepalives_count", "3" },
    };
    bool good = true;

    url->options = PQconndefaults();
    if (url->options == NULL)
        return TENURE_E_NOMEM;
    for (size_t i = 0; i < sizeof ours / sizeof ours[0]; i++)
        good = set_option(url->options, ours[i][0], ours[i][1]) && good;
    for (; given->keyword != NULL; given++)
        if (given->val != NULL)
            good = set_option(url->options, given->keyword, given->val) && good;
    return good ? 0 : TENURE_E_NOMEM;
}

static void complain(const char *said, struct tn_text *reterr)
{
    static const char unknown[] = "invalid URI query parameter: ";

    tn_text_add(reterr, "the store's URL is malformed");
    if (said != NULL && strncmp(said, unknown, sizeof unknown - 1) == 0) {
        tn_text_add(reterr, ": it has no option ");
        tn_text_escape(reterr, said + sizeof unknown - 1, strcspn(said + sizeof unknown - 1, "\n"));
    }
    tn_text_add(reterr, "; write postgres://USER@HOST:PORT/DATABASE");
}

int tn_pg_url_parse(const char *text, struct tn_pg_url *ret_url, struct tn_text *reterr)
{
    struct tn_pg_url url = { 0 };
    PQconninfoOption *given = NULL;
    char *said = NULL;
    char *copy = strdup(text);
    int rc = copy != NULL ? strip_ours(copy, &url, reterr) : TENURE_E_NOMEM;

    if (rc < 0)
        goto out;
    given = PQconninfoParse(copy, &said);
    if (given == NULL) {
        complain(said, reterr);
        rc = TENURE_E_INVALID;
        goto out;
    }
    rc = fill_defaults(&url, given);
    if (rc == 0)
        rc = read_hosts(&url, reterr);
    if (rc < 0)
        goto out;
    *ret_url = url;
    memset(&url, 0, sizeof url);
out:
    PQfreemem(said);
    PQconninfoFree(given);
    free(copy);
    tn_pg_url_done(&url);
    return rc;
}

static void free_host(struct tn_pg_host *host)
{
    free(host->name);
    free(host->addr);
    free(host->port);
}

void tn_pg_url_done(struct tn_pg_url *url)
{
    for (unsigned i = 0; i < url->host_count; i++)
        free_host(&url->hosts[i]);
    free_host(&url->listen);
    if (url->options != NULL)
        PQconninfoFree(url->options);
    memset(url, 0, sizeof *url);
}
