/* kube_access.c - one question after the other: the version, then a review of each verb. */
#define _GNU_SOURCE
#include "net/kube_access.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/time.h"

#define REVIEWS "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"

const char tn_kube_role[] = "apiVersion: rbac.authorization.k8s.io/v1\n"
                            "kind: Role\n"
                            "metadata:\n"
                            "  name: tenure\n"
                            "rules:\n"
                            "- apiGroups: [coordination.k8s.io]\n"
                            "  resources: [leases]\n"
                            "  verbs: [get, list, watch, create, update]\n";

static const char *const verbs[] = { "get", "list", "watch", "create", "update" };

enum { VERBS = sizeof verbs / sizeof verbs[0] };

struct inquiry {
    struct tn_kube_call call; /* First. */
    struct tn_kube_api *api;
    const char *namespace;
    struct tn_kube_access *access;
    unsigned next; /* The verb that is asked about next. */
    char missing[64];
    void (*done)(void *arg, int status, const char *error);
    void *arg;
};

static void end_inquiry(struct inquiry *inquiry, int status, const char *error)
{
    struct tn_kube_access *access = inquiry->access;

    if (inquiry->missing[0] != '\0')
        (void)snprintf(access->warning, sizeof access->warning,
                       "this user may not %s Leases in the namespace '%s': apply the role below",
                       inquiry->missing, inquiry->namespace);
    inquiry->done(inquiry->arg, status, error);
    free(inquiry);
}

static void ask_next(struct inquiry *inquiry)
{
    struct tn_kube_call *call = &inquiry->call;

    call->method = "POST";
    (void)snprintf(call->path, sizeof call->path, "%s", REVIEWS);
    if (asprintf(&call->send,
                 "{\"apiVersion\":\"authorization.k8s.io/v1\",\"kind\":"
                 "\"SelfSubjectAccessReview\",\"spec\":{\"resourceAttributes\":{\"group\":"
                 "\"coordination.k8s.io\",\"resource\":\"leases\",\"namespace\":\"%s\","
                 "\"verb\":\"%s\"}}}",
                 inquiry->namespace, verbs[inquiry->next]) < 0) {
        call->send = NULL;
        end_inquiry(inquiry, TENURE_E_NOMEM, "out of memory");
        return;
    }
    tn_kube_start(inquiry->api, call);
}

static void hear_answer(struct tn_kube_call *call)
{
    struct inquiry *inquiry = (struct inquiry *)(void *)call;
    struct tn_kube_access *access = inquiry->access;
    struct tn_json_value *values =
        call->status == 0 ? tn_kube_parse(call->body, call->body_len) : NULL;
    bool version = strcmp(call->path, "/version") == 0;
    char text[32] = "";

    if (call->status != 0 || values == NULL) {
        free(values);
        end_inquiry(inquiry, call->status != 0 ? call->status : TENURE_E_DAMAGED,
                    call->status != 0 ? call->error : "kubernetes: the answer is no JSON");
        return;
    }
    if (version) {
        (void)tn_json_text(values, values, "gitVersion", text, sizeof text);
        (void)snprintf(access->version, sizeof access->version, "%s",
                       text[0] == 'v' ? text + 1 : text);
    } else {
        const struct tn_json_value *status = tn_json_object(values, 0, "status");
        const struct tn_json_value *allowed =
            status != NULL ? tn_json_get(values, (uint32_t)(status - values), "allowed") : NULL;
        if (allowed == NULL || allowed->type != TN_JSON_BOOL || allowed->bytes[0] != 't') {
            size_t len = strlen(inquiry->missing);
            (void)snprintf(inquiry->missing + len, sizeof inquiry->missing - len, "%s%s",
                           len > 0 ? ", " : "", verbs[inquiry->next]);
        }
        inquiry->next++;
    }
    free(values);
    if (inquiry->next == VERBS)
        end_inquiry(inquiry, 0, NULL);
    else
        ask_next(inquiry);
}

void tn_kube_access(struct tn_kube_api *api, const char *namespace, struct tn_kube_access *access,
                    void (*done)(void *arg, int status, const char *error), void *arg)
{
    struct inquiry *inquiry = calloc(1, sizeof *inquiry);

    if (inquiry == NULL) {
        done(arg, TENURE_E_NOMEM, "out of memory");
        return;
    }
    inquiry->api = api;
    inquiry->namespace = namespace;
    inquiry->access = access;
    inquiry->done = done;
    inquiry->arg = arg;
    inquiry->call.method = "GET";
    inquiry->call.done = hear_answer;
    inquiry->call.web.timeout = TN_SEC(10);
    inquiry->call.web.body_max = 64 * 1024;
    (void)snprintf(inquiry->call.path, sizeof inquiry->call.path, "/version");
    tn_kube_start(api, &inquiry->call);
}
