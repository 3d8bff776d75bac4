/* agent.c - tenured --upstream: the truth lives in another store, and this daemon is one session
 * there for all processes of its host.
 *
 * Happy path: the first local waiter of a name makes the agent campaign for it upstream, through
 * the library, as any application would; the grant goes to the first in line with upstream's token;
 * when no local session has the name any more, the agent gives it back. core/agent.c decides, and
 * the simulator has it (sim/hosts.c); this file only carries out.
 *
 * The library renews on a thread of its own. Its news are handed out on the daemon's loop, so
 * nothing here is locked, and a store that hangs holds up nobody.
 *
 * What can fail: upstream. Then the agent's deadline there comes nearer, and no answer to a local
 * session promises more than is left of it (N1); behind it, renewals are answered UNAVAILABLE and
 * local terms end. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/time.h"
#include "core/agent.h"
#include "daemon/server.h"
#include "lib/agent.h"

/* A name that nobody watches or wants any more is observed for so long; with many, not so long. */
#define KEEP_LOOKING TN_SEC(60)
#define KEEP_FEWER TN_SEC(5)
/* So many names are observed, and no more than --max-leases: whoever may read would have this agent
 * watch any number of them upstream. */
#define LOOKS_MAX 10000

/* A name, as long as somebody here has to do with it. */
struct name {
    struct tn_map_node node; /* First; by name. */
    struct tn_agent *agent;
    struct tn_agent_name core;
    struct tenure_election *campaign; /* NULL: there is none, and then perhaps */
    struct tenure_election *observer; /* this one. */
    struct tenure_election *past;     /* What the agent before this one asked for, given back. */
    tenure_ns asked_at;
    bool known; /* What is on record upstream: */
    bool held;
    bool mine;
    uint64_t token;
    uint64_t over;             /* The last token that the agent gave back; what shows it is old. */
    struct name *next, **prev; /* Of all. */
    uint32_t label_len, len;
    char label[TENURE_ID_MAX + 1];
    char text[TN_NAME_MAX + 1];
};

struct tn_agent {
    struct tn_server *server;
    struct tenure *tenure;
    uv_poll_t poll;
    bool started;
    tenure_ns allowed; /* The latest deadline that a local session may have, by its answers. */
    struct tn_map_node *names[TN_BUCKETS];
    struct name *all;
    uint32_t name_count, looks; /* All; observed only. */
    bool left_open;
    uint64_t campaigns, won, recalled, given_back, unpromised, resumed;
};

static bool is_note(const char *name, uint32_t len)
{
    return len >= 8 && memcmp(name, "~tenure/", 8) == 0;
}

/* --- Names ------------------------------------------------------------------------------------ */

static struct name *find(struct tn_agent *agent, const char *text, uint32_t len)
{
    struct tn_map_node *node = tn_map_first(agent->names, tn_map_hash(agent->server, text, len));

    for (; node != NULL; node = tn_map_next(node)) {
        struct name *name = (struct name *)node;
        if (name->len == len && memcmp(name->text, text, len) == 0)
            return name;
    }
    return NULL;
}

static struct name *get(struct tn_agent *agent, const char *text, uint32_t len)
{
    struct name *name = find(agent, text, len);

    if (name == NULL)
        name = calloc(1, sizeof *name);
    if (name == NULL)
        return NULL;
    name->asked_at = agent->server->now;
    if (name->agent != NULL)
        return name;
    name->agent = agent;
    name->len = len;
    memcpy(name->text, text, len);
    name->next = agent->all;
    name->prev = &agent->all;
    if (name->next != NULL)
        name->next->prev = &name->next;
    agent->all = name;
    agent->name_count++;
    tn_map_add(agent->names, &name->node, tn_map_hash(agent->server, text, len));
    return name;
}

static void look_away(struct name *name)
{
    name->agent->looks -= name->observer != NULL;
    tenure_leave(name->observer);
    name->observer = NULL;
}

