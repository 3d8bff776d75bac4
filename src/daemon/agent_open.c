/* agent_open.c - an agent begins, with what the one before it has kept (N2), and ends. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/agent_inner.h"

/* --- After a restart: N2 ---------------------------------------------------------------------- */

/* Whether a local session holds @text with that very token. */
static bool is_held(const struct tn_table *table, const char *text, uint64_t token)
{
    uint32_t lease = tn_table_lease_of(table, text, (uint32_t)strlen(text));
    struct tn_lease_view view = { 0 };

    if (lease != 0)
        tn_table_lease(table, lease, &view);
    return view.session != NULL && view.token == token && token != 0;
}

/* What the agent before this one had asked for upstream; false: there is no memory. */
static bool resume(struct tn_upstream *up, uint32_t index, const char *text, uint64_t token)
{
    struct tn_agent *agent = up->agent;
    struct tn_agents_name *name = tn_agent_get(agent, text, (uint32_t)strlen(text));
    struct tn_agent_local local = { .held = is_held(agent->server->state.table, text, token) };
    struct tenure_campaign how = tn_agent_how_to(name);
    struct tenure_election *election = NULL;
    struct tenure_error error;

    if (name == NULL)
        return false;
    /* With other prefixes another upstream may have the name by now; this one's term ends. */
    bool goes_on =
        name->core.stage == TN_AGENT_IDLE && name->up == up &&
        tn_agent_next(&name->core, TN_AGENT_EV_RESUME, token, &local) == TN_AGENT_TAKE_UP;
    if (tn_lib_resume(up->tenure, index, goes_on ? token : 0, &how, &election, &error) != 0)
        return false;
    if (goes_on) {
        name->campaign = election;
    } else if (name->past == NULL && name->up == up) {
        name->past = election;
        (void)tenure_resign(election);
    } else {
        tenure_leave(election);
    }
    up->resumed += goes_on;
    return true;
}

static void say_resumed(const struct tn_upstream *up)
{
    char of[300];
    struct tn_text text;

    if (!tn_lib_resumed(up->tenure))
        return;
    tn_text_init(&text, of, sizeof of);
    tn_agent_add_name(up, &text);
    tn_log_info("took up the session %s of the agent before this one, with %" PRIu64
                " of its terms",
                of, up->resumed);
}

/* Local sessions go on, and what they hold where upstream's term does. The rest is recalled, also
 * above a new session: each holder hears of it before its next renewal counts. */
static int resume_all(struct tn_server *server)
{
    struct tn_agent *agent = server->agent;
    const struct tn_table *table = server->state.table;
    uint32_t recalled = 0;
    struct tn_lease_view view;
    uint64_t token;
    const char *text;

    for (uint32_t up = 0; up < agent->up_count; up++)
        for (uint32_t i = 0; tn_lib_past(agent->ups[up].tenure, i, &text, &token); i++)
            if (!resume(&agent->ups[up], i, text, token))
                return UV_ENOMEM;
    for (uint32_t lease = 0; (lease = tn_table_next(table, lease)) != 0;) {
        tn_table_lease(table, lease, &view);
        struct tn_agents_name *name =
            view.session != NULL ? tn_agent_get(agent, view.name, view.name_len) : NULL;
        if (name == NULL || name->core.stage != TN_AGENT_IDLE)
            continue;
        recalled++;
        tn_agent_hear(name, TN_AGENT_EV_RESUME, 0);
    }
    for (uint32_t up = 0; up < agent->up_count; up++)
        say_resumed(&agent->ups[up]);
    if (recalled > 0)
        tn_log_info("%" PRIu32 " terms of the agent before this one do not go on upstream; their "
                    "holders are told",
                    recalled);
    return 0;
}

/* --- Beginning and end ------------------------------------------------------------------------ */

/* DIR/upstream, and with a prefix DIR/upstream+eu+west: no name has a "+". */
static void name_ledger(const char *dir, const char *prefix, char *buf, size_t size)
{
    struct tn_text text;

    tn_text_init(&text, buf, size);
    tn_text_addf(&text, "%s/upstream%s", dir, prefix[0] != 0 ? "+" : "");
    for (size_t i = 0; prefix[i] != 0 && prefix[i + 1] != 0; i++)
        tn_text_addf(&text, "%c", prefix[i] == '/' ? '+' : prefix[i]);
}

