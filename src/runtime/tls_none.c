/* tls_none.c - TLS in a build without OpenSSL: there are no contexts, and so no connections. */
#include "base/assert.h"
#include "runtime/tls.h"

int tn_tls_context_new(struct tn_tls_context **ret_context, const struct tn_tls_options *options,
                       struct tn_text *reterr)
{
    (void)ret_context;
    tn_text_addf(reterr, "%s: built without TLS; install libssl-dev and build again",
                 options->scheme);
    return TENURE_E_UNSUPPORTED;
}

void tn_tls_context_free(struct tn_tls_context *context)
{
    TN_ASSERT(context == NULL);
}

struct tn_tls *tn_tls_new(struct tn_tls_context *context, const char *host)
{
    (void)context;
    (void)host;
    return NULL;
}

void tn_tls_free(struct tn_tls *tls)
{
    TN_ASSERT(tls == NULL);
}

enum tn_tls_state tn_tls_feed(struct tn_tls *tls, const uint8_t *data, size_t len)
{
    (void)tls;
    (void)data;
    (void)len;
    return TN_TLS_FAILED;
}

ssize_t tn_tls_read(struct tn_tls *tls, uint8_t *buf, size_t size)
{
    (void)tls;
    (void)buf;
    (void)size;
    return -1;
}

int tn_tls_write(struct tn_tls *tls, const uint8_t *data, size_t len)
{
    (void)tls;
    (void)data;
    (void)len;
    return TENURE_E_UNSUPPORTED;
}

size_t tn_tls_pull(struct tn_tls *tls, uint8_t *buf, size_t size)
{
    (void)tls;
    (void)buf;
    (void)size;
    return 0;
}

int tn_tls_principal(const struct tn_tls *tls, char *ret_name, size_t size)
{
    (void)tls;
    (void)ret_name;
    (void)size;
    return TENURE_E_INVALID;
}

const char *tn_tls_error(const struct tn_tls *tls)
{
    (void)tls;
    return "built without TLS";
}
