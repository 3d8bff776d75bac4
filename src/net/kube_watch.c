/* kube_watch.c - pages and watches; kube_watch.h has the picture. */
#include "net/kube_watch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/time.h"

#define PAGE_TIME TN_SEC(10)
#define PAGE_QUERY "limit=500&timeout=10s" /* So that the server, too, gives up then. */

enum { WATCH_SECONDS = 240, PAUSE_MAX = 5 };

/* --- Pages ------------------------------------------------------------------------------------ */

static void page_done(struct tn_kube_call *call);

static void add_selector(struct tn_text *text, const char *name)
{
    if (name != NULL && name[0] != '\0')
        tn_text_addf(text, "&fieldSelector=metadata.name%%3D%s", name);
}

static void ask_page(struct tn_kube_list *list, struct tn_kube_api *api, const char *more)
{
    struct tn_kube_call *call = &list->call;
    tenure_ns not_before = more != NULL ? 0 : call->not_before;
    struct tn_text text;

    *call = (struct tn_kube_call) {
        .method = "GET", .done = page_done, .arg = api, .not_before = not_before
    };
    call->web.timeout = PAGE_TIME;
    call->web.body_max = TN_KUBE_BODY_MAX;
    tn_text_init(&text, call->path, sizeof call->path);
    tn_text_addf(&text, "%s?" PAGE_QUERY, list->path);
    add_selector(&text, list->name);
    if (more != NULL) {
        tn_text_add(&text, "&continue=");
        tn_web_escape(&text, more, strlen(more), "");
    }
    tn_kube_start(api, call);
}

/* The objects of a page; @ret_more is where the next one begins, empty: this was the last. */
static bool read_page(struct tn_kube_list *list, const struct tn_json_value *values,
                      char ret_more[512])
{
    const struct tn_json_value *meta = tn_json_object(values, 0, "metadata");
    const struct tn_json_value *items = meta != NULL ? tn_json_get(values, 0, "items") : NULL;
    uint32_t at = items != NULL ? (uint32_t)(items - values) + 1 : 0;

    if (items == NULL || items->type != TN_JSON_ARRAY ||
        !tn_json_text(values, meta, "resourceVersion", list->version, sizeof list->version))
        return false;
    for (uint32_t i = 0; i < items->count; i++, at = values[at].next)
        if (!list->item(list->arg, values, at))
            return false;
    if (!tn_json_text(values, meta, "continue", ret_more, 512))
        ret_more[0] = '\0';
    return true;
}

static void page_done(struct tn_kube_call *call)
{
    struct tn_kube_list *list = (struct tn_kube_list *)(void *)call;
    struct tn_json_value *values =
        call->status == 0 ? tn_kube_parse(call->body, call->body_len) : NULL;
    char more[512] = "";
    bool read = values != NULL && read_page(list, values, more);

    free(values);
    if (read && more[0] != '\0') {
        ask_page(list, call->arg, more);
        return;
    }
    if (!read && call->status == 0) {
        call->status = TENURE_E_DAMAGED;
        (void)snprintf(call->error, sizeof call->error,
                       "kubernetes: the answer is no list of objects; is this an API server?");
    }
    list->done(list);
}

void tn_kube_list(struct tn_kube_api *api, struct tn_kube_list *list)
{
    ask_page(list, api, NULL);
}

/* --- The watch -------------------------------------------------------------------------------- */

static void go_on(struct tn_kube_watch *watch);

/* What was under way has ended; @regular: as it should. */
static void end_round(struct tn_kube_watch *watch, int status, bool regular)
{
    watch->running = false;
    if (!regular) {
        watch->version[0] = '\0';
        watch->failures += (status != TENURE_E_CLOSED || watch->refused) && watch->failures < 8;
        watch->lost(watch->arg);
    }
    go_on(watch);
}

static bool hear_item(void *arg, const struct tn_json_value *values, uint32_t at)
{
    struct tn_kube_watch *watch = arg;

    return watch->item(watch->arg, values, at, false);
}

