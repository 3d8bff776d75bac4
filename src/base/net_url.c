/* net_url.c - reading the URL of servers; net_url.h has its form. */
#include "base/net_url.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SOCKET_PATH_MAX = 107 }; /* What sockaddr_un holds on Linux, less its zero. */

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool tn_url_decode(char *ret_text, size_t size, const char *from, size_t len)
{
    size_t at = 0;

    for (size_t i = 0; i < len; i++) {
        char c = from[i];
        if (c == '%') {
            int high = i + 2 < len ? hex_digit(from[i + 1]) : -1;
            int low = i + 2 < len ? hex_digit(from[i + 2]) : -1;
            if (high < 0 || low < 0)
                return false;
            c = (char)(high * 16 + low);
            i += 2;
        }
        if (c == '\0' || at + 1 >= size)
            return false;
        ret_text[at++] = c;
    }
    ret_text[at] = '\0';
    return true;
}

static int refuse_url(const struct tn_net_form *form, struct tn_text *reterr, const char *why)
{
    tn_text_addf(reterr, "%s: %s; write %s", form->scheme, why, form->usage);
    return TENURE_E_INVALID;
}

/* --- Endpoints -------------------------------------------------------------------------------- */

static bool is_port(const char *text, size_t len)
{
    return len > 0 && len <= 5 && strspn(text, "0123456789") >= len &&
           strtol(text, NULL, 10) >= 1 && strtol(text, NULL, 10) <= 65535;
}

int tn_endpoint_parse(struct tn_endpoint *ret_endpoint, const char *text, size_t len,
                      const char *port, const char **reterr)
{
    const char *end = text + len, *host_end = end, *given = NULL;
    bool bracket = len > 0 && text[0] == '[';

    if (bracket) {
        host_end = memchr(text, ']', len);
        *reterr = "a '[' without its ']'";
        if (host_end == NULL)
            return TENURE_E_INVALID;
        *reterr = "something else than a port behind ']'";
        if (host_end + 1 < end && host_end[1] == ':')
            given = host_end + 2;
        else if (host_end + 1 != end)
            return TENURE_E_INVALID;
        text++;
    } else if (memchr(text, ':', len) != NULL) {
        host_end = memchr(text, ':', len);
        given = host_end + 1;
    }
    size_t host_len = (size_t)(host_end - text);
    *reterr = "a host with a %";
    if (!bracket && memchr(text, '%', host_len) != NULL)
        return TENURE_E_INVALID;
    *reterr = "an endpoint without a host";
    if (host_len == 0 || host_len >= sizeof ret_endpoint->host)
        return TENURE_E_INVALID;
    *reterr = "a port that is no number from 1 to 65535";
    if (given != NULL && !is_port(given, (size_t)(end - given)))
        return TENURE_E_INVALID;
    *ret_endpoint = (struct tn_endpoint) { .local = false };
    memcpy(ret_endpoint->host, text, host_len);
    (void)snprintf(ret_endpoint->port, sizeof ret_endpoint->port, "%.*s",
                   given != NULL ? (int)(end - given) : 5, given != NULL ? given : port);
    (void)snprintf(ret_endpoint->where, sizeof ret_endpoint->where, bracket ? "[%s]:%s" : "%s:%s",
                   ret_endpoint->host, ret_endpoint->port);
    return 0;
}

bool tn_endpoint_local(struct tn_endpoint *ret_endpoint, const char *path)
{
    size_t len = strlen(path);

    if (len == 0 || len > SOCKET_PATH_MAX)
        return false;
    *ret_endpoint = (struct tn_endpoint) { .local = true };
    memcpy(ret_endpoint->host, path, len);
    memcpy(ret_endpoint->where, path, len);
    return true;
}

/* --- The parts of a URL ----------------------------------------------------------------------- */

static int read_endpoints(struct tn_net_url *url, const struct tn_net_form *form, const char *text,
                          size_t len, struct tn_text *reterr)
{
    const char *why = NULL;

    for (size_t at = 0; at <= len;) {
        const char *comma = at < len ? memchr(text + at, ',', len - at) : NULL;
        size_t part = comma != NULL ? (size_t)(comma - text) - at : len - at;
        if (url->count == TN_ENDPOINTS_MAX)
            return refuse_url(form, reterr, "more than 16 endpoints");
        if (tn_endpoint_parse(&url->endpoints[url->count], text + at, part, form->port, &why) < 0)
            return refuse_url(form, reterr, why);
        url->count++;
        at += part + 1;
    }
    return 0;
}

