/* net_url.h - the URL of servers, which is the same for every store that is reached by network.
 *
 *   SCHEME://[USER[:PASSWORD]@]HOST[:PORT][,HOST[:PORT]...][/PATH][?OPTION=VALUE[&...]]
 *
 * Every part but the hosts may be %-encoded. No error line repeats a password. Threads: any. */
#ifndef TN_BASE_NET_URL_H
#define TN_BASE_NET_URL_H

#include <stdbool.h>
#include <stddef.h>

#include "base/text.h"
#include "tenure/error.h"

enum { TN_ENDPOINTS_MAX = 16 };

struct tn_endpoint {
    char host[256]; /* Without brackets; when @local, the path of a Unix socket. */
    char port[6];
    char where[272]; /* host:port or the path, for people. */
    bool local;
};

/* What TLS needs; all empty when not given. */
struct tn_net_tls {
    char ca[256], cert[256], key[256]; /* PEM files. */
    char name[256];                    /* What the certificate must be for, instead of HOST. */
};

struct tn_net_option {
    const char *name;
    char *value; /* @size bytes; left alone when not given. */
    size_t size;
};

/* What a scheme's URLs look like. */
struct tn_net_form {
    const char *scheme; /* Error lines begin with it. */
    const char *usage;  /* "etcd://HOST...": error lines end with it. */
    const char *port;   /* Where none is given. */
    const char *tls;    /* The scheme with TLS, for the hint. */
    bool with_tls;      /* The URL has that scheme, and may have the options ca, cert, key, name. */
    const struct tn_net_option *options; /* Others. */
    size_t option_count;
};

struct tn_net_url {
    struct tn_endpoint endpoints[TN_ENDPOINTS_MAX];
    unsigned count;
    char user[128]; /* Empty: none. */
    char password[256];
    char path[256]; /* Behind the slash. */
    struct tn_net_tls tls;
};

/* Read @rest, the URL behind its scheme's colon. Returns 0 or TENURE_E_INVALID with a line. */
TENURE_MUST_USE int tn_net_url_parse(struct tn_net_url *ret_url, const struct tn_net_form *form,
                                     const char *rest, struct tn_text *reterr);

/* One "HOST[:PORT]" of @len bytes. Returns 0 or TENURE_E_INVALID with @reterr, what is wrong. */
TENURE_MUST_USE int tn_endpoint_parse(struct tn_endpoint *ret_endpoint, const char *text,
                                      size_t len, const char *port, const char **reterr);

/* The endpoint of a Unix socket. False: the path is too long for one. */
TENURE_MUST_USE bool tn_endpoint_local(struct tn_endpoint *ret_endpoint, const char *path);

/* A part of a URL with its %XX read; false: malformed, or it does not fit. */
TENURE_MUST_USE bool tn_url_decode(char *ret_text, size_t size, const char *from, size_t len);

#endif
