/* list.c - what the daemon is asked beside the operations: a list of names, which comes in pages,
 * one line of it, who waits for a name, and its terms. */
#include <stdio.h>
#include <stdlib.h>

#include "stores/tenured/private.h"

struct tenured_list {
    struct tn_resp_call call; /* First. */
    struct tn_tenured *store;
    struct tn_store_query *query;
};

static void list_end(struct tenured_list *list, int status, const char *error)
{
    tn_query_done(list->query, status, error);
    free(list);
}

/* True: there is no reply to be read, and the asker was told why. */
static bool list_has_failed(struct tenured_list *list)
{
    const struct tn_resp_call *call = &list->call;
    char why[TN_ERROR_TEXT];

    if (call->status == 0 && call->value.type != TN_RESP_ERROR)
        return false;
    if (call->status != 0)
        list_end(list, call->status, call->error);
    else if (list->query->told != NULL && tn_resp_begins(&call->value, "ERR unknown command"))
        list_end(list, TENURE_E_UNSUPPORTED,
                 "this tenured keeps no history; install a later version");
    else {
        int status = tn_tenured_blame(list->store, &call->value, why, sizeof why);
        list_end(list, status, why);
    }
    return true;
}

static void list_send(struct tenured_list *list, const struct tn_resp_word *words, uint32_t count,
                      void (*done)(struct tn_resp_call *call))
{
    struct tn_tenured *store = list->store;

    list->call = (struct tn_resp_call) { .done = done };
    list->call.give_up_at = tn_clock_now(store->base.how.clock) + store->base.how.patience;
    if (store->base.closing) {
        list_end(list, TENURE_E_CLOSED, NULL);
    } else if (tn_resp_link_send(&store->link, &list->call, words, count) < 0) {
        tn_query_refuse(&store->base, list->query, TENURE_E_NOMEM, "out of memory");
        free(list);
    }
}

static void list_add(struct tenured_list *list, struct tn_tenured_reply *reply)
{
    for (uint32_t left = tn_reply_list(reply); left > 0 && !reply->bad; left--) {
        struct tn_store_lease *lease = tn_query_add_lease(list->query);
        if (lease == NULL)
            return;
        tn_reply_lease(reply, lease);
    }
}

static void list_ask_page(struct tenured_list *list, uint64_t cursor);

static void list_page_done(struct tn_resp_call *call)
{
    struct tenured_list *list = (struct tenured_list *)call;
    struct tn_tenured_reply reply = tn_reply_of(call->reply, call->reply_len);
    uint64_t cursor = 0;

    if (list_has_failed(list))
        return;
    if (!list->query->exact) { /* Otherwise there are no pages, but an array of one lease. */
        (void)tn_reply_list(&reply);
        cursor = tn_reply_u64(&reply);
    }
    list_add(list, &reply);
    if (reply.bad)
        list_end(list, TENURE_E_UNSUPPORTED, "tenured: a list that cannot be read");
    else if (cursor == 0 || list->query->no_memory)
        list_end(list, 0, NULL);
    else
        list_ask_page(list, cursor);
}

static void list_ask_page(struct tenured_list *list, uint64_t cursor)
{
    const char *prefix = list->query->prefix;
    char at[24];

    (void)snprintf(at, sizeof at, "%llu", (unsigned long long)cursor);
    const struct tn_resp_word words[] = { tn_resp_word_of("LEASE"), tn_resp_word_of("LIST"),
                                          tn_resp_word_of(at),      tn_resp_word_of("COUNT"),
                                          tn_resp_word_of("1000"),  tn_resp_word_of("PREFIX"),
                                          tn_resp_word_of(prefix) };
    list_send(list, words, prefix[0] != '\0' ? 7 : 5, list_page_done);
}

/* The reply is an array of one JSON document. */
static void list_history_done(struct tn_resp_call *call)
{
    struct tenured_list *list = (struct tenured_list *)call;
    struct tn_tenured_reply reply = tn_reply_of(call->reply, call->reply_len);

    if (list_has_failed(list))
        return;
    (void)tn_reply_list(&reply);
    struct tn_resp_value json = tn_reply_next(&reply);
    if (reply.bad || json.type != TN_RESP_STRING) {
        list_end(list, TENURE_E_UNSUPPORTED, "tenured: a history that cannot be read");
        return;
    }
    tn_query_told(list->query, json.bytes, json.len);
    free(list);
}

/* An array of labels. */
static void list_line_done(struct tn_resp_call *call)
{
    struct tenured_list *list = (struct tenured_list *)call;
    struct tn_tenured_reply reply = tn_reply_of(call->reply, call->reply_len);

    if (list_has_failed(list))
        return;
    for (uint32_t left = tn_reply_list(&reply); left > 0 && !reply.bad; left--) {
        struct tn_resp_value label = tn_reply_next(&reply);
        reply.bad = reply.bad || label.type != TN_RESP_STRING;
        if (!reply.bad && !tn_query_add_waiter(list->query, label.bytes, label.len))
            break;
    }
    list_end(list, reply.bad ? TENURE_E_UNSUPPORTED : 0,
             reply.bad ? "tenured: a line that cannot be read" : NULL);
}

void tn_tenured_list(struct tn_store *base, struct tn_store_query *query)
{
    const struct tn_resp_word history[] = { tn_resp_word_of("HISTORY"),
                                            tn_resp_word_of(query->prefix) };
    const struct tn_resp_word look[] = { tn_resp_word_of("LEASE"), tn_resp_word_of("MGET"),
                                         tn_resp_word_of(query->prefix) };
    const struct tn_resp_word line[] = { tn_resp_word_of("LEASE"), tn_resp_word_of("LINE"),
                                         tn_resp_word_of(query->prefix) };
    struct tenured_list *list = calloc(1, sizeof *list);

    if (list == NULL) {
        tn_query_refuse(base, query, TENURE_E_NOMEM, "out of memory");
        return;
    }
    list->store = (struct tn_tenured *)base;
    list->query = query;
    if (query->told != NULL)
        list_send(list, history, 2, list_history_done);
    else if (query->line)
        list_send(list, line, 3, list_line_done);
    else if (query->exact)
        list_send(list, look, 3, list_page_done);
    else
        list_ask_page(list, 0);
}
