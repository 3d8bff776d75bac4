/* config.c - reading an etcd: URL; config.h has its form. */
#include "stores/etcd/config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* A part of the URL with its %XX read; false: malformed, or it does not fit. */
static bool decode(char *ret_text, size_t size, const char *from, size_t len)
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

static int refuse(struct tn_text *reterr, const char *why)
{
    tn_text_addf(reterr, "etcd: %s; write etcd://HOST[:PORT][,HOST[:PORT]...][/PREFIX]", why);
    return TENURE_E_INVALID;
}

static int add_endpoint(struct tn_etcd_config *config, const char *text, size_t len,
                        struct tn_text *reterr)
{
    const char *end = text + len, *host_end = end, *port = NULL;
    struct tn_etcd_endpoint *endpoint = &config->endpoints[config->count];

    if (config->count == TN_ETCD_ENDPOINTS)
        return refuse(reterr, "more than 16 endpoints");
    bool bracket = len > 0 && text[0] == '[';
    if (bracket) {
        host_end = memchr(text, ']', len);
        if (host_end == NULL)
            return refuse(reterr, "a '[' without its ']'");
        if (host_end + 1 < end && host_end[1] == ':')
            port = host_end + 2;
        else if (host_end + 1 != end)
            return refuse(reterr, "something else than a port behind ']'");
        text++;
    } else if (memchr(text, ':', len) != NULL) {
        host_end = memchr(text, ':', len);
        port = host_end + 1;
    }
    size_t host_len = (size_t)(host_end - text);
    size_t port_len = port != NULL ? (size_t)(end - port) : 0;
    if (host_len == 0 || host_len >= sizeof endpoint->host)
        return refuse(reterr, "an endpoint without a host");
    if (port != NULL && (port_len == 0 || port_len > 5 || strspn(port, "0123456789") < port_len ||
                         strtol(port, NULL, 10) > 65535 || strtol(port, NULL, 10) < 1))
        return refuse(reterr, "a port that is no number from 1 to 65535");
    memcpy(endpoint->host, text, host_len);
    endpoint->host[host_len] = '\0';
    (void)snprintf(endpoint->port, sizeof endpoint->port, "%.*s", port != NULL ? (int)port_len : 4,
                   port != NULL ? port : "2379");
    (void)snprintf(endpoint->where, sizeof endpoint->where, bracket ? "[%s]:%s" : "%s:%s",
                   endpoint->host, endpoint->port);
    config->count++;
    return 0;
}

static int read_user(struct tn_etcd_config *config, const char *text, size_t len,
                     struct tn_text *reterr)
{
    const char *colon = memchr(text, ':', len);
    size_t user_len = colon != NULL ? (size_t)(colon - text) : len;

    if (!decode(config->user, sizeof config->user, text, user_len) ||
        (colon != NULL &&
         !decode(config->password, sizeof config->password, colon + 1, len - user_len - 1)))
        return refuse(reterr, "a user or password that is too long or wrongly %-encoded");
    return 0;
}

static int read_option(struct tn_etcd_config *config, const char *text, size_t len,
                       struct tn_text *reterr)
{
    const struct {
        const char *name;
        char *value;
    } options[] = {
        { "ca=", config->ca },
        { "cert=", config->cert },
        { "key=", config->key },
        { "name=", config->name },
    };

    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++) {
        size_t name_len = strlen(options[i].name);
        if (len <= name_len || memcmp(text, options[i].name, name_len) != 0)
            continue;
        if (!config->tls)
            return refuse(reterr, "the options ca, cert, key and name need etcds:");
        if (!decode(options[i].value, sizeof config->ca, text + name_len, len - name_len))
            return refuse(reterr, "an option that is too long or wrongly %-encoded");
        return 0;
    }
    return refuse(reterr, "an unknown option; known are ca, cert, key and name");
}

static int read_prefix(struct tn_etcd_config *config, const char *text, size_t len,
                       struct tn_text *reterr)
{
    while (len > 0 && text[len - 1] == '/')
        len--;
    if (!decode(config->prefix, TN_ETCD_PREFIX_MAX + 1, text, len))
        return refuse(reterr, "a prefix that is too long or wrongly %-encoded");
    size_t end = strlen(config->prefix);
    if (end > 0)
        memcpy(config->prefix + end, "/", 2);
    return 0;
}

static void read_environment(struct tn_etcd_config *config)
{
    const char *user = getenv("TENURE_ETCD_USER");
    const char *password = getenv("TENURE_ETCD_PASSWORD");

    if (config->user[0] == '\0' && user != NULL)
        (void)snprintf(config->user, sizeof config->user, "%s", user);
    if (config->password[0] == '\0' && password != NULL)
        (void)snprintf(config->password, sizeof config->password, "%s", password);
}

static int read_endpoints(struct tn_etcd_config *config, const char *text, size_t len,
                          struct tn_text *reterr)
{
    int rc = 0;

    for (size_t at = 0; rc == 0 && at <= len;) {
        const char *comma = at < len ? memchr(text + at, ',', len - at) : NULL;
        size_t part = comma != NULL ? (size_t)(comma - text) - at : len - at;
        rc = add_endpoint(config, text + at, part, reterr);
        at += part + 1;
    }
    return rc;
}

int tn_etcd_config_parse(struct tn_etcd_config *ret_config, const char *rest, bool tls,
                         struct tn_text *reterr)
{
    struct tn_etcd_config config = { .tls = tls };
    int rc = 0;

    if (strncmp(rest, "//", 2) != 0)
        return refuse(reterr, "no // behind the scheme");
    const char *query = strchr(rest, '?');
    size_t len = query != NULL ? (size_t)(query - rest) : strlen(rest);
    const char *hosts = rest + 2, *end = rest + len;
    const char *slash = memchr(hosts, '/', (size_t)(end - hosts));
    const char *hosts_end = slash != NULL ? slash : end;
    for (const char *at = hosts_end; at > hosts; at--) {
        if (at[-1] != '@')
            continue;
        rc = read_user(&config, hosts, (size_t)(at - 1 - hosts), reterr);
        hosts = at;
        break;
    }
    if (rc == 0)
        rc = read_endpoints(&config, hosts, (size_t)(hosts_end - hosts), reterr);
    if (rc == 0 && slash != NULL)
        rc = read_prefix(&config, slash + 1, (size_t)(end - slash - 1), reterr);
    while (rc == 0 && query != NULL && query[1] != '\0') {
        size_t part = strcspn(query + 1, "&");
        rc = read_option(&config, query + 1, part, reterr);
        query = query[1 + part] == '&' ? query + 1 + part : NULL;
    }
    if (rc < 0)
        return rc;
    read_environment(&config);
    if (config.password[0] != '\0' && config.user[0] == '\0')
        return refuse(reterr, "a password without a user");
    *ret_config = config;
    return 0;
}
