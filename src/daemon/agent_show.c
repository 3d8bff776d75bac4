/* agent_show.c - what an agent tells of its upstreams: /metrics and INFO. */
#include <inttypes.h>

#include "daemon/agent_inner.h"

enum series {
    UP,
    LEFT,
    NAMES,
    OBSERVED,
    CAMPAIGNS,
    WON,
    RESUMED,
    GIVEN_BACK,
    RECALLED,
    COUNTED_OUT,
    UNPROMISED,
    SERIES
};

static tenure_ns left_of(const struct tn_upstream *up)
{
    return tn_agent_left(tn_lib_deadline(up->tenure), up->agent->server->now);
}

static double value_of(const struct tn_upstream *up, enum series series)
{
    const double values[SERIES] = {
        [UP] = tenure_health(up->tenure, NULL) == 0,
        [LEFT] = (double)left_of(up) / 1e9,
        [NAMES] = up->name_count,
        [OBSERVED] = up->looks,
        [CAMPAIGNS] = (double)up->campaigns,
        [WON] = (double)up->won,
        [RESUMED] = (double)up->resumed,
        [GIVEN_BACK] = (double)up->given_back,
        [RECALLED] = (double)up->recalled,
        [COUNTED_OUT] = (double)up->counted_out,
        [UNPROMISED] = (double)up->unpromised,
    };

    return values[series];
}

/* One upstream without a prefix has no label. Prefixes need no escaping: they are names. */
void tn_agent_metrics(struct tn_server *server, struct tn_text *text)
{
    static const struct {
        const char *name, *type, *help;
    } list[SERIES] = {
        [UP] = { "up", "gauge", "1 when the upstream store answered last time." },
        [LEFT] = { "left_seconds", "gauge",
                   "How long the agent's session upstream is proven to live." },
        [NAMES] = { "names", "gauge", "Names campaigned for or observed upstream." },
        [OBSERVED] = { "observed", "gauge", "Of these, names that are only looked at." },
        [CAMPAIGNS] = { "campaigns_total", "counter", "Campaigns begun upstream." },
        [WON] = { "won_total", "counter", "Terms that upstream granted." },
        [RESUMED] = { "resumed_total", "counter",
                      "Terms of the agent before this one that were taken up." },
        [GIVEN_BACK] = { "given_back_total", "counter",
                         "Terms that the agent gave back because nobody here has them any more." },
        [RECALLED] = { "recalled_total", "counter",
                       "Terms that upstream ended before their local holder did." },
        [COUNTED_OUT] = { "counted_out_total", "counter",
                          "Of these, terms recalled to save what their session has elsewhere." },
        [UNPROMISED] = { "unpromised_total", "counter",
                         "Local renewals that were refused because upstream had not confirmed the "
                         "agent." },
    };
    struct tn_agent *agent = server->agent;

    for (size_t i = 0; agent != NULL && i < SERIES; i++) {
        tn_text_addf(text, "# HELP tenured_upstream_%s %s\n# TYPE tenured_upstream_%s %s\n",
                     list[i].name, list[i].help, list[i].name, list[i].type);
        for (uint32_t up = 0; up < agent->up_count; up++) {
            const char *prefix = agent->prefixes[up];
            tn_text_addf(text, "tenured_upstream_%s", list[i].name);
            if (agent->up_count > 1 || prefix[0] != 0)
                tn_text_addf(text, "{upstream=\"%s\"}", prefix[0] != 0 ? prefix : "*");
            tn_text_addf(text, " %.9g\n", value_of(&agent->ups[up], (enum series)i));
        }
    }
}

void tn_agent_info(struct tn_server *server, struct tn_text *text)
{
    struct tn_agent *agent = server->agent;

    if (agent == NULL)
        return;
    tn_text_add(text, "\r\n# Upstreams\r\n");
    for (uint32_t i = 0; i < agent->up_count; i++) {
        const struct tn_upstream *up = &agent->ups[i];
        const char *prefix = up->prefix[0] != 0 ? up->prefix : "*";
        tn_text_addf(
            text, "upstream%" PRIu32 ":prefix=%s,up=%d,left_ms=%" PRId64 ",names=%" PRIu32 "\r\n",
            i, prefix, tenure_health(up->tenure, NULL) == 0, left_of(up) / TN_MS(1),
            up->name_count);
    }
}
