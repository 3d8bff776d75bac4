/* agent.c - tenured --upstream: the truth lives in another store, or in several, each with names of
 * its own. This daemon is one session there for all processes of its host. agent_promise.c has what
 * a renewal promises, agent_open.c the beginning and the end.
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
#include "daemon/agent_inner.h"

/* A name that nobody watches or wants any more is observed for so long; with many, not so long. */
#define KEEP_LOOKING TN_SEC(60)
#define KEEP_FEWER TN_SEC(5)
/* So many names are observed, and no more than --max-leases: whoever may read would have this agent
 * watch any number of them upstream. */
#define LOOKS_MAX 10000

static bool is_note(const char *name, uint32_t len)
{
    return len >= 8 && memcmp(name, "~tenure/", 8) == 0;
}

/* --- Names ------------------------------------------------------------------------------------ */

static struct tn_agents_name *find(struct tn_agent *agent, const char *text, uint32_t len)
{
    struct tn_map_node *node = tn_map_first(agent->names, tn_map_hash(agent->server, text, len));

    for (; node != NULL; node = tn_map_next(node)) {
        struct tn_agents_name *name = (struct tn_agents_name *)node;
        if (name->len == len && memcmp(name->text, text, len) == 0)
            return name;
    }
    return NULL;
}

struct tn_upstream *tn_agent_upstream_of(struct tn_agent *agent, const char *text, uint32_t len)
{
    uint32_t index = tn_agent_route(agent->prefixes, agent->up_count, text, len);

    return index != TN_AGENT_NOWHERE ? &agent->ups[index] : NULL;
}

void tn_agent_add_name(const struct tn_upstream *up, struct tn_text *text)
{
    tn_text_add(text, "upstream");
    if (up->agent->up_count > 1 || up->prefix[0] != 0)
        tn_text_addf(text, " %s", up->prefix[0] != 0 ? up->prefix : "*");
}

static void log_of(const struct tn_agents_name *name, const char *what)
{
    char line[600];
    struct tn_text text;

    tn_text_init(&text, line, sizeof line);
    tn_agent_add_name(name->up, &text);
    tn_log("%s: %s: %s", line, name->text, what);
}

struct tn_agents_name *tn_agent_get(struct tn_agent *agent, const char *text, uint32_t len)
{
    struct tn_agents_name *name = find(agent, text, len);

    if (name == NULL)
        name = calloc(1, sizeof *name);
    if (name == NULL)
        return NULL;
    name->asked_at = agent->server->now;
    if (name->agent != NULL)
        return name;
    name->agent = agent;
    name->up = tn_agent_upstream_of(agent, text, len);
    name->len = len;
    memcpy(name->text, text, len);
    name->next = agent->all;
    name->prev = &agent->all;
    if (name->next != NULL)
        name->next->prev = &name->next;
    agent->all = name;
    if (name->up != NULL)
        name->up->name_count++;
    tn_map_add(agent->names, &name->node, tn_map_hash(agent->server, text, len));
    return name;
}

static void look_away(struct tn_agents_name *name)
{
    if (name->observer == NULL)
        return;
    name->up->looks--;
    tenure_leave(name->observer);
    name->observer = NULL;
}

static void drop(struct tn_agents_name *name)
{
    look_away(name);
    tenure_leave(name->past);
    tn_map_remove(name->agent->names, &name->node);
    *name->prev = name->next;
    if (name->next != NULL)
        name->next->prev = name->prev;
    if (name->up != NULL)
        name->up->name_count--;
    free(name);
}

/* Those who look are not told of the agent, but of the local process, which the table has. */
static void view_of(const struct tn_agents_name *name, struct tn_lease_view *ret_view)
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

