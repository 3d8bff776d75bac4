/* sidecar.c - the pages; sidecar.h has the contract. */
#include "cli/sidecar.h"

#include <inttypes.h>
#include <string.h>

#include "base/time.h"
#include "cli/cli.h"
#include "runtime/clock.h"

/* The first bucket of how long a renewal took; each further one is twice as long. */
#define TOOK_FIRST TN_MS(1)

static bool is_leading(const struct tn_sidecar *sidecar)
{
    return !sidecar->leaving && tenure_token(sidecar->election) != 0;
}

static bool is_following(const struct tn_sidecar *sidecar)
{
    return !sidecar->leaving && !sidecar->busy && tenure_token(sidecar->election) == 0 &&
           sidecar->campaign->tenure != NULL && tenure_health(sidecar->campaign->tenure, NULL) == 0;
}

static const char *leader(const struct tn_sidecar *sidecar)
{
    return tenure_token(sidecar->election) != 0 ? sidecar->campaign->label : sidecar->leader;
}

/* --- The pages -------------------------------------------------------------------------------- */

static unsigned page_root(const struct tn_sidecar *sidecar, struct tn_text *body)
{
    tn_text_add(body, "{\"name\":");
    tn_json_string(body, leader(sidecar), strlen(leader(sidecar)));
    tn_text_add(body, "}\n");
    return 200;
}

static unsigned page_health(const struct tn_sidecar *sidecar, struct tn_text *body)
{
    bool well = tenure_token(sidecar->election) != 0 || is_following(sidecar);

    tn_text_add(body, well ? "ok\n" : "neither leading nor cleanly following\n");
    return well ? 200 : 503;
}

static void say_who(const struct tn_sidecar *sidecar, struct tn_text *body)
{
    const char *who = leader(sidecar);

    tn_text_add(body, "{\"election\":");
    tn_json_string(body, sidecar->campaign->name, strlen(sidecar->campaign->name));
    tn_text_add(body, ",\"leader\":");
    if (who[0] != '\0')
        tn_json_string(body, who, strlen(who));
    else
        tn_text_add(body, "null");
    tn_text_addf(body, ",\"leads\":%s}\n", is_leading(sidecar) ? "true" : "false");
}

static unsigned page_leader(const struct tn_sidecar *sidecar, struct tn_text *body)
{
    say_who(sidecar, body);
    return is_leading(sidecar) ? 200 : 503;
}

static unsigned page_follower(const struct tn_sidecar *sidecar, struct tn_text *body)
{
    say_who(sidecar, body);
    return is_following(sidecar) ? 200 : 503;
}

static unsigned page_token(const struct tn_sidecar *sidecar, struct tn_text *body)
{
    uint64_t token = is_leading(sidecar) ? tenure_token(sidecar->election) : 0;

    if (token == 0) {
        tn_text_add(body, "not leading\n");
        return 503;
    }
    tn_text_addf(body, "%" PRIu64 "\n", token);
    return 200;
}

/* --- Metrics ---------------------------------------------------------------------------------- */

static void describe(struct tn_text *body, const char *metric, const char *type, const char *help)
{
    tn_text_addf(body, "# HELP %s %s\n# TYPE %s %s\n", metric, help, metric, type);
}

/* The election's name has no character that needs an escape: base/name.h. */
static void count(const struct tn_sidecar *sidecar, struct tn_text *body, const char *metric,
                  const char *type, const char *help, uint64_t value)
{
    describe(body, metric, type, help);
    tn_text_addf(body, "%s{election=\"%s\"} %" PRIu64 "\n", metric, sidecar->campaign->name, value);
}

static void count_losses(const struct tn_sidecar *sidecar, struct tn_text *body)
{
    describe(body, "tenure_losses_total", "counter", "Terms that have ended, by reason.");
    for (int i = TENURE_REASON_EXPIRED; i < TN_SIDECAR_REASONS; i++)
        tn_text_addf(body, "tenure_losses_total{election=\"%s\",reason=\"%s\"} %" PRIu64 "\n",
                     sidecar->campaign->name, tenure_reason_text((enum tenure_reason)i),
                     sidecar->losses[i]);
}

static void count_took(const struct tn_sidecar *sidecar, struct tn_text *body)
{
    const char *name = sidecar->campaign->name;
    uint64_t sum = 0;

    describe(body, "tenure_renewal_seconds", "histogram",
             "From sending a renewal to hearing that it came through.");
    for (int i = 0; i + 1 < TN_SIDECAR_BUCKETS; i++) {
        sum += sidecar->took[i];
        tn_text_addf(body, "tenure_renewal_seconds_bucket{election=\"%s\",le=\"%g\"} %" PRIu64 "\n",
                     name, (double)(TOOK_FIRST << i) / (double)TN_SEC(1), sum);
    }
    sum += sidecar->took[TN_SIDECAR_BUCKETS - 1];
    tn_text_addf(body,
                 "tenure_renewal_seconds_bucket{election=\"%s\",le=\"+Inf\"} %" PRIu64 "\n"
                 "tenure_renewal_seconds_sum{election=\"%s\"} %g\n"
                 "tenure_renewal_seconds_count{election=\"%s\"} %" PRIu64 "\n",
                 name, sum, name, (double)sidecar->took_sum / (double)TN_SEC(1), name, sum);
}