static void drop(struct name *name)
{
    look_away(name);
    tenure_leave(name->past);
    tn_map_remove(name->agent->names, &name->node);
    *name->prev = name->next;
    if (name->next != NULL)
        name->next->prev = name->prev;
    name->agent->name_count--;
    free(name);
}

/* Those who look are not told of the agent, but of the local process, which the table has. */
static void view_of(const struct name *name, struct tn_lease_view *ret_view)
{
    /* The term's hash stays upstream; nobody here may take it for its own. */
    static const struct tn_secret nobody = { { 0xff, 0xff } };

    *ret_view =
        (struct tn_lease_view) { .name = name->text, .name_len = name->len, .token = name->token };
    if (!name->held || name->mine)
        return; /* The agent's own term, and no local session has it: it is being given back. */
    ret_view->session = ret_view->term = &nobody;
    ret_view->label = name->label;
    ret_view->label_len = name->label_len;
}

/* --- What upstream says ----------------------------------------------------------------------- */

static void hear(struct name *name, enum tn_agent_event_kind kind, uint64_t token);

static void note_record(struct name *name, const struct tenure_election *election,
                        const struct tenure_event *event)
{
    struct tn_lease_view view;

    name->known = true;
    name->held = event->kind == TENURE_LEADER && event->token > name->over;
    name->mine = name->held && name->campaign == election && tn_lib_leader_is_mine(election);
    name->token = event->token;
    name->label_len = (uint32_t)strlen(event->leader);
    memcpy(name->label, event->leader, name->label_len);
    if (name->mine) /* The table tells of the local holder; of a moment without one, nobody. */
        return;
    view_of(name, &view);
    tn_watch_tell(name->agent->server, &view);
    tn_wait_looked(name->agent->server, &view);
}

static void told(struct tenure_election *election, const struct tenure_event *event, void *arg)
{
    struct name *name = arg;
    bool counts = election == name->campaign; /* What is given back says nothing of this one. */

    switch (event->kind) {
    case TENURE_WON:
        if (counts)
            hear(name, TN_AGENT_EV_WON, event->token);
        break;
    case TENURE_STOP:
    case TENURE_LOST:
        if (counts)
            hear(name, TN_AGENT_EV_LOST, event->token);
        break;
    case TENURE_LEADER:
    case TENURE_VACANT:
        note_record(name, election, event);
        break;
    case TENURE_REFUSED:
        tn_log("upstream: %s: %s", name->text,
               event->detail[0] != 0 ? event->detail : tenure_reason_text(event->reason));
        break;
    case TENURE_JEOPARDY:
    case TENURE_SAFE:
    case TENURE_RENEWED:
    case TENURE_HEALTH:
        break;
    }
}

/* --- What is to be done ----------------------------------------------------------------------- */

static struct tn_agent_local look_locally(const struct name *name)
{
    const struct tn_table *table = name->agent->server->state.table;
    uint32_t lease = tn_table_lease_of(table, name->text, name->len);
    struct tn_agent_local local = { 0 };
    struct tn_lease_view view;
    uint32_t session;

    if (lease == 0)
        return local;
    tn_table_lease(table, lease, &view);
    local.held = view.session != NULL;
    local.wanted = tn_table_next_waiter(table, lease, 0, &session) != 0;
    return local;
}

static struct tenure_campaign how_to(struct name *name)
{
    return (struct tenure_campaign) { .size = sizeof(struct tenure_campaign),
                                      .callback = told,
                                      .arg = name,
                                      .flags = TENURE_PATIENT };
}

static void campaign(struct name *name)
{
    struct tenure_campaign how = how_to(name);
    struct tenure_error error;

    look_away(name);
    name->known = false;
    name->agent->campaigns++;
    name->campaign = name->past;
    name->past = NULL;
    if (name->campaign != NULL) { /* It knows what may still be on its way to upstream. */
        (void)tenure_stand(name->campaign);
        return;
    }
    if (tenure_campaign_start(name->agent->tenure, name->text, &how, &name->campaign, &error) == 0)
        return;
    /* The local waiters stand in line; the sweep tries again. */
    name->campaign = NULL;
    name->core.stage = TN_AGENT_IDLE;
    tn_log("upstream: %s: %s", name->text, error.text);
}

