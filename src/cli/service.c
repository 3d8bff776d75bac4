/* service.c - `tenure run` as a service; service.h has the contract. */
#define _GNU_SOURCE
#include "cli/service.h"

#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/number.h"
#include "base/time.h"
#include "runtime/notify.h"

/* How often a store is asked that does not tell by itself. */
#define LOOK_AGAIN TN_MS(250)

void tn_service_open(struct tn_service *service)
{
    const char *span = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");
    uint64_t us = 0, owner = 0;

    if (!service->notify)
        return;
    tn_notify_keep();
    bool mine = pid == NULL || (tn_u64_parse(pid, &owner) == 0 && owner == (uint64_t)getpid());
    if (span != NULL && mine && tn_u64_parse(span, &us) == 0 && us > 0 && us <= INT64_MAX / 1000) {
        service->beat_every = (tenure_ns)us * 1000 / 2;
        service->beat_at = tn_boottime();
    }
    (void)unsetenv("WATCHDOG_USEC");
    (void)unsetenv("WATCHDOG_PID");
}

void tn_service_tell(struct tn_service *service, bool ready, const char *format, ...)
{
    char state[sizeof service->status + 32];
    char status[sizeof service->status];
    va_list args;

    if (!service->notify)
        return;
    va_start(args, format);
    (void)vsnprintf(status, sizeof status, format, args);
    va_end(args);
    for (char *at = status; *at != '\0'; at++)
        if ((unsigned char)*at < 0x20 || *at == 0x7F)
            *at = '?'; /* Another's id must not be an assignment of its own. */
    ready = ready && !service->ready;
    if (!ready && strcmp(status, service->status) == 0)
        return;
    (void)snprintf(state, sizeof state, "%sSTATUS=%s", ready ? "READY=1\n" : "", status);
    if (!tn_notify(state))
        return; /* Again with the next event. */
    service->ready = service->ready || ready;
    memcpy(service->status, status, sizeof status);
}

void tn_service_beat(struct tn_service *service)
{
    if (tn_boottime() < service->beat_at)
        return;
    (void)tn_notify("WATCHDOG=1");
    service->beat_at = tn_boottime() + service->beat_every;
}

void tn_service_stop(struct tn_service *service)
{
    if (service->notify && !service->stopping)
        (void)tn_notify("STOPPING=1\nSTATUS=stopping");
    service->stopping = true;
}

/* From here on a signal ends the wait; those that came before it were heard. */
static void service_unblock(void)
{
    sigset_t set;

    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGINT);
    (void)sigaddset(&set, SIGTERM);
    (void)sigaddset(&set, SIGHUP);
    (void)sigprocmask(SIG_UNBLOCK, &set, NULL);
}

void tn_service_linger(const struct tn_service *service, const char *url, const char *name,
                       uint64_t token)
{
    struct tn_op read = { .kind = TN_OP_READ, .name = name, .name_len = (uint32_t)strlen(name) };
    struct tn_cli_store store = { .ask = NULL };
    tenure_ns end = tn_boottime() + service->linger;
    struct tn_store_req req;

    if (service->linger == 0 || tn_cli_store_open("run", url, false, 0, &store) >= 0)
        return;
    if (store.ask != NULL) {
        tn_cli_catch_signals(&store);
        service_unblock();
        (void)tn_cli_watch_name(&store, name); /* Without it, the pauses are enough. */
        while (tn_boottime() < end && tn_cli_caught(&store) == 0) {
            int rc = tn_cli_ask(&store, &read, &req);
            if (rc == 0 && req.record.held && req.record.token > token)
                break;
            tenure_ns next = tn_clock_now(&store.clock) + LOOK_AGAIN;
            tn_cli_pause(&store, next);
        }
    }
    tn_cli_store_close(&store);
}