static int read_user(struct tn_net_url *url, const struct tn_net_form *form, const char *text,
                     size_t len, struct tn_text *reterr)
{
    const char *colon = memchr(text, ':', len);
    size_t user_len = colon != NULL ? (size_t)(colon - text) : len;

    if (!tn_url_decode(url->user, sizeof url->user, text, user_len) ||
        (colon != NULL &&
         !tn_url_decode(url->password, sizeof url->password, colon + 1, len - user_len - 1)))
        return refuse_url(form, reterr, "a user or password that is too long or wrongly %-encoded");
    return 0;
}

/* 1: it was this option; 0: it was another. */
static int try_option(const struct tn_net_form *form, const struct tn_net_option *option,
                      const char *text, size_t len, struct tn_text *reterr)
{
    size_t name_len = strlen(option->name);

    if (len <= name_len + 1 || memcmp(text, option->name, name_len) != 0 || text[name_len] != '=')
        return 0;
    text += name_len + 1;
    if (!tn_url_decode(option->value, option->size, text, len - name_len - 1))
        return refuse_url(form, reterr, "an option that is too long or wrongly %-encoded");
    return 1;
}

static int unknown_option(const struct tn_net_form *form, struct tn_text *reterr)
{
    char why[TN_ERROR_TEXT];
    struct tn_text text;

    tn_text_init(&text, why, sizeof why);
    tn_text_add(&text, "an unknown option");
    for (size_t i = 0; i < form->option_count; i++)
        tn_text_addf(&text, "%s%s", i > 0 ? ", " : "; known are ", form->options[i].name);
    if (form->tls != NULL)
        tn_text_addf(&text, "%sca, cert, key and name",
                     form->option_count > 0 ? ", " : "; known are ");
    return refuse_url(form, reterr, why);
}

static int read_option(struct tn_net_url *url, const struct tn_net_form *form, const char *text,
                       size_t len, struct tn_text *reterr)
{
    struct tn_net_tls *tls = &url->tls;
    const struct tn_net_option for_tls[] = {
        { "ca", tls->ca, sizeof tls->ca },
        { "cert", tls->cert, sizeof tls->cert },
        { "key", tls->key, sizeof tls->key },
        { "name", tls->name, sizeof tls->name },
    };
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < form->option_count; i++)
        rc = try_option(form, &form->options[i], text, len, reterr);
    for (size_t i = 0; rc == 0 && form->tls != NULL && i < 4; i++) {
        rc = try_option(form, &for_tls[i], text, len, reterr);
        if (rc > 0 && !form->with_tls) {
            char why[80];
            (void)snprintf(why, sizeof why,
                           "the options ca, cert, key and name need %s:", form->tls);
            return refuse_url(form, reterr, why);
        }
    }
    if (rc == 0)
        return unknown_option(form, reterr);
    return rc < 0 ? rc : 0;
}

int tn_net_url_parse(struct tn_net_url *ret_url, const struct tn_net_form *form, const char *rest,
                     struct tn_text *reterr)
{
    struct tn_net_url url = { .count = 0 };
    int rc = 0;

    if (strncmp(rest, "//", 2) != 0)
        return refuse_url(form, reterr, "no // behind the scheme");
    const char *query = strchr(rest, '?');
    size_t len = query != NULL ? (size_t)(query - rest) : strlen(rest);
    const char *hosts = rest + 2, *end = rest + len;
    const char *slash = memchr(hosts, '/', (size_t)(end - hosts));
    const char *hosts_end = slash != NULL ? slash : end;
    for (const char *at = hosts_end; at > hosts; at--) {
        if (at[-1] != '@')
            continue;
        rc = read_user(&url, form, hosts, (size_t)(at - 1 - hosts), reterr);
        hosts = at;
        break;
    }
    if (rc == 0)
        rc = read_endpoints(&url, form, hosts, (size_t)(hosts_end - hosts), reterr);
    if (rc == 0 && slash != NULL &&
        !tn_url_decode(url.path, sizeof url.path, slash + 1, (size_t)(end - slash - 1)))
        rc = refuse_url(form, reterr, "a path that is too long or wrongly %-encoded");
    while (rc == 0 && query != NULL && query[1] != '\0') {
        size_t part = strcspn(query + 1, "&");
        rc = read_option(&url, form, query + 1, part, reterr);
        query = query[1 + part] == '&' ? query + 1 + part : NULL;
    }
    if (rc == 0)
        *ret_url = url;
    return rc;
}