/* The step itself, and what it means to the name. */
static void step(struct name *name, struct tn_op *op)
{
    struct tn_server *server = name->agent->server;
    struct tn_result result;

    op->name = name->text;
    op->name_len = name->len;
    tn_server_step(server, op, &result);
    if (op->kind == TN_OP_GRANT && result.answer == TN_ANSWER_GRANTED)
        hear(name, TN_AGENT_EV_GRANTED, 0);
    else
        hear(name, TN_AGENT_EV_LOOK, 0);
}

/* The agent gives @token back: until upstream tells of another, nobody has the name. */
static void note_over(struct name *name, uint64_t token)
{
    if (token <= name->over)
        return;
    name->agent->given_back++;
    name->over = name->token = token;
    name->known = true;
    name->held = name->mine = false;
}

static void hear(struct name *name, enum tn_agent_event_kind kind, uint64_t token)
{
    struct tn_agent *agent = name->agent;
    struct tn_agent_local local = look_locally(name);

    if (agent->tenure == NULL) /* The daemon is ending. */
        return;
    struct tn_op op = { .kind = TN_OP_GRANT, .token = token };
    uint64_t before = name->core.token;

    switch (tn_agent_next(&name->core, kind, token, &local)) {
    case TN_AGENT_NOTHING:
        break;
    case TN_AGENT_CAMPAIGN:
        campaign(name);
        break;
    case TN_AGENT_GRANT:
        agent->won++;
        if (tenure_token(name->campaign) == token)
            step(name, &op);
        else
            hear(name, TN_AGENT_EV_LOOK, 0); /* Over by now. */
        break;
    case TN_AGENT_RECALL:
        agent->recalled++;
        op = (struct tn_op) { .kind = TN_OP_REVOKE, .until = agent->allowed };
        step(name, &op);
        break;
    case TN_AGENT_TAKE_UP: /* tn_agent_start is at it. */
        break;
    case TN_AGENT_GIVE_BACK:
        note_over(name, before);
        (void)tenure_drained(name->campaign);
        break;
    case TN_AGENT_LEAVE:
        note_over(name, before);
        tenure_leave(name->campaign);
        name->campaign = NULL;
        name->known = before > 0;
        if (tn_watch_has(agent->server, name->text, name->len))
            (void)tn_agent_watch(agent->server, name->text, name->len);
        break;
    }
}

void tn_agent_look(struct tn_server *server, uint32_t lease)
{
    struct tn_lease_view view;

    tn_table_lease(server->state.table, lease, &view);
    struct name *name = get(server->agent, view.name, view.name_len);
    if (name != NULL) /* Otherwise its waiters stand in line until somebody else comes. */
        hear(name, TN_AGENT_EV_LOOK, 0);
}

void tn_agent_changed(struct tn_server *server, const struct tn_notice *notice)
{
    struct tn_lease_view view;

    if (!notice->held) {
        tn_agent_look(server, notice->lease);
        return;
    }
    tn_table_lease(server->state.table, notice->lease, &view);
    if (view.session != NULL) /* Others in line that would not wait hear that it is held. */
        tn_wait_looked(server, &view);
}

/* --- N1 --------------------------------------------------------------------------------------- */

tenure_ns tn_agent_listen(struct tn_server *server)
{
    struct tn_agent *agent = server->agent;

    if (agent == NULL)
        return 0;
    /* In this order: an extension that is seen here came behind the news that go with it. */
    tenure_ns proven = tn_lib_deadline(agent->tenure);
    (void)tenure_dispatch(agent->tenure);
    return proven;
}