static void note_record(struct tn_agents_name *name, const struct tenure_election *election,
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
    struct tn_agents_name *name = arg;
    bool counts = election == name->campaign; /* What is given back says nothing of this one. */

    switch (event->kind) {
    case TENURE_WON:
        if (counts)
            tn_agent_hear(name, TN_AGENT_EV_WON, event->token);
        break;
    case TENURE_STOP:
    case TENURE_LOST:
        if (counts)
            tn_agent_hear(name, TN_AGENT_EV_LOST, event->token);
        break;
    case TENURE_LEADER:
    case TENURE_VACANT:
        note_record(name, election, event);
        break;
    case TENURE_REFUSED:
        log_of(name, event->detail[0] != 0 ? event->detail : tenure_reason_text(event->reason));
        break;
    case TENURE_RENEWED:
        if (counts && name->core.stage == TN_AGENT_HELD_BACK)
            tn_agent_hear(name, TN_AGENT_EV_LOOK, 0);
        break;
    case TENURE_JEOPARDY:
    case TENURE_SAFE:
    case TENURE_HEALTH:
        break;
    }
}

/* --- What is to be done ----------------------------------------------------------------------- */

static struct tn_agent_local look_locally(const struct tn_agents_name *name)
{
    const struct tn_agent *agent = name->agent;
    bool several = agent->up_count > 1 && name->up != NULL;

    return tn_agent_local_of(agent->server->state.table, name->text, name->len,
                             several ? tn_lib_deadline(name->up->tenure) : TN_NEVER,
                             agent->server->now);
}

struct tenure_campaign tn_agent_how_to(struct tn_agents_name *name)
{
    return (struct tenure_campaign) { .size = sizeof(struct tenure_campaign),
                                      .callback = told,
                                      .arg = name,
                                      .flags = TENURE_PATIENT };
}

static void campaign(struct tn_agents_name *name)
{
    struct tenure_campaign how = tn_agent_how_to(name);
    struct tenure_error error;

    look_away(name);
    name->known = false;
    name->up->campaigns++;
    name->campaign = name->past;
    name->past = NULL;
    if (name->campaign != NULL) { /* It knows what may still be on its way to upstream. */
        (void)tenure_stand(name->campaign);
        return;
    }
    if (tenure_campaign_start(name->up->tenure, name->text, &how, &name->campaign, &error) == 0)
        return;
    /* The local waiters stand in line; the sweep tries again. */
    name->campaign = NULL;
    name->core.stage = TN_AGENT_IDLE;
    log_of(name, error.text);
}

/* The step itself, and what it means to the name. */
static void step(struct tn_agents_name *name, struct tn_op *op)
{
    struct tn_server *server = name->agent->server;
    struct tn_result result;

    op->name = name->text;
    op->name_len = name->len;
    tn_server_step(server, op, &result);
    if (op->kind == TN_OP_GRANT && result.answer == TN_ANSWER_GRANTED)
        tn_agent_hear(name, TN_AGENT_EV_GRANTED, 0);
    else
        tn_agent_hear(name, TN_AGENT_EV_LOOK, 0);
}

/* What the session that has it may still be promised. */
static tenure_ns allowed(const struct tn_agents_name *name)
{
    const struct tn_table *table = name->agent->server->state.table;
    uint32_t lease = tn_table_lease_of(table, name->text, name->len);

    return lease != 0 ? tn_table_allowed(table, lease) : 0;
}

/* The agent gives @token back: until upstream tells of another, nobody has the name. */
static void note_over(struct tn_agents_name *name, uint64_t token)
{
    if (token <= name->over)
        return;
    name->up->given_back++;
    name->over = name->token = token;
    name->known = true;
    name->held = name->mine = false;
}

