/* tls.c - OpenSSL between two memory buffers; tls.h has the contract. */
#include "runtime/tls.h"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct tn_tls_context {
    SSL_CTX *ctx; /* Counted by OpenSSL: each connection keeps it. */
    enum tn_tls_side side;
    const char *alpn;
};

struct tn_tls {
    SSL *ssl;
    BIO *in, *out; /* Owned by @ssl. */
    enum tn_tls_side side;
    const char *alpn;
    char error[TN_ERROR_TEXT];
};

/* --- Contexts --------------------------------------------------------------------------------- */

static bool is_given(const char *file)
{
    return file != NULL && file[0] != '\0';
}

static int refuse_options(const struct tn_tls_options *options, struct tn_text *reterr,
                          const char *what, const char *file)
{
    /* The first is the cause: of a file that cannot be opened, the system's own error. */
    unsigned long code = ERR_peek_error();
    bool by_system = code != 0 && ERR_GET_LIB(code) == ERR_LIB_SYS;
    const char *why = by_system ? strerror(ERR_GET_REASON(code)) : ERR_reason_error_string(code);

    tn_text_addf(reterr, "%s: cannot use %s '", options->scheme, what);
    tn_text_escape(reterr, file, strlen(file));
    tn_text_addf(reterr, "': %s", why != NULL ? why : "unknown reason");
    ERR_clear_error();
    return TENURE_E_INVALID;
}

static int check_options(const struct tn_tls_options *options, struct tn_text *reterr)
{
    const char *wrong = NULL;

    if (is_given(options->cert) != is_given(options->key))
        wrong = "the options cert and key go together";
    else if (options->side == TN_TLS_SERVER && !is_given(options->cert))
        wrong = "a server needs a certificate and its key";
    else if (options->side == TN_TLS_SERVER && !is_given(options->ca))
        wrong = "a server needs the CA that signs its clients' certificates";
    if (wrong != NULL)
        tn_text_addf(reterr, "%s: %s", options->scheme, wrong);
    return wrong != NULL ? TENURE_E_INVALID : 0;
}

static int read_files(SSL_CTX *ctx, const struct tn_tls_options *options, struct tn_text *reterr)
{
    ERR_clear_error();
    if (is_given(options->ca)) {
        if (SSL_CTX_load_verify_locations(ctx, options->ca, NULL) != 1)
            return refuse_options(options, reterr, "the CA file", options->ca);
    } else if (SSL_CTX_set_default_verify_paths(ctx) != 1) {
        return refuse_options(options, reterr, "the system's CA files", "");
    }
    if (!is_given(options->cert))
        return 0;
    if (SSL_CTX_use_certificate_chain_file(ctx, options->cert) != 1)
        return refuse_options(options, reterr, "the certificate file", options->cert);
    if (SSL_CTX_use_PrivateKey_file(ctx, options->key, SSL_FILETYPE_PEM) != 1 ||
        SSL_CTX_check_private_key(ctx) != 1)
        return refuse_options(options, reterr, "the key file", options->key);
    return 0;
}

/* Nobody is there to be asked for the password of a key. */
static int no_password(char *buf, int size, int writing, void *arg)
{
    (void)buf;
    (void)size;
    (void)writing;
    (void)arg;
    return 0;
}

/* @list: the client's protocols, each with its length before it. */
static int choose_alpn(SSL *ssl, const unsigned char **ret_out, unsigned char *ret_len,
                       const unsigned char *list, unsigned len, void *arg)
{
    const char *wanted = arg;

    (void)ssl;
    for (unsigned at = 0; at < len && at + list[at] < len; at += 1u + list[at]) {
        if (list[at] == strlen(wanted) && memcmp(list + at + 1, wanted, list[at]) == 0) {
            *ret_out = list + at + 1;
            *ret_len = list[at];
            return SSL_TLSEXT_ERR_OK;
        }
    }
    return SSL_TLSEXT_ERR_ALERT_FATAL;
}

static bool set_alpn(SSL_CTX *ctx, const struct tn_tls_options *options)
{
    unsigned char list[64];
    size_t len = options->alpn != NULL ? strlen(options->alpn) : 0;

    if (len == 0)
        return true;
    if (options->side == TN_TLS_SERVER) {
        SSL_CTX_set_alpn_select_cb(ctx, choose_alpn, (void *)(uintptr_t)options->alpn);
        return true;
    }
    if (len + 1 > sizeof list)
        return false;
    list[0] = (unsigned char)len;
    memcpy(list + 1, options->alpn, len);
    return SSL_CTX_set_alpn_protos(ctx, list, (unsigned)len + 1) == 0;
}

/* No resumption: it would let in a client whose CA was taken away by a reload. */
static int set_up_server(SSL_CTX *ctx, const struct tn_tls_options *options, struct tn_text *reterr)
{
    STACK_OF(X509_NAME) *names = SSL_load_client_CA_file(options->ca);

    if (names == NULL)
        return refuse_options(options, reterr, "the CA file", options->ca);
    SSL_CTX_set_client_CA_list(ctx, names);
    SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
    SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_options(ctx, SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION);
    (void)SSL_CTX_set_num_tickets(ctx, 0);
    return 0;
}