static int open_upstream(struct tn_upstream *up, const char *url, struct tn_text *reterr)
{
    const struct tn_server_config *config = &up->agent->server->config;
    struct tenure_options options = { .size = sizeof options,
                                      .ttl = config->upstream_ttl,
                                      .flags = TENURE_OWN_LOOP | TN_LIB_UNBOUND };
    struct tenure_error error;
    char path[700];

    int rc = tenure_open(url, &options, &up->tenure, &error);
    if (rc == 0 && config->journal.dir != NULL) {
        name_ledger(config->journal.dir, up->prefix, path, sizeof path);
        rc = tn_lib_keep(up->tenure, path, url, &error);
    }
    if (rc < 0)
        tn_text_addf(reterr, "--upstream%s%s: %s", up->prefix[0] != 0 ? " " : "", up->prefix,
                     error.text);
    return rc;
}

int tn_agent_open(struct tn_server *server, struct tn_text *reterr)
{
    const struct tn_server_config *config = &server->config;
    struct tn_agent *agent = calloc(1, sizeof *agent);
    int rc = 0;

    if (agent == NULL)
        return TENURE_E_NOMEM;
    agent->server = server;
    for (uint32_t i = 0; rc == 0 && i < config->upstream_count; i++) {
        struct tn_upstream *up = &agent->ups[agent->up_count++];
        up->agent = agent;
        up->prefix = agent->prefixes[i] = config->upstreams[i].prefix;
        rc = open_upstream(up, config->upstreams[i].url, reterr);
    }
    if (rc == 0) {
        server->agent = agent;
        return 0;
    }
    for (uint32_t i = 0; i < agent->up_count; i++)
        (void)tenure_close(agent->ups[i].tenure);
    free(agent);
    return rc;
}

static void has_news(uv_poll_t *poll, int status, int events)
{
    struct tn_upstream *up = poll->data;

    (void)status;
    (void)events;
    tn_server_tell_time(up->agent->server);
    (void)tenure_dispatch(up->tenure);
}

int tn_agent_start(struct tn_server *server)
{
    struct tn_agent *agent = server->agent;
    int rc = 0;

    for (uint32_t i = 0; rc == 0 && i < agent->up_count; i++) {
        struct tn_upstream *up = &agent->ups[i];
        rc = uv_poll_init(&server->loop, &up->poll, tenure_fd(up->tenure));
        up->poll.data = up;
        up->polled = rc == 0;
        up->awaited = tn_lib_resumed(up->tenure);
    }
    agent->started = server->now;
    if (rc == 0)
        rc = resume_all(server);
    for (uint32_t i = 0; i < agent->up_count; i++) {
        (void)tn_lib_open_session(agent->ups[i].tenure);
        if (rc == 0)
            rc = uv_poll_start(&agent->ups[i].poll, UV_READABLE, has_news);
    }
    return rc;
}

static bool holds_something(struct tn_upstream *up)
{
    const struct tn_table *table = up->agent->server->state.table;
    struct tn_lease_view view;

    for (uint32_t lease = 0; (lease = tn_table_next(table, lease)) != 0;) {
        tn_table_lease(table, lease, &view);
        if (view.session != NULL && tn_agent_upstream_of(up->agent, view.name, view.name_len) == up)
            return true;
    }
    return false;
}

/* P5: what a local process still leads must not be given back. Then the session upstream is left
 * to run out, as if the agent had been killed. */
void tn_agent_close(struct tn_server *server)
{
    struct tn_agent *agent = server->agent;
    bool left_open = false;

    if (agent == NULL)
        return;
    agent->ending = true;
    for (uint32_t i = 0; i < agent->up_count; i++) {
        struct tn_upstream *up = &agent->ups[i];
        if (up->polled)
            (void)uv_poll_stop(&up->poll);
        up->left_open = holds_something(up);
        left_open = left_open || up->left_open;
        if (!up->left_open && tenure_close(up->tenure) != 0)
            tn_log("upstream did not take the agent's session back; it runs out");
    }
    if (left_open)
        tn_log_info(server->journal.none
                        ? "local sessions hold names: their terms end by themselves, and the "
                          "session upstream runs out"
                        : "local sessions hold names: the next start goes on with them, or their "
                          "terms end by themselves");
}

bool tn_agent_left_open(const struct tn_server *server)
{
    for (uint32_t i = 0; server->agent != NULL && i < server->agent->up_count; i++)
        if (server->agent->ups[i].left_open)
            return true;
    return false;
}

void tn_agent_free(struct tn_server *server)
{
    struct tn_agent *agent = server->agent;

    if (agent == NULL)
        return;
    for (struct tn_agents_name *name = agent->all, *next; name != NULL; name = next) {
        next = name->next;
        free(name);
    }
    free(agent);
    server->agent = NULL;
}
