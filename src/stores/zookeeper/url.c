/* url.c - "//[user:password@]host[:port],.../chroot" taken apart. */
#include "stores/zookeeper/url.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { PORT = 2181 };

static int refuse(struct tn_text *reterr, const char *why)
{
    tn_text_addf(reterr, "%s: write zookeeper://[user:password@]host[:port],host[:port]/chroot",
                 why);
    return TENURE_E_INVALID;
}

static int hex(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* "%3A" is a colon. False: it does not fit, or it is no number. */
static bool decode(const char *text, size_t len, char *ret_text, size_t size)
{
    size_t used = 0;

    for (size_t i = 0; i < len; i++) {
        char c = text[i];
        if (c == '%') {
            if (i + 2 >= len || hex(text[i + 1]) < 0 || hex(text[i + 2]) < 0)
                return false;
            c = (char)(hex(text[i + 1]) * 16 + hex(text[i + 2]));
            i += 2;
        }
        if (c == '\0' || used + 1 >= size)
            return false;
        ret_text[used++] = c;
    }
    ret_text[used] = '\0';
    return true;
}

static bool parse_port(const char *text, size_t len, unsigned *ret_port)
{
    unsigned port = 0;

    if (len == 0 || len > 5)
        return false;
    for (size_t i = 0; i < len; i++) {
        if (text[i] < '0' || text[i] > '9')
            return false;
        port = port * 10 + (unsigned)(text[i] - '0');
    }
    *ret_port = port;
    return port > 0 && port < 65536;
}

static bool is_host_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '-' || c == '_';
}

/* "host", "host:port", "[::1]:port". */
static bool parse_host(const char *text, size_t len, struct tn_zk_url *url)
{
    bool bracket = len > 0 && text[0] == '[';
    const char *end = bracket ? memchr(text, ']', len) : NULL;
    size_t host_len;
    char *host = url->hosts[url->host_count].name;

    if (bracket && end == NULL)
        return false;
    if (bracket) {
        text++;
        len--;
        host_len = (size_t)(end - text);
    } else {
        const char *colon = memchr(text, ':', len);
        host_len = colon != NULL ? (size_t)(colon - text) : len;
    }
    if (host_len == 0 || host_len >= TN_ZK_HOST_MAX)
        return false;
    for (size_t i = 0; i < host_len; i++) {
        if (!is_host_char(text[i]) && !(bracket && text[i] == ':'))
            return false;
    }
    memcpy(host, text, host_len);
    host[host_len] = '\0';
    size_t at = host_len + (bracket ? 1 : 0);
    url->hosts[url->host_count].port = PORT;
    if (at < len && (text[at] != ':' ||
                     !parse_port(text + at + 1, len - at - 1, &url->hosts[url->host_count].port)))
        return false;
    url->host_count++;
    return true;
}

static int parse_hosts(const char *text, size_t len, struct tn_zk_url *url, struct tn_text *reterr)
{
    size_t start = 0;

    for (size_t i = 0; i <= len; i++) {
        if (i < len && text[i] != ',')
            continue;
        if (url->host_count == TN_ZK_HOSTS_MAX)
            return refuse(reterr, "more than 16 hosts");
        if (!parse_host(text + start, i - start, url))
            return refuse(reterr, "the URL names no host and port");
        start = i + 1;
    }
    return 0;
}

static int parse_chroot(const char *path, struct tn_zk_url *url, struct tn_text *reterr)
{
    const char *reason = NULL;
    size_t len = strlen(path);

    if (len <= 1)
        return 0;
    if (path[len - 1] == '/')
        len--;
    if (tn_name_check(path + 1, len - 1, &reason) < 0) {
        tn_text_addf(reterr, "the chroot follows the rule of names: %s", reason);
        return TENURE_E_INVALID;
    }
    if (strncmp(path, "/zookeeper", 10) == 0 && (path[10] == '/' || len == 10)) {
        tn_text_add(reterr, "/zookeeper belongs to the server: choose another chroot");
        return TENURE_E_INVALID;
    }
    memcpy(url->chroot, path, len);
    url->chroot[len] = '\0';
    return 0;
}

int tn_zk_url_parse(const char *rest, struct tn_zk_url *ret_url, struct tn_text *reterr)
{
    struct tn_zk_url url = { .host_count = 0 };

    if (strncmp(rest, "//", 2) != 0)
        return refuse(reterr, "the URL has no host");
    rest += 2;
    if (strpbrk(rest, "?#") != NULL)
        return refuse(reterr, "a ZooKeeper URL has no options");
    /* What is not for a URL in the password - '/', '@', ',' - is written as %2F and so on. */
    size_t whole = strcspn(rest, "/");
    const char *at = memchr(rest, '@', whole);
    if (at != NULL) {
        if (!decode(rest, (size_t)(at - rest), url.auth, sizeof url.auth) ||
            strchr(url.auth, ':') == NULL)
            return refuse(reterr, "the user and the password are not readable (escape as %40)");
        rest = at + 1;
        whole = strcspn(rest, "/");
    }
    int rc = parse_hosts(rest, whole, &url, reterr);
    if (rc == 0)
        rc = parse_chroot(rest + whole, &url, reterr);
    if (rc == 0)
        *ret_url = url;
    return rc;
}

void tn_zk_url_hosts(const struct tn_zk_url *url, struct tn_text *text)
{
    for (size_t i = 0; i < url->host_count; i++) {
        bool six = strchr(url->hosts[i].name, ':') != NULL;
        tn_text_addf(text, "%s%s%s%s:%u", i > 0 ? "," : "", six ? "[" : "", url->hosts[i].name,
                     six ? "]" : "", url->hosts[i].port);
    }
}
