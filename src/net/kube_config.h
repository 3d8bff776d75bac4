/* kube_config.h - where a Kubernetes API server is and how a client signs in, as users have it.
 *
 * The order is client-go's: the file that the URL names; the files of $KUBECONFIG, of which the
 * first that has an entry counts; ~/.kube/config; the service account of the pod. A path in a file
 * is relative to that file's folder.
 *
 * What is not supported is refused by name rather than ignored: a client that skips an option of
 * its user's configuration may talk to another server, or as another user, than it should.
 *
 * Threads: any. Blocks only to read files. */
#ifndef TN_NET_KUBE_CONFIG_H
#define TN_NET_KUBE_CONFIG_H

#include <stddef.h>

#include "base/text.h"
#include "tenure/error.h"

enum {
    TN_KUBE_NAMESPACE_MAX = 63,
    TN_KUBE_WORDS_MAX = 64, /* Arguments or variables of a credential plug-in. */
    TN_KUBE_FILE_MAX = 1 << 20,
};

/* Each text is NULL when not given, and owned by the struct. */
struct tn_kube_config {
    char *server;    /* "https://10.0.0.1:6443", without a slash at its end. */
    char *namespace; /* Of the context or of the pod. */
    char *origin;    /* For people: "context 'prod' of /root/.kube/config". */
    char *ca_file, *ca_pem;
    char *cert_file, *cert_pem, *key_file, *key_pem;
    char *token, *token_file;
    /* A credential plug-in: run directly, never by a shell. */
    char *exec_command, *exec_version;
    char *exec_args[TN_KUBE_WORDS_MAX + 1]; /* NULL behind the last. */
    char *exec_env[TN_KUBE_WORDS_MAX + 1];  /* "NAME=value". */
};

/* @file and @context: what the URL says; NULL or empty: nothing. Returns 0; TENURE_E_INVALID: a
 * configuration is wrong or there is none; TENURE_E_NOMEM. @reterr has a line. */
TENURE_MUST_USE int tn_kube_config_load(struct tn_kube_config *ret_config, const char *file,
                                        const char *context, struct tn_text *reterr);
void tn_kube_config_free(struct tn_kube_config *config);

/* The same for @rest, a URL behind "kubernetes:": "//[NAMESPACE][?context=NAME&kubeconfig=PATH]".
 * The namespace is the URL's, else the configuration's, else "default", and well formed. */
TENURE_MUST_USE int tn_kube_config_open(struct tn_kube_config *ret_config, const char *rest,
                                        struct tn_text *reterr);

/* The whole file @path, a zero behind it, to be freed. NULL: errno says why; EFBIG: longer than
 * TN_KUBE_FILE_MAX. */
char *tn_kube_read_file(const char *path, size_t *ret_len);

#endif