static unsigned page_metrics(const struct tn_sidecar *sidecar, struct tn_text *body)
{
    tenure_ns deadline = tenure_deadline(sidecar->election);
    tenure_ns left = deadline != 0 ? deadline - tn_boottime() : 0;

    count(sidecar, body, "tenure_leading", "gauge", "1 while this process leads.",
          tenure_token(sidecar->election) != 0);
    count(sidecar, body, "tenure_token", "gauge", "The fencing token while leading, otherwise 0.",
          tenure_token(sidecar->election));
    describe(body, "tenure_remaining_seconds", "gauge",
             "How long the term is valid without a further renewal; 0: not leading.");
    tn_text_addf(body, "tenure_remaining_seconds{election=\"%s\"} %g\n", sidecar->campaign->name,
                 left > 0 ? (double)left / (double)TN_SEC(1) : 0.0);
    count(sidecar, body, "tenure_store_up", "gauge", "1 while the store answers.",
          sidecar->campaign->tenure != NULL && tenure_health(sidecar->campaign->tenure, NULL) == 0);
    count(sidecar, body, "tenure_terms_total", "counter", "Terms that have begun.", sidecar->terms);
    count_losses(sidecar, body);
    count(sidecar, body, "tenure_renewals_total", "counter",
          "Renewals that came through while leading.", sidecar->renewals);
    count(sidecar, body, "tenure_jeopardies_total", "counter", "Times a renewal was overdue.",
          sidecar->jeopardies);
    count_took(sidecar, body);
    return 200;
}

static const struct {
    const char *path;
    unsigned (*page)(const struct tn_sidecar *sidecar, struct tn_text *body);
    const char *type;
} pages[] = {
    { "/", page_root, "application/json" },
    { "/healthz", page_health, "text/plain" },
    { "/leader", page_leader, "application/json" },
    { "/follower", page_follower, "application/json" },
    { "/token", page_token, "text/plain" },
    { "/metrics", page_metrics, "text/plain; version=0.0.4" },
};

static unsigned find_page(void *arg, const char *path, struct tn_text *body, const char **ret_type)
{
    for (size_t i = 0; i < sizeof pages / sizeof pages[0]; i++) {
        if (strcmp(path, pages[i].path) == 0) {
            *ret_type = pages[i].type;
            return pages[i].page(arg, body);
        }
    }
    *ret_type = "text/plain";
    tn_text_add(body, "there are");
    for (size_t i = 0; i < sizeof pages / sizeof pages[0]; i++)
        tn_text_addf(body, " %s", pages[i].path);
    tn_text_add(body, "\n");
    return 404;
}

/* --- The verb's side -------------------------------------------------------------------------- */

int tn_sidecar_open(struct tn_sidecar *sidecar, const char *verb, const char *address,
                    const struct tn_campaign *campaign)
{
    sidecar->campaign = campaign;
    return address != NULL ? tn_http_open(verb, address, find_page, sidecar, &sidecar->http) : -1;
}

void tn_sidecar_close(struct tn_sidecar *sidecar)
{
    tn_http_close(sidecar->http);
    sidecar->http = NULL;
}

/* A deadline is counted from when its renewal was sent. */
static void count_renewal(struct tn_sidecar *sidecar)
{
    struct tn_plan_answer answer;
    tenure_ns deadline = tenure_deadline(sidecar->election);
    int bucket = 0;

    (void)tn_plan_judge(&sidecar->campaign->plan, &answer);
    tenure_ns took = tn_boottime() - (deadline - answer.valid_for);
    if (deadline == 0 || deadline == sidecar->deadline || took < 0)
        return;
    while (bucket + 1 < TN_SIDECAR_BUCKETS && took > TOOK_FIRST << bucket)
        bucket++;
    sidecar->deadline = deadline;
    sidecar->renewals++;
    sidecar->took[bucket]++;
    sidecar->took_sum += took;
}

void tn_sidecar_hear(struct tn_sidecar *sidecar, const struct tenure_event *event)
{
    switch (event->kind) {
    case TENURE_WON:
        sidecar->terms++;
        break;
    case TENURE_LOST:
        sidecar->losses[event->reason]++;
        sidecar->leader[0] = '\0'; /* It was ourselves. */
        break;
    case TENURE_LEADER:
    case TENURE_VACANT:
        (void)snprintf(sidecar->leader, sizeof sidecar->leader, "%s", event->leader);
        break;
    case TENURE_RENEWED:
        count_renewal(sidecar);
        break;
    case TENURE_JEOPARDY:
        sidecar->jeopardies++;
        break;
    case TENURE_SAFE:
    case TENURE_STOP:
    case TENURE_REFUSED:
    case TENURE_HEALTH:
        break;
    }
}

void tn_sidecar_run(struct tn_sidecar *sidecar)
{
    tn_http_run(sidecar->http);
}