bool tn_agent_promise(struct tn_call *call, tenure_ns proven, tenure_ns *ttl)
{
    struct tn_server *server = call->server;
    struct tn_agent *agent = server->agent;
    struct tenure_error error;

    if (agent == NULL)
        return true;
    *ttl = tn_agent_ttl(*ttl, proven, server->now);
    *ttl -= *ttl % TN_MS(1);
    if (*ttl > 0) {
        if (server->now + *ttl > agent->allowed)
            agent->allowed = server->now + *ttl;
        return true;
    }
    agent->unpromised++;
    if (tenure_health(agent->tenure, &error) == 0)
        tn_reply_error(call, "UNAVAILABLE the agent's own session upstream is not confirmed; ask "
                             "again");
    else
        tn_reply_error(call, "UNAVAILABLE upstream: %.300s", error.text);
    return false;
}

/* --- Looking and watching --------------------------------------------------------------------- */

static bool observe(struct name *name)
{
    if (name->campaign != NULL || name->observer != NULL)
        return true;
    bool made = tenure_observe(name->agent->tenure, name->text, told, name, &name->observer) == 0;
    name->agent->looks += made;
    return made;
}

static uint32_t looks_max(const struct tn_server *server)
{
    uint32_t leases = server->config.limits.leases;

    return leases < LOOKS_MAX ? leases : LOOKS_MAX;
}

bool tn_agent_may_look(struct tn_call *call, const char *text, uint32_t len)
{
    struct tn_agent *agent = call->server->agent;

    if (agent == NULL || agent->looks < looks_max(call->server) || find(agent, text, len) != NULL ||
        is_note(text, len))
        return true;
    tn_reply_error(call, "FULL the agent observes as many names upstream as it may; ask again");
    return false;
}

bool tn_agent_record(struct tn_server *server, const char *text, uint32_t len,
                     struct tn_lease_view *ret_view)
{
    struct name *name;

    if (server->agent == NULL)
        return false;
    *ret_view = (struct tn_lease_view) { .name = text, .name_len = len };
    if (is_note(text, len)) /* Operators' notes are for the agent, which heeds them itself. */
        return true;
    name = get(server->agent, text, len);
    if (name == NULL || !observe(name) || !name->known)
        return false;
    view_of(name, ret_view);
    return true;
}

bool tn_agent_watch(struct tn_server *server, const char *text, uint32_t len)
{
    if (is_note(text, len))
        return true;
    struct name *name = get(server->agent, text, len);
    return name != NULL && observe(name);
}

void tn_agent_sweep(struct tn_server *server)
{
    struct tn_agent *agent = server->agent;
    tenure_ns keep = agent->looks > looks_max(server) / 2 ? KEEP_FEWER : KEEP_LOOKING;
    struct name *next;

    for (struct name *name = agent->all; name != NULL; name = next) {
        next = name->next;
        if (name->core.stage != TN_AGENT_IDLE)
            continue;
        hear(name, TN_AGENT_EV_LOOK, 0);
        if (name->core.stage == TN_AGENT_IDLE && server->now - name->asked_at > keep &&
            !tn_watch_has(server, name->text, name->len))
            drop(name);
    }
}

/* --- Commands --------------------------------------------------------------------------------- */

bool tn_agent_may(struct tn_call *call)
{
    static const struct {
        const char *command, *verb, *why;
    } refused[] = {
        { "FENCE", NULL, "an agent keeps no fences; fence at the resource, or at a tenured" },
        { "REVOKE", NULL, "revoke at the agent's upstream" },
        { "HANDOVER", NULL, "ask for a hand-over at the agent's upstream" },
        { "STAND-DOWN", NULL, "ask for a stand-down at the agent's upstream" },
        { "RESUME", NULL, "resume at the agent's upstream" },
        { "DRAIN", NULL, "drain at the agent's upstream" },
        { "UNDRAIN", NULL, "undrain at the agent's upstream" },
        { "TOKEN", NULL, "tokens are the upstream's; ask there" },
        { "LEASE", "MACQUIRE", "an agent acquires one name at a time; use LEASE ACQUIRE" },
        { "LEASE", "MGET", "an agent shows one name at a time; use LEASE GET" },
    };
    const struct tn_resp_word *words = call->words;

    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        if (!tn_resp_is(&words[0], refused[i].command) ||
            (refused[i].verb != NULL &&
             (call->count < 2 || !tn_resp_is(&words[1], refused[i].verb))))
            continue;
        tn_reply_error(call, "ERR not at an agent: %s", refused[i].why);
        return false;
    }
    if (call->count > 4 && tn_resp_is(&words[0], "LEASE") && tn_resp_is(&words[1], "ACQUIRE") &&
        is_note(words[4].bytes, words[4].len)) {
        tn_reply_error(
            call, "ERR not at an agent: leave operators' notes and priorities to its upstream");
        return false;
    }
    return true;
}

