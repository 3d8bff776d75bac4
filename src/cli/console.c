/* console.c - `tenure console`: a live page for any store, on the loopback.
 *
 * Happy path: list the store every second, or less often when that takes long, and watch its names;
 * what has changed is told to the pages that are open. Where the store keeps no history, the terms
 * that are seen are recorded in a file of the console's own.
 *
 * The page can revoke, with this user's rights on the store. So its address has a secret in it, new
 * for each run, and only requests that come from the page itself are answered (console_http.c).
 *
 * What can fail: the address (64, 69), the store's URL (64). A store that is away is tried again,
 * and the page says that what it shows may be old. */
#define _GNU_SOURCE
#include "cli/console.h"

#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/time.h"
#include "cli/browse.h"
#include "cli/http.h"
#include "cli/reserve.h"
#include "cli/store.h"
#include "runtime/loop.h"
#include "runtime/note_name.h"
#include "runtime/random.h"
#include "stores/registry.h"

static const char about[] =
    "Serves a live page about a store, any store: who leads, how long each lease still lives, the\n"
    "terms and the gaps of the last 24 hours; and, for those who may, hand-over and revoke. The\n"
    "page is served on the loopback only, below a secret address that is new for each run. Ctrl-C\n"
    "ends it.\n";
static const char after[] =
    "A store that keeps no history gets one while the console runs: what it sees is recorded in\n"
    "tenure/console in the user's state directory, and 'tenure history' reads it there. tenured\n"
    "serves the same page, with more in it, at the address of its --http.\n"
    "\n"
    "Examples:\n"
    "  tenure console --open\n"
    "  tenure console --store etcd://127.0.0.1:2379/jobs --listen 127.0.0.1:7480\n"
    "\n"
    "Exit status: 0 ended by SIGINT or SIGTERM; 64 bad input; 69 the address is taken, or the "
    "page\n"
    "was not built in; 77 not permitted.\n";

#ifndef TENURE_CONSOLE

static int serve(const char *url, const char *address, bool open)
{
    (void)url;
    (void)address;
    (void)open;
    return tn_cli_fail(TN_EXIT_UNAVAILABLE, "console",
                       "this build has no console; install gzip and build again");
}

#else

#define TICK_MS 100
#define BEAT_TICKS 10 /* A second. */
#define LIST_EVERY TN_SEC(1)
#define LIST_SLOW TN_SEC(1) /* An answer that takes longer: what is shown may be old. */
#define PATIENCE TN_SEC(3)
#define WATCHES_MOST 1000

tenure_ns tn_console_now(const struct tn_console *console)
{
    return tn_clock_now(&console->clock);
}

bool tn_console_is_fresh(const struct tn_console *console)
{
    return console->synced && console->failed == 0 &&
           (!console->listing ||
            tn_console_now(console) - console->asked_at < LIST_SLOW + console->took);
}

void tn_console_lease(const struct tn_console *console, const struct tn_seen *seen,
                      struct tn_text *text)
{
    const struct tn_store_record *record = &seen->record;
    tenure_ns left = tn_life_left(&seen->life, tn_console_now(console));

    tn_text_add(text, "{\"name\":");
    tn_json_string(text, seen->name, seen->node.len);
    tn_text_addf(text, ",\"state\":\"%s\",\"holder\":", record->held ? "held" : "free");
    if (record->held)
        tn_json_string(text, record->label, record->label_len);
    else
        tn_text_add(text, "null");
    tn_text_addf(text,
                 ",\"token\":%" PRIu64 ",\"ttl_ms\":%" PRId64 ",\"remaining_ms\":%" PRId64 "%s}",
                 record->token, record->held ? seen->life.ttl / TN_MS(1) : 0,
                 record->held ? left / TN_MS(1) : 0,
                 record->held && record->revoked ? ",\"revoked\":true" : "");
}

/* --- What is seen --------------------------------------------------------------------------- */

static bool is_same(const struct tn_store_record *a, const struct tn_store_record *b)
{
    return a->held == b->held && a->token == b->token && a->revoked == b->revoked;
}

/* The term that was seen last has ended. */
static void record_end(struct tn_console *console, const struct tn_seen *seen)
{
    tenure_ns now = tn_console_now(console);
    tenure_ns heard_at = now;
    int64_t wall = tn_wall_ms();
    enum tn_term_end why = tn_life_end(seen, now, &heard_at);

    tn_history_ended(&console->history, seen->name, seen->node.len, seen->record.token, why, wall,
                     why == TN_TERM_EXPIRED ? wall - (now - heard_at) / TN_MS(1) : 0);
}

