/* kube_access.h - what an API server is, and what it lets us do: for `tenure doctor`. */
#ifndef TN_NET_KUBE_ACCESS_H
#define TN_NET_KUBE_ACCESS_H

#include "net/kube_api.h"

/* The least rights, to be given to kubectl apply. */
extern const char tn_kube_role[];

struct tn_kube_access {
    char version[32];            /* "1.37.1" */
    char warning[TN_ERROR_TEXT]; /* The verbs that are missing, and what to do; empty: none. */
};

/* Ask for the version, and about each verb on Leases of @namespace, which is borrowed until @done,
 * as is @access. @done comes once, never inside the call, with 0 or why it is not known. */
void tn_kube_access(struct tn_kube_api *api, const char *namespace, struct tn_kube_access *access,
                    void (*done)(void *arg, int status, const char *error), void *arg);

#endif
