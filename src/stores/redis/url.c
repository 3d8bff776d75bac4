/* url.c - what a Redis URL says; redis.h has its forms. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stores/redis/private.h"

static int refuse_url(const char *scheme, const char *why, struct tn_text *reterr)
{
    tn_text_addf(reterr, "%s: %s", scheme, why);
    return TENURE_E_INVALID;
}

/* A majority of an even number survives no more than that of one less, and needs one more. */
static int check_count(const struct tn_rd_url *url, struct tn_text *reterr)
{
    unsigned count = url->net.count;

    if (strncmp(url->scheme, "redlock", 7) == 0) {
        if (url->sentinel[0] != '\0')
            return refuse_url(url->scheme, "its nodes are independent; sentinel= is for redis://",
                              reterr);
        if (count < 3 || count % 2 == 0)
            return refuse_url(url->scheme,
                              "a majority needs an odd number of independent servers, 3 or more; "
                              "write redlock://HOST,HOST,HOST",
                              reterr);
        for (unsigned i = 0; i < count; i++)
            for (unsigned j = 0; j < i; j++)
                if (strcmp(url->net.endpoints[i].where, url->net.endpoints[j].where) == 0)
                    return refuse_url(url->scheme, "one server is named twice", reterr);
        return 0;
    }
    if (count == TN_ENDPOINTS_MAX)
        return refuse_url(url->scheme, "at most 15 servers", reterr);
    if (count > 1 && url->sentinel[0] == '\0')
        return refuse_url(url->scheme,
                          "several servers are not one; with Sentinel add ?sentinel=MASTER, for "
                          "independent ones write redlock://HOST,HOST,HOST",
                          reterr);
    return 0;
}

/* redis+sentinel://HOST,.../MASTER[/DATABASE]: the master's name is the first part of the path. */
static int take_master(struct tn_rd_url *url, struct tn_text *reterr)
{
    size_t len = strcspn(url->net.path, "/");
    const char *rest = url->net.path[len] == '/' ? url->net.path + len + 1 : "";

    if (url->sentinel[0] != '\0')
        return refuse_url(url->scheme,
                          "the master's name goes behind the slash; leave sentinel= out", reterr);
    if (len == 0 || len >= sizeof url->sentinel)
        return refuse_url(url->scheme,
                          "behind the slash goes the master's name, at most 63 bytes; write "
                          "redis+sentinel://HOST,HOST,HOST/MASTER[/DATABASE]",
                          reterr);
    memcpy(url->sentinel, url->net.path, len);
    memmove(url->net.path, rest, strlen(rest) + 1);
    return 0;
}

static bool is_database(const char *text)
{
    size_t len = strlen(text);

    return len <= 5 && strspn(text, "0123456789") == len;
}

/* Keys and channels; a database has channels of its own, though the server knows only one set. */
static int name_keys(struct tn_rd_url *url, const char *prefix, struct tn_text *reterr)
{
    size_t len = strlen(prefix);

    if (len == 0 || len > 64 ||
        strspn(prefix, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789:._-") != len)
        return refuse_url(url->scheme, "prefix is 1 to 64 letters, digits, or : . _ -", reterr);
    (void)snprintf(url->base, sizeof url->base, "{%s}", prefix);
    (void)snprintf(url->channel, sizeof url->channel, "{%s}:%s:", prefix, url->database);
    return 0;
}

static int parse_unix(const char *rest, struct tn_rd_url *url, struct tn_text *reterr)
{
    if (strncmp(rest, "//", 2) == 0)
        rest += 2;
    if (rest[0] != '/' || !tn_endpoint_local(&url->net.endpoints[0], rest))
        return refuse_url(url->scheme, "write redis+unix:/PATH/TO/SOCKET, at most 107 bytes",
                          reterr);
    url->net.count = 1;
    return 0;
}

int tn_rd_url_parse(const char *scheme, const char *rest, struct tn_rd_url *ret_url,
                    struct tn_text *reterr)
{
    struct tn_rd_url url = { .scheme = scheme, .database = "0" };
    char prefix[80] = "tenure";
    const struct tn_net_option options[] = {
        { "sentinel", url.sentinel, sizeof url.sentinel },
        { "sentinel_password", url.sentinel_password, sizeof url.sentinel_password },
        { "prefix", prefix, sizeof prefix },
    };
    bool lock = strncmp(scheme, "redlock", 7) == 0, sentinels = strstr(scheme, "+sentinel") != NULL;
    const struct tn_net_form form = {
        .scheme = scheme,
        .usage = lock        ? "redlock://HOST,HOST,HOST[/DATABASE]"
                 : sentinels ? "redis+sentinel://[USER:PASSWORD@]HOST,HOST,HOST/MASTER[/DATABASE]"
                             : "redis://[USER:PASSWORD@]HOST[:PORT][/DATABASE]",
        .port = sentinels || strstr(rest, "sentinel=") != NULL ? "26379" : "6379",
        .tls = lock        ? "redlocks"
               : sentinels ? "rediss+sentinel"
                           : "rediss",
        .with_tls = strncmp(scheme, "rediss", 6) == 0 || strcmp(scheme, "redlocks") == 0,
        .options = options,
        .option_count = sizeof options / sizeof options[0],
    };

    url.tls = form.with_tls;
    int rc = strcmp(scheme, "redis+unix") == 0 ? parse_unix(rest, &url, reterr)
                                               : tn_net_url_parse(&url.net, &form, rest, reterr);
    if (rc < 0)
        return rc;
    if (sentinels)
        rc = take_master(&url, reterr);
    if (rc < 0)
        return rc;
    if (!is_database(url.net.path))
        return refuse_url(scheme, "behind the slash goes the number of a database", reterr);
    if (url.net.path[0] != '\0')
        (void)snprintf(url.database, sizeof url.database, "%ld", strtol(url.net.path, NULL, 10));
    rc = check_count(&url, reterr);
    if (rc == 0)
        rc = name_keys(&url, prefix, reterr);
    if (rc == 0)
        *ret_url = url;
    return rc;
}
