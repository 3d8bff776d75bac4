/* tls.c - OpenSSL between two memory buffers; tls.h has the contract. */
#include "stores/etcd/tls.h"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct tn_tls_context {
    SSL_CTX *ctx;
};

struct tn_tls {
    SSL *ssl;
    BIO *in, *out; /* Owned by @ssl. */
    char error[160];
};

static int refuse(struct tn_text *reterr, const char *what, const char *file)
{
    unsigned long code = ERR_peek_last_error();

    tn_text_addf(reterr, "etcds: cannot use %s '", what);
    tn_text_escape(reterr, file, strlen(file));
    tn_text_addf(reterr, "': %s", code != 0 ? ERR_reason_error_string(code) : "unknown reason");
    ERR_clear_error();
    return TENURE_E_INVALID;
}

static int read_files(SSL_CTX *ctx, const struct tn_etcd_config *config, struct tn_text *reterr)
{
    ERR_clear_error();
    if (config->ca[0] != '\0') {
        if (SSL_CTX_load_verify_locations(ctx, config->ca, NULL) != 1)
            return refuse(reterr, "the CA file", config->ca);
    } else if (SSL_CTX_set_default_verify_paths(ctx) != 1) {
        return refuse(reterr, "the system's CA files", "");
    }
    if ((config->cert[0] == '\0') != (config->key[0] == '\0')) {
        tn_text_add(reterr, "etcds: the options cert and key go together");
        return TENURE_E_INVALID;
    }
    if (config->cert[0] == '\0')
        return 0;
    if (SSL_CTX_use_certificate_chain_file(ctx, config->cert) != 1)
        return refuse(reterr, "the certificate file", config->cert);
    if (SSL_CTX_use_PrivateKey_file(ctx, config->key, SSL_FILETYPE_PEM) != 1 ||
        SSL_CTX_check_private_key(ctx) != 1)
        return refuse(reterr, "the key file", config->key);
    return 0;
}

int tn_tls_context_new(struct tn_tls_context **ret_context, const struct tn_etcd_config *config,
                       struct tn_text *reterr)
{
    static const unsigned char h2[] = { 2, 'h', '2' };
    struct tn_tls_context *context = calloc(1, sizeof *context);
    int rc = TENURE_E_NOMEM;

    if (context == NULL)
        return TENURE_E_NOMEM;
    context->ctx = SSL_CTX_new(TLS_client_method());
    if (context->ctx == NULL)
        goto out;
    if (SSL_CTX_set_min_proto_version(context->ctx, TLS1_2_VERSION) != 1 ||
        SSL_CTX_set_alpn_protos(context->ctx, h2, sizeof h2) != 0)
        goto out;
    SSL_CTX_set_verify(context->ctx, SSL_VERIFY_PEER, NULL);
    rc = read_files(context->ctx, config, reterr);
out:
    if (rc < 0)
        tn_tls_context_free(context);
    else
        *ret_context = context;
    return rc;
}

void tn_tls_context_free(struct tn_tls_context *context)
{
    if (context == NULL)
        return;
    SSL_CTX_free(context->ctx);
    free(context);
}

static bool is_address(const char *host)
{
    unsigned char bytes[16];
    return inet_pton(AF_INET, host, bytes) == 1 || inet_pton(AF_INET6, host, bytes) == 1;
}

struct tn_tls *tn_tls_new(struct tn_tls_context *context, const char *host)
{
    struct tn_tls *tls = calloc(1, sizeof *tls);
    int good = 0;

    if (tls == NULL)
        return NULL;
    tls->ssl = SSL_new(context->ctx);
    tls->in = BIO_new(BIO_s_mem());
    tls->out = BIO_new(BIO_s_mem());
    if (tls->ssl == NULL || tls->in == NULL || tls->out == NULL) {
        BIO_free(tls->in);
        BIO_free(tls->out);
        goto out;
    }
    SSL_set_bio(tls->ssl, tls->in, tls->out);
    SSL_set_connect_state(tls->ssl);
    if (is_address(host))
        good = X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(tls->ssl), host);
    else
        good = SSL_set1_host(tls->ssl, host) == 1 && SSL_set_tlsext_host_name(tls->ssl, host) == 1;
out:
    if (!good) {
        tn_tls_free(tls);
        return NULL;
    }
    return tls;
}

void tn_tls_free(struct tn_tls *tls)
{
    if (tls == NULL)
        return;
    SSL_free(tls->ssl);
    free(tls);
}

static void explain(struct tn_tls *tls)
{
    long verdict = SSL_get_verify_result(tls->ssl);
    unsigned long code = ERR_peek_last_error();
    const char *why = code != 0 ? ERR_reason_error_string(code) : NULL;

    if (verdict == X509_V_ERR_HOSTNAME_MISMATCH || verdict == X509_V_ERR_IP_ADDRESS_MISMATCH)
        (void)snprintf(tls->error, sizeof tls->error,
                       "the server's certificate is not for this host; use a host name that it is "
                       "for, or the option name=");
    else if (verdict != X509_V_OK)
        (void)snprintf(tls->error, sizeof tls->error,
                       "the server's certificate is not trusted (%s); give its CA with ca=FILE",
                       X509_verify_cert_error_string(verdict));
    else
        (void)snprintf(tls->error, sizeof tls->error, "TLS failed: %s",
                       why != NULL ? why : "the connection ended");
    ERR_clear_error();
}

static enum tn_tls_state fail(struct tn_tls *tls)
{
    explain(tls);
    return TN_TLS_FAILED;
}

enum tn_tls_state tn_tls_feed(struct tn_tls *tls, const uint8_t *data, size_t len)
{
    const unsigned char *chosen = NULL;
    unsigned chosen_len = 0;

    ERR_clear_error();
    if (data != NULL && BIO_write(tls->in, data, (int)len) != (int)len)
        return fail(tls);
    if (SSL_is_init_finished(tls->ssl))
        return TN_TLS_UP;
    int rc = SSL_do_handshake(tls->ssl);
    if (rc != 1) {
        int why = SSL_get_error(tls->ssl, rc);
        return why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE ? TN_TLS_SHAKING
                                                                         : fail(tls);
    }
    SSL_get0_alpn_selected(tls->ssl, &chosen, &chosen_len);
    if (chosen_len == 2 && memcmp(chosen, "h2", 2) == 0)
        return TN_TLS_UP;
    (void)snprintf(tls->error, sizeof tls->error, "the server does not offer HTTP/2 (ALPN h2)");
    return TN_TLS_FAILED;
}

ssize_t tn_tls_read(struct tn_tls *tls, uint8_t *buf, size_t size)
{
    ERR_clear_error();
    int got = SSL_read(tls->ssl, buf, (int)size);
    if (got > 0)
        return got;
    int why = SSL_get_error(tls->ssl, got);
    if (why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE)
        return 0;
    explain(tls);
    return -1;
}

int tn_tls_write(struct tn_tls *tls, const uint8_t *data, size_t len)
{
    ERR_clear_error();
    /* A memory buffer takes everything. */
    if (len > 0 && SSL_write(tls->ssl, data, (int)len) != (int)len)
        return TENURE_E_NOMEM;
    return 0;
}

size_t tn_tls_pull(struct tn_tls *tls, uint8_t *buf, size_t size)
{
    int got = BIO_read(tls->out, buf, (int)size);
    return got > 0 ? (size_t)got : 0;
}

const char *tn_tls_error(const struct tn_tls *tls)
{
    return tls->error;
}
