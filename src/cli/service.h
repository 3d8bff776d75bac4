/* service.h - what `tenure run` does as a service: it tells systemd how it is (--notify), and stays
 * after its release until a successor leads (--linger). */
#ifndef TN_CLI_SERVICE_H
#define TN_CLI_SERVICE_H

#include "cli/campaign.h"

struct tn_service {
    bool notify;                                  /* Asked for. */
    tenure_ns linger;                             /* 0: do not stay. */
    bool ready;                                   /* READY was told. */
    bool stopping;                                /* STOPPING was told. */
    char status[TN_NAME_MAX + TN_LABEL_MAX + 64]; /* As told last. */
    tenure_ns beat_every, beat_at;                /* The watchdog's; TN_NEVER: there is none. */
};

#define TN_SERVICE_WORDS     \
    {                        \
        .beat_at = TN_NEVER, \
    }

#define TN_SERVICE_OPTIONS(service_)                                                     \
    TN_FLAG("notify", 0, &(service_)->notify, "tell systemd, for units of Type=notify"), \
        TN_DURATION("linger", 0, &(service_)->linger, 1, TN_TTL_MAX, NULL,               \
                    "after the release stay until another leads, at most this long")

/* Take over what systemd gave: the socket and the watchdog. The command inherits neither. */
void tn_service_open(struct tn_service *service);

/* Tell the state if it is news. @ready: the campaign runs, leading or waiting. */
void tn_service_tell(struct tn_service *service, bool ready, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Tell the watchdog when it is time. */
void tn_service_beat(struct tn_service *service);

/* No further term: the work stops, then the lease is given back. Told once. */
void tn_service_stop(struct tn_service *service);

/* The term of @token was released: wait until another leads @name, a signal, or the time is up. */
void tn_service_linger(const struct tn_service *service, const char *url, const char *name,
                       uint64_t token);

#endif