void tn_agent_metrics(struct tn_server *server, struct tn_text *text)
{
    struct tn_agent *agent = server->agent;

    if (agent == NULL)
        return;
    tenure_ns left = tn_lib_deadline(agent->tenure) - server->now;
    const struct {
        const char *name, *type, *help;
        double value;
    } list[] = {
        { "tenured_upstream_up", "gauge", "1 when the upstream store answered last time.",
          tenure_health(agent->tenure, NULL) == 0 },
        { "tenured_upstream_left_seconds", "gauge",
          "How long the agent's session upstream is proven to live.",
          left > 0 ? (double)left / 1e9 : 0 },
        { "tenured_upstream_names", "gauge", "Names campaigned for or observed upstream.",
          agent->name_count },
        { "tenured_upstream_observed", "gauge", "Of these, names that are only looked at.",
          agent->looks },
        { "tenured_upstream_campaigns_total", "counter", "Campaigns begun upstream.",
          (double)agent->campaigns },
        { "tenured_upstream_won_total", "counter", "Terms that upstream granted.",
          (double)agent->won },
        { "tenured_upstream_resumed_total", "counter",
          "Terms of the agent before this one that were taken up.", (double)agent->resumed },
        { "tenured_upstream_given_back_total", "counter",
          "Terms that the agent gave back because nobody here has them any more.",
          (double)agent->given_back },
        { "tenured_upstream_recalled_total", "counter",
          "Terms that upstream ended before their local holder did.", (double)agent->recalled },
        { "tenured_upstream_unpromised_total", "counter",
          "Local renewals that were refused because upstream had not confirmed the agent.",
          (double)agent->unpromised },
    };
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++)
        tn_text_addf(text, "# HELP %s %s\n# TYPE %s %s\n%s %.9g\n", list[i].name, list[i].help,
                     list[i].name, list[i].type, list[i].name, list[i].value);
}

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
static bool resume(struct tn_agent *agent, uint32_t index, const char *text, uint64_t token)
{
    struct name *name = get(agent, text, (uint32_t)strlen(text));
    struct tn_agent_local local = { .held = is_held(agent->server->state.table, text, token) };
    struct tenure_campaign how = how_to(name);
    struct tenure_election *election = NULL;
    struct tenure_error error;

    if (name == NULL)
        return false;
    bool goes_on =
        name->core.stage == TN_AGENT_IDLE &&
        tn_agent_next(&name->core, TN_AGENT_EV_RESUME, token, &local) == TN_AGENT_TAKE_UP;
    if (tn_lib_resume(agent->tenure, index, goes_on ? token : 0, &how, &election, &error) != 0)
        return false;
    if (goes_on) {
        name->campaign = election;
    } else if (name->past == NULL) {
        name->past = election;
        (void)tenure_resign(election);
    } else {
        tenure_leave(election);
    }
    agent->resumed += goes_on;
    return true;
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

    agent->allowed = tn_agent_allowed(table, server->now);
    for (uint32_t i = 0; tn_lib_past(agent->tenure, i, &text, &token); i++)
        if (!resume(agent, i, text, token))
            return UV_ENOMEM;
    for (uint32_t lease = 0; (lease = tn_table_next(table, lease)) != 0;) {
        tn_table_lease(table, lease, &view);
        struct name *name = view.session != NULL ? get(agent, view.name, view.name_len) : NULL;
        if (name == NULL || name->core.stage != TN_AGENT_IDLE)
            continue;
        recalled++;
        hear(name, TN_AGENT_EV_RESUME, 0);
    }
    if (tn_lib_resumed(agent->tenure))
        tn_log_info("took up the session upstream of the agent before this one, with %" PRIu64
                    " of its terms",
                    agent->resumed);
    if (recalled > 0)
        tn_log_info("%" PRIu32 " terms of the agent before this one do not go on upstream; their "
                    "holders are told",
                    recalled);
    return 0;
}