static void record_change(struct tn_console *console, const struct tn_seen *seen,
                          const struct tn_store_record *now)
{
    const struct tn_store_record *before = &seen->record;

    if (console->path[0] == '\0' || tn_name_is_reserved(seen->name))
        return;
    if (before->held && (!now->held || now->token != before->token))
        record_end(console, seen);
    if (now->held && (!before->held || now->token != before->token))
        tn_history_began(&console->history, seen->name, seen->node.len,
                         &(struct tn_term) { .token = now->token,
                                             .from = tn_wall_ms(),
                                             .ttl_ms = now->ttl / TN_MS(1),
                                             .label = now->label,
                                             .label_len = now->label_len });
}

static struct tn_seen *see_name(struct tn_console *console, const char *name)
{
    struct tn_seen *seen = (struct tn_seen *)tn_dict_find(&console->names, name, strlen(name));

    if (seen != NULL)
        return seen;
    seen = calloc(1, sizeof *seen + strlen(name) + 1);
    if (seen == NULL)
        return NULL;
    memcpy(seen->name, name, strlen(name) + 1);
    tn_dict_add(&console->names, &seen->node, seen->name, strlen(name));
    return seen;
}

static void see(struct tn_console *console, struct tn_seen *seen,
                const struct tn_store_record *record, tenure_ns asked)
{
    bool changed = !is_same(&seen->record, record);

    if (changed)
        record_change(console, seen, record);
    tn_life_learn(console, seen, record, asked);
    tn_wish_see(console, seen->name, record);
    seen->record = *record;
    seen->at = tn_console_now(console);
    if (!seen->watched && console->watches < WATCHES_MOST &&
        console->store->ops->watch(console->store, seen->name, true) == 0) {
        seen->watched = true;
        console->watches++;
    }
    if (changed && console->synced)
        tn_console_http_changed(console->http, seen);
}

/* A listing may have been taken before the news of a change that came in the meantime. Otherwise it
 * counts, also with a lower token: the store may have begun anew. */
static void see_listed(struct tn_console *console, const struct tn_store_lease *lease)
{
    struct tn_seen *seen = see_name(console, lease->name);

    if (seen == NULL)
        return;
    seen->round = console->round;
    if (seen->heard_at < console->asked_at)
        see(console, seen, &lease->record, console->asked_at);
}

/* A name that is not listed any more has nobody who holds it. */
static void see_missing(struct tn_console *console)
{
    struct tn_dict_node *node = NULL;

    while ((node = tn_dict_next(&console->names, node)) != NULL) {
        struct tn_seen *seen = (struct tn_seen *)node;
        struct tn_store_record gone = { .token = seen->record.token };
        if (seen->round != console->round && seen->record.held &&
            seen->heard_at < console->asked_at)
            see(console, seen, &gone, console->asked_at);
    }
}

static void hear_list(void *arg, int status, struct tn_store_lease *leases, size_t count,
                      const char *error)
{
    struct tn_console *console = arg;

    (void)error;
    console->listing = false;
    console->took = tn_console_now(console) - console->asked_at;
    /* Nobody has made the store yet: nothing is in it. */
    console->failed = status == TENURE_E_NOT_HELD ? 0 : status;
    if (console->failed != 0)
        return;
    if (status == 0) {
        console->round++;
        for (size_t i = 0; i < count; i++)
            see_listed(console, &leases[i]);
        see_missing(console);
        free(leases);
    }
    if (!console->synced) {
        console->synced = true;
        tn_console_http_synced(console->http);
    }
}

static void hear_granted(void *arg, const char *name, const struct tn_secret *term, uint64_t token)
{
    (void)arg;
    (void)name;
    (void)term;
    (void)token;
}

static void hear_changed(void *arg, const char *name, const struct tn_store_record *record)
{
    struct tn_console *console = arg;
    struct tn_seen *seen = (struct tn_seen *)tn_dict_find(&console->names, name, strlen(name));

    /* News with a lower token is late, or the store began anew: the next listing decides. */
    if (console->ending || seen == NULL || record->token < seen->record.token)
        return;
    seen->heard_at = tn_console_now(console);
    see(console, seen, record, seen->heard_at);
}