void tn_agent_hear(struct tn_agents_name *name, enum tn_agent_event_kind kind, uint64_t token)
{
    struct tn_agent *agent = name->agent;
    struct tn_agent_local local = look_locally(name);

    if (agent->ending)
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
        name->up->won++;
        if (tenure_token(name->campaign) == token)
            step(name, &op);
        else
            tn_agent_hear(name, TN_AGENT_EV_LOOK, 0); /* Over by now. */
        break;
    case TN_AGENT_RECALL:
        if (name->up != NULL) {
            name->up->recalled++;
            name->up->counted_out += kind == TN_AGENT_EV_SHORT;
        }
        op = (struct tn_op) { .kind = TN_OP_REVOKE, .until = allowed(name) };
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
    struct tn_agents_name *name = tn_agent_get(server->agent, view.name, view.name_len);
    if (name != NULL) /* Otherwise its waiters stand in line until somebody else comes. */
        tn_agent_hear(name, TN_AGENT_EV_LOOK, 0);
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

/* --- Looking and watching --------------------------------------------------------------------- */

static bool observe(struct tn_agents_name *name)
{
    if (name->campaign != NULL || name->observer != NULL)
        return true;
    if (name->up == NULL)
        return false;
    bool made = tenure_observe(name->up->tenure, name->text, told, name, &name->observer) == 0;
    name->up->looks += made;
    return made;
}

/* Whether an upstream has the name; it is answered otherwise. */
static bool is_somewhere(struct tn_call *call, const char *text, uint32_t len)
{
    struct tn_agent *agent = call->server->agent;
    char list[200];
    struct tn_text known;

    if (is_note(text, len) || tn_agent_upstream_of(agent, text, len) != NULL ||
        tn_name_check(text, len, NULL) != 0) /* That is told elsewhere. */
        return true;
    tn_text_init(&known, list, sizeof list);
    for (uint32_t i = 0; i < agent->up_count; i++)
        tn_text_addf(&known, "%s%s", i > 0 ? ", " : "", agent->prefixes[i]);
    tn_reply_error(call, "DENIED no upstream of this agent has the name; it has those below %s",
                   list);
    return false;
}

static uint32_t looks_max(const struct tn_server *server)
{
    uint32_t leases = server->config.limits.leases;

    return leases < LOOKS_MAX ? leases : LOOKS_MAX;
}

bool tn_agent_may_look(struct tn_call *call, const char *text, uint32_t len)
{
    struct tn_agent *agent = call->server->agent;

    if (agent == NULL || is_note(text, len))
        return true;
    if (!is_somewhere(call, text, len))
        return false;
    const struct tn_upstream *up = tn_agent_upstream_of(agent, text, len);
    if (up == NULL || up->looks < looks_max(call->server) || find(agent, text, len) != NULL)
        return true;
    tn_reply_error(call, "FULL the agent observes as many names upstream as it may; ask again");
    return false;
}

bool tn_agent_record(struct tn_server *server, const char *text, uint32_t len,
                     struct tn_lease_view *ret_view)
{
    struct tn_agents_name *name;

    if (server->agent == NULL)
        return false;
    *ret_view = (struct tn_lease_view) { .name = text, .name_len = len };
    if (is_note(text, len)) /* Operators' notes are for the agent, which heeds them itself. */
        return true;
    name = tn_agent_get(server->agent, text, len);
    if (name == NULL || !observe(name) || !name->known)
        return false;
    view_of(name, ret_view);
    return true;
}

bool tn_agent_watch(struct tn_server *server, const char *text, uint32_t len)
{
    if (is_note(text, len))
        return true;
    struct tn_agents_name *name = tn_agent_get(server->agent, text, len);
    return name != NULL && observe(name);
}

void tn_agent_sweep(struct tn_server *server)
{
    struct tn_agent *agent = server->agent;
    struct tn_agents_name *next;

    for (struct tn_agents_name *name = agent->all; name != NULL; name = next) {
        bool many = name->up != NULL && name->up->looks > looks_max(server) / 2;
        tenure_ns keep = many ? KEEP_FEWER : KEEP_LOOKING;
        next = name->next;
        if (name->core.stage != TN_AGENT_IDLE && name->core.stage != TN_AGENT_HELD_BACK)
            continue;
        tn_agent_hear(name, TN_AGENT_EV_LOOK, 0);
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
    if (call->count <= 4 || !tn_resp_is(&words[0], "LEASE") || !tn_resp_is(&words[1], "ACQUIRE"))
        return true;
    if (is_note(words[4].bytes, words[4].len)) {
        tn_reply_error(
            call, "ERR not at an agent: leave operators' notes and priorities to its upstream");
        return false;
    }
    return is_somewhere(call, words[4].bytes, words[4].len);
}