int tn_tls_context_new(struct tn_tls_context **ret_context, const struct tn_tls_options *options,
                       struct tn_text *reterr)
{
    bool server = options->side == TN_TLS_SERVER;
    struct tn_tls_context *context;

    int rc = check_options(options, reterr);
    if (rc < 0)
        return rc;
    rc = TENURE_E_NOMEM;
    context = calloc(1, sizeof *context);
    if (context == NULL)
        return rc;
    context->side = options->side;
    context->alpn = options->alpn;
    context->ctx = SSL_CTX_new(server ? TLS_server_method() : TLS_client_method());
    if (context->ctx == NULL)
        goto out;
    if (SSL_CTX_set_min_proto_version(context->ctx, TLS1_2_VERSION) != 1 ||
        !set_alpn(context->ctx, options))
        goto out;
    SSL_CTX_set_verify(context->ctx, SSL_VERIFY_PEER, NULL);
    SSL_CTX_set_default_passwd_cb(context->ctx, no_password);
    rc = read_files(context->ctx, options, reterr);
    if (rc == 0 && server)
        rc = set_up_server(context->ctx, options, reterr);
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

/* --- Connections ------------------------------------------------------------------------------ */

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
    tls->side = context->side;
    tls->alpn = context->alpn;
    SSL_set_bio(tls->ssl, tls->in, tls->out);
    if (tls->side == TN_TLS_SERVER) {
        SSL_set_accept_state(tls->ssl);
        return tls;
    }
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
    bool server = tls->side == TN_TLS_SERVER;

    if (verdict == X509_V_ERR_HOSTNAME_MISMATCH || verdict == X509_V_ERR_IP_ADDRESS_MISMATCH)
        (void)snprintf(tls->error, sizeof tls->error,
                       "the server's certificate is not for this host; use a host name that it is "
                       "for, or the option name=");
    else if (verdict != X509_V_OK)
        (void)snprintf(tls->error, sizeof tls->error, "the %s's certificate is not trusted (%s)%s",
                       server ? "client" : "server", X509_verify_cert_error_string(verdict),
                       server ? "" : "; give its CA with ca=FILE");
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
    if (tls->alpn == NULL)
        return TN_TLS_UP;
    SSL_get0_alpn_selected(tls->ssl, &chosen, &chosen_len);
    if (chosen_len == strlen(tls->alpn) && memcmp(chosen, tls->alpn, chosen_len) == 0)
        return TN_TLS_UP;
    (void)snprintf(tls->error, sizeof tls->error, "the peer does not offer the protocol %s (ALPN)",
                   tls->alpn);
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

/* --- Who the peer is -------------------------------------------------------------------------- */

/* Copies a name of the certificate; one with a zero or a line break in it is nobody's. */
static int take_name(const ASN1_STRING *from, char *ret_name, size_t size)
{
    unsigned char *text = NULL;
    int len = ASN1_STRING_to_UTF8(&text, from);
    int rc = len > 0 && (size_t)len < size ? 0 : TENURE_E_INVALID;

    for (int i = 0; rc == 0 && i < len; i++)
        if (text[i] < 0x20 || text[i] == 0x7f)
            rc = TENURE_E_INVALID;
    if (rc == 0) {
        memcpy(ret_name, text, (size_t)len);
        ret_name[len] = '\0';
    }
    OPENSSL_free(text);
    return rc;
}

static const ASN1_STRING *common_name(X509 *certificate)
{
    const X509_NAME *subject = X509_get_subject_name(certificate);
    int at = X509_NAME_get_index_by_NID(subject, NID_commonName, -1);

    return at < 0 ? NULL : X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at));
}

int tn_tls_principal(const struct tn_tls *tls, char *ret_name, size_t size)
{
    X509 *certificate = SSL_get_peer_certificate(tls->ssl);
    GENERAL_NAMES *names;
    const ASN1_STRING *found = NULL;
    int rc = TENURE_E_INVALID;

    if (certificate == NULL)
        return rc;
    names = X509_get_ext_d2i(certificate, NID_subject_alt_name, NULL, NULL);
    for (int i = 0; found == NULL && names != NULL && i < sk_GENERAL_NAME_num(names); i++) {
        const GENERAL_NAME *name = sk_GENERAL_NAME_value(names, i);
        if (name->type == GEN_DNS || name->type == GEN_URI)
            found = name->type == GEN_DNS ? name->d.dNSName : name->d.uniformResourceIdentifier;
    }
    if (found == NULL)
        found = common_name(certificate);
    if (found != NULL)
        rc = take_name(found, ret_name, size);
    GENERAL_NAMES_free(names);
    X509_free(certificate);
    return rc;
}

const char *tn_tls_error(const struct tn_tls *tls)
{
    return tls->error;
}