static void hear_revoked(void *arg, const char *name, uint64_t token)
{
    (void)arg;
    (void)name;
    (void)token;
}

/* --- Time ----------------------------------------------------------------------------------- */

static void tick(uv_timer_t *timer)
{
    struct tn_console *console = timer->data;
    tenure_ns every = 5 * console->took > LIST_EVERY ? 5 * console->took : LIST_EVERY;
    static unsigned ticks;

    if (console->ending)
        return;
    if (!console->listing && tn_console_now(console) - console->asked_at >= every) {
        console->listing = true;
        console->asked_at = tn_console_now(console);
        console->store->ops->list(console->store, "", hear_list, console);
    }
    tn_life_look(console);
    tn_wish_tick(console);
    if (++ticks % BEAT_TICKS == 0)
        tn_console_http_beat(console->http);
    if (console->path[0] != '\0' && tn_recorded_write(console->path, &console->history) != 0 &&
        ticks % 1000 == 1)
        (void)tn_cli_fail(0, "console", "the history cannot be written to %s", console->path);
}

static void hear_signal(uv_signal_t *handle, int number)
{
    struct tn_console *console = handle->data;

    (void)number;
    console->ending = true;
    uv_stop(&console->loop);
}

/* --- Beginning and end ---------------------------------------------------------------------- */

/* scheme://host/path, without what may be secret: what stands before an @, and options. */
static void show_url(const char *url, char *buf, size_t size)
{
    const char *slashes = strstr(url, "//");
    const char *host = slashes != NULL ? slashes + 2 : strchr(url, ':') + 1;
    size_t len = strcspn(host, "?#");
    const char *at = slashes != NULL ? memrchr(host, '@', len) : NULL;

    if (at != NULL) {
        len -= (size_t)(at + 1 - host);
        (void)snprintf(buf, size, "%.*s%.*s", (int)(host - url), url, (int)len, at + 1);
    } else {
        (void)snprintf(buf, size, "%.*s", (int)((size_t)(host - url) + len), url);
    }
}

static void open_history(struct tn_console *console, const char *url)
{
    int64_t touched = 0;

    if (console->store->ops->history != NULL || !tn_recorded_path(url, true, console->path)) {
        console->path[0] = '\0';
        return;
    }
    (void)tn_recorded_read(console->path, &console->history, &touched);
    if (console->history.since == 0) {
        console->history.since = tn_wall_ms();
        console->history.whole = true;
    }
}

static int open_console_store(struct tn_console *console, const char *url)
{
    static const struct tn_store_host host = { hear_granted, hear_changed, hear_revoked };
    struct tn_store_open how = { .url = url,
                                 .loop = &console->loop,
                                 .clock = &console->clock,
                                 .host = &host,
                                 .arg = console,
                                 .patience = PATIENCE };
    const struct tn_store_ops *ops;
    char buf[TN_CLI_LINE_MAX];
    struct tn_text error;

    tn_text_init(&error, buf, sizeof buf);
    int rc = tn_store_find(url, &ops, &how.rest, &error);
    if (rc == 0 && (ops->caps & TN_STORE_LOCAL) != 0)
        return tn_cli_fail(TN_EXIT_USAGE, "console",
                           "%s: lives in one process and is gone with it; name a store that others "
                           "see, such as sqlite:PATH",
                           ops->scheme);
    if (rc == 0)
        rc = ops->open(ops, &how, &console->store, &error);
    if (rc == TENURE_E_NOT_HELD)
        return tn_cli_fail(TN_EXIT_UNAVAILABLE, "console",
                           "there is no such store yet; the first 'tenure run' makes it");
    return rc < 0 ? tn_cli_store_fail("console", rc, buf) : -1;
}

static void hear_closed(void *arg)
{
    *(bool *)arg = true;
}

static void close_handle(uv_handle_t *handle, void *arg)
{
    (void)arg;
    if (!uv_is_closing(handle))
        uv_close(handle, NULL);
}