/* --- Beginning and end ------------------------------------------------------------------------ */

int tn_agent_open(struct tn_server *server, struct tn_text *reterr)
{
    struct tenure_options options = { .size = sizeof options,
                                      .ttl = server->config.upstream_ttl,
                                      .flags = TENURE_OWN_LOOP | TN_LIB_UNBOUND };
    struct tn_agent *agent = calloc(1, sizeof *agent);
    struct tenure_error error;

    if (agent == NULL)
        return TENURE_E_NOMEM;
    agent->server = server;
    int rc = tenure_open(server->config.upstream, &options, &agent->tenure, &error);
    if (rc == 0 && server->config.journal.dir != NULL) {
        char path[600];
        (void)snprintf(path, sizeof path, "%s/upstream", server->config.journal.dir);
        rc = tn_lib_keep(agent->tenure, path, server->config.upstream, &error);
    }
    if (rc < 0) {
        tn_text_addf(reterr, "--upstream: %s", error.text);
        (void)tenure_close(agent->tenure);
        free(agent);
        return rc;
    }
    server->agent = agent;
    return 0;
}

static void has_news(uv_poll_t *poll, int status, int events)
{
    struct tn_agent *agent = poll->data;

    (void)status;
    (void)events;
    tn_server_tell_time(agent->server);
    (void)tenure_dispatch(agent->tenure);
}

int tn_agent_start(struct tn_server *server)
{
    struct tn_agent *agent = server->agent;
    int rc = uv_poll_init(&server->loop, &agent->poll, tenure_fd(agent->tenure));

    agent->poll.data = agent;
    agent->started = rc == 0;
    if (rc == 0)
        rc = resume_all(server);
    (void)tn_lib_open_session(agent->tenure);
    return rc != 0 ? rc : uv_poll_start(&agent->poll, UV_READABLE, has_news);
}

static bool holds_something(const struct tn_table *table)
{
    struct tn_lease_view view;

    for (uint32_t lease = 0; (lease = tn_table_next(table, lease)) != 0;) {
        tn_table_lease(table, lease, &view);
        if (view.session != NULL)
            return true;
    }
    return false;
}

/* P5: what a local process still leads must not be given back. Then the session upstream is left
 * to run out, as if the agent had been killed. */
void tn_agent_close(struct tn_server *server)
{
    struct tn_agent *agent = server->agent;

    if (agent == NULL)
        return;
    if (agent->started)
        (void)uv_poll_stop(&agent->poll);
    agent->left_open = holds_something(server->state.table);
    if (agent->left_open) {
        tn_log_info(server->journal.none
                        ? "local sessions hold names: their terms end by themselves, and the "
                          "session upstream runs out"
                        : "local sessions hold names: the next start goes on with them, or their "
                          "terms end by themselves");
    } else if (tenure_close(agent->tenure) != 0) {
        tn_log("upstream did not take the agent's session back; it runs out");
    }
    agent->tenure = NULL;
}

bool tn_agent_left_open(const struct tn_server *server)
{
    return server->agent != NULL && server->agent->left_open;
}

void tn_agent_free(struct tn_server *server)
{
    struct tn_agent *agent = server->agent;

    if (agent == NULL)
        return;
    for (struct name *name = agent->all, *next; name != NULL; name = next) {
        next = name->next;
        free(name);
    }
    free(agent);
    server->agent = NULL;
}
