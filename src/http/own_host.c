/* own_host.c - names of this machine in a request; own_host.h has the contract. */
#define _GNU_SOURCE
#include "http/own_host.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>
#include <strings.h>

enum { HOST_MAX = 63, PORT_DIGITS = 5, HOST_FIELD_MAX = 300 };

/* "" or ":7421". */
static bool is_port(const char *text)
{
    size_t digits = text[0] == ':' ? strspn(text + 1, "0123456789") : 0;

    return text[0] == '\0' || (digits > 0 && digits <= PORT_DIGITS && text[1 + digits] == '\0');
}

bool tn_own_host(const char *host)
{
    bool bracket = host[0] == '[';
    const char *name = bracket ? host + 1 : host;
    size_t len = strcspn(name, bracket ? "]" : ":");
    char copy[HOST_MAX + 1];
    struct in6_addr v6;
    struct in_addr v4;

    if (len > HOST_MAX || (bracket && name[len] == '\0') || !is_port(name + len + bracket))
        return false;
    memcpy(copy, name, len);
    copy[len] = '\0';
    if (bracket)
        return inet_pton(AF_INET6, copy, &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
    return strcasecmp(copy, "localhost") == 0 ||
           (inet_pton(AF_INET, copy, &v4) == 1 && ntohl(v4.s_addr) >> 24 == 127);
}

/* Whether the request has the field @name, and it says @word. */
static bool says(const struct tn_http_head *head, const char *name, const char *word)
{
    const struct tn_http_slice *value = tn_http_field(head, name, NULL);

    return value != NULL && value->len == strlen(word) &&
           memcmp(value->bytes, word, value->len) == 0;
}

static bool is_same(const struct tn_http_slice *origin, const char *scheme, const char *host)
{
    size_t len = strlen(scheme);

    return origin->len == len + strlen(host) && memcmp(origin->bytes, scheme, len) == 0 &&
           strncasecmp(origin->bytes + len, host, strlen(host)) == 0;
}

const char *tn_own_request(const struct tn_http_head *head, bool secure, bool page)
{
    const struct tn_http_slice *named = tn_http_field(head, "host", NULL);
    const struct tn_http_slice *origin = tn_http_field(head, "origin", NULL);
    bool has_site = tn_http_field(head, "sec-fetch-site", NULL) != NULL;
    char host[HOST_FIELD_MAX + 1] = "";

    if (named != NULL && named->len <= HOST_FIELD_MAX)
        memcpy(host, named->bytes, named->len);
    if (named != NULL && !secure && !tn_own_host(host))
        return "Host: use localhost or the address; another name may be a trick";
    if (origin != NULL &&
        (host[0] == '\0' || !is_same(origin, secure ? "https://" : "http://", host)))
        return "Origin: not from another site";
    if (has_site && !says(head, "sec-fetch-site", "same-origin") &&
        !says(head, "sec-fetch-site", "none") &&
        !(page && says(head, "sec-fetch-mode", "navigate") &&
          says(head, "sec-fetch-dest", "document")))
        return "not from another site";
    return NULL;
}