static void list_done(struct tn_kube_list *list)
{
    struct tn_kube_watch *watch = list->arg;

    if (list->call.status == 0)
        memcpy(watch->version, list->version, sizeof watch->version);
    end_round(watch, list->call.status, list->call.status == 0);
}

/* One event. False: the watch is over. */
static bool hear_event(void *arg, const struct tn_json_value *values)
{
    struct tn_kube_watch *watch = arg;
    const struct tn_json_value *type =
        values[0].type == TN_JSON_OBJECT ? tn_json_get(values, 0, "type") : NULL;
    const struct tn_json_value *object = type != NULL ? tn_json_object(values, 0, "object") : NULL;
    uint32_t at = object != NULL ? (uint32_t)(object - values) : 0;

    /* 410: what happened since is forgotten; begin with what is. */
    watch->refused = object == NULL || tn_json_is(type, "ERROR") ||
                     !tn_json_text(values, tn_json_object(values, at, "metadata"),
                                   "resourceVersion", watch->version, sizeof watch->version);
    if (watch->refused || tn_json_is(type, "BOOKMARK"))
        return !watch->refused;
    watch->failures = 0;
    return watch->item(watch->arg, values, at, tn_json_is(type, "DELETED"));
}

static int hear_bytes(struct tn_web_req *web, const char *bytes, size_t len)
{
    struct tn_kube_watch *watch = ((struct tn_kube_call *)(void *)web)->arg;

    return tn_kube_lines_add(&watch->lines, bytes, len, hear_event, watch) ? 0 : 1;
}

static void watch_done(struct tn_kube_call *call)
{
    struct tn_kube_watch *watch = call->arg;

    tn_kube_lines_clear(&watch->lines);
    end_round(watch, call->status, call->status == 0 && !watch->refused);
}

static void start_list(struct tn_kube_watch *watch)
{
    struct tn_kube_list *list = &watch->list;
    unsigned pause = watch->failures == 0 ? 0 : 1U << (watch->failures - 1);

    list->name = watch->asked;
    list->item = hear_item;
    list->done = list_done;
    list->arg = watch;
    list->call.not_before = tn_kube_now(watch->api) + TN_SEC(pause < PAUSE_MAX ? pause : PAUSE_MAX);
    tn_kube_list(watch->api, list);
}

static void start_watch(struct tn_kube_watch *watch)
{
    struct tn_kube_call *call = &watch->call;
    struct tn_text text;

    *call = (struct tn_kube_call) { .method = "GET", .done = watch_done, .arg = watch };
    call->web.timeout = TN_SEC(WATCH_SECONDS + 30);
    call->web.body_max = TN_KUBE_BODY_MAX;
    call->web.data = hear_bytes;
    tn_text_init(&text, call->path, sizeof call->path);
    tn_text_addf(&text, "%s?watch=1&allowWatchBookmarks=true&timeoutSeconds=%d&resourceVersion=%s",
                 watch->list.path, WATCH_SECONDS, watch->version);
    add_selector(&text, watch->asked);
    tn_kube_start(watch->api, call);
}

static void go_on(struct tn_kube_watch *watch)
{
    if (watch->running || !watch->wanted)
        return;
    if (strcmp(watch->asked, watch->name) != 0)
        watch->version[0] = '\0';
    memcpy(watch->asked, watch->name, sizeof watch->asked);
    watch->running = true;
    watch->refused = false;
    watch->listing = watch->version[0] == '\0';
    if (watch->listing)
        start_list(watch);
    else
        start_watch(watch);
}

void tn_kube_watch_set(struct tn_kube_watch *watch, const char *name)
{
    watch->wanted = name != NULL;
    (void)snprintf(watch->name, sizeof watch->name, "%s", name != NULL ? name : "");
    if (!watch->running)
        go_on(watch);
    else if (!watch->wanted || (watch->asked[0] != '\0' && strcmp(watch->asked, watch->name) != 0))
        tn_kube_cancel(watch->listing ? &watch->list.call : &watch->call);
}

void tn_kube_watch_again(struct tn_kube_watch *watch)
{
    if (watch->running && !watch->listing)
        tn_kube_cancel(&watch->call); /* It ends irregularly, and so begins with a list. */
}