static void close_console(struct tn_console *console)
{
    bool closed = console->store == NULL;
    struct tn_dict_node *next;

    console->ending = true;
    if (console->store != NULL)
        console->store->ops->close(console->store, hear_closed, &closed);
    while (!closed)
        (void)uv_run(&console->loop, UV_RUN_ONCE);
    tn_wish_close(console);
    if (console->http != NULL)
        tn_console_http_close(console->http);
    if (console->path[0] != '\0')
        (void)tn_recorded_write(console->path, &console->history);
    uv_walk(&console->loop, close_handle, NULL);
    while (uv_loop_close(&console->loop) == UV_EBUSY)
        (void)uv_run(&console->loop, UV_RUN_DEFAULT);
    for (struct tn_dict_node *node = tn_dict_next(&console->names, NULL); node != NULL;
         node = next) {
        next = tn_dict_next(&console->names, node);
        free(node);
    }
    tn_dict_done(&console->names);
    tn_history_done(&console->history);
    free(console->http);
}

static int run(struct tn_console *console, int fd, bool open)
{
    static const int numbers[2] = { SIGINT, SIGTERM };
    char base[100], url[180], key[TN_SECRET_DIGITS + 1] = "";

    if (!tn_browse_url(fd, base, sizeof base)) {
        (void)close(fd);
        return tn_cli_fail(TN_EXIT_USAGE, "console",
                           "--listen: only addresses of the loopback, such as 127.0.0.1:7480; from "
                           "another machine use 'ssh -L'");
    }
    console->http = tn_console_http_open(console, fd);
    if (console->http == NULL)
        return tn_cli_fail(TN_EXIT_UNAVAILABLE, "console", "out of memory or descriptors");
    (void)signal(SIGCHLD, SIG_IGN); /* The browser's end is nothing to us. */
    (void)uv_timer_init(&console->loop, &console->timer);
    console->timer.data = console;
    (void)uv_timer_start(&console->timer, tick, 0, TICK_MS);
    for (int i = 0; i < 2; i++) {
        (void)uv_signal_init(&console->loop, &console->signals[i]);
        console->signals[i].data = console;
        (void)uv_signal_start(&console->signals[i], hear_signal, numbers[i]);
    }
    tn_secret_text(&console->key, key);
    (void)snprintf(url, sizeof url, "%s%s/", base, key);
    printf("%s\n", url);
    if (fflush(stdout) == 0 && open)
        tn_browse_open_secret("console", url, console->opened);
    while (!console->ending)
        (void)uv_run(&console->loop, UV_RUN_ONCE);
    if (console->opened[0] != '\0')
        (void)unlink(console->opened);
    return TN_EXIT_OK;
}

static int serve(const char *url, const char *address, bool open)
{
    struct tn_console *console = calloc(1, sizeof *console);
    struct tn_secret seed;
    int fd = -1;

    if (url == NULL)
        url = getenv("TENURE_STORE");
    if (url == NULL || url[0] == '\0')
        url = "sqlite:";
    tn_reserve_for_libuv();
    if (console == NULL || tn_random_secret(&console->key) != 0 || tn_random_secret(&seed) != 0 ||
        tn_clock_init(&console->clock) != 0 || uv_loop_init(&console->loop) != 0) {
        free(console);
        return tn_cli_fail(TN_EXIT_UNAVAILABLE, "console", "out of memory or descriptors");
    }
    struct tn_hash_key hash;
    memcpy(&hash, seed.bytes, sizeof hash);
    tn_dict_init(&console->names, hash);
    tn_list_init(&console->wishes);
    tn_history_init(&console->history, hash, TN_RECORDED_PER_NAME, TN_RECORDED_MOST);
    int status = tn_http_listen("console", "--listen", address, 0, &fd);
    if (status < 0)
        status = open_console_store(console, url);
    if (status < 0) {
        show_url(url, console->url, sizeof console->url);
        open_history(console, url);
        status = run(console, fd, open);
    } else if (fd >= 0) {
        (void)close(fd);
    }
    close_console(console);
    free(console);
    return status;
}

#endif

int tn_cli_console(int argc, char **argv)
{
    const char *url = NULL;
    const char *address = "127.0.0.1:0";
    bool open = false;
    struct tn_option options[] = {
        TN_STORE(&url),
        TN_STRING("listen", 'l', &address, "ADDR", "a free port",
                  "serve here: HOST:PORT of the loopback"),
        TN_FLAG("open", 'o', &open, "open the page in the browser"),
    };
    struct tn_command command = TN_COMMAND("console", NULL, 0, options);
    int status = tn_cli_options(&command, argc, argv);
    return status >= 0 ? status : serve(url, address, open);
}
