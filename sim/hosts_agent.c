/* hosts_agent.c - the agents of the two-level world: what src/daemon/agent.c is to a real store. */
#include <string.h>

#include "base/assert.h"
#include "sim/hosts.h"

void sim_host_news(struct host_world *hosts, const struct host_party *party, uint32_t name,
                   enum tn_agent_event_kind kind, uint64_t token)
{
    struct host_agent *agent = &hosts->agents[party->host];

    TN_ASSERT(agent->news_count < HOST_NEWS);
    agent->news[agent->news_count++] = (struct host_news) { name, kind, token };
}

/* What the agent may count on upstream, this instant. */
static tenure_ns proven_until(const struct host_world *hosts, const struct host_party *party)
{
    const struct tn_session *session = &sim_host_candidate(hosts, party)->session;

    return tn_session_valid(session, sim_host_now(hosts, party)) ? tn_session_deadline(session) : 0;
}

/* The agent as the store of @name knows it. */
static struct host_party *arm_of(struct host_world *hosts, const struct host_party *party,
                                 uint32_t name)
{
    return sim_host_arm(hosts, party->host, sim_host_store_of(hosts, name));
}

static struct tn_agent_local look_locally(struct host_world *hosts, const struct host_party *party,
                                          uint32_t name)
{
    const char *text = sim_name(name);
    tenure_ns proven =
        hosts->store_count > 1 ? proven_until(hosts, arm_of(hosts, party, name)) : TN_NEVER;

    return tn_agent_local_of(hosts->agents[party->host].table, text, (uint32_t)strlen(text), proven,
                             sim_host_now(hosts, party));
}

static uint64_t held_token(const struct host_agent *agent, uint32_t name)
{
    const char *text = sim_name(name);
    uint32_t lease = tn_table_lease_of(agent->table, text, (uint32_t)strlen(text));
    struct tn_lease_view view = { 0 };

    if (lease != 0)
        tn_table_lease(agent->table, lease, &view);
    return view.session != NULL ? view.token : 0;
}

static void agent_hear(struct host_world *hosts, struct host_party *agents_first, uint32_t name,
                       enum tn_agent_event_kind kind, uint64_t token)
{
    struct host_party *party = arm_of(hosts, agents_first, name);
    struct host_agent *agent = &hosts->agents[party->host];
    struct tn_agent_local local = look_locally(hosts, party, name);
    struct tn_op op = { .name = sim_name(name), .name_len = (uint32_t)strlen(sim_name(name)) };
    struct tn_result result = { .answer = TN_ANSWER_STALE };

    switch (tn_agent_next(&agent->names[name], kind, token, &local)) {
    case TN_AGENT_NOTHING:
        return;
    case TN_AGENT_CAMPAIGN:
        sim_host_wish(hosts, party, name, TN_CLAIM_EV_CAMPAIGN);
        return;
    case TN_AGENT_GRANT:
        op.kind = TN_OP_GRANT;
        op.token = token;
        /* Over by now: there is no telling when it was won. */
        if (sim_host_won(hosts, party, name) == token)
            sim_host_agent_step(hosts, party, &op, &result);
        sim_host_news(hosts, party, name,
                      result.answer == TN_ANSWER_GRANTED ? TN_AGENT_EV_GRANTED : TN_AGENT_EV_LOOK,
                      0);
        return;
    case TN_AGENT_RECALL:
        op.kind = TN_OP_REVOKE;
        op.until =
            tn_table_allowed(agent->table, tn_table_lease_of(agent->table, op.name, op.name_len));
        sim_host_agent_step(hosts, party, &op, &result);
        sim_host_news(hosts, party, name, TN_AGENT_EV_LOOK, 0);
        return;
    case TN_AGENT_LEAVE:
        sim_host_wish(hosts, party, name, TN_CLAIM_EV_RESIGN);
        break;
    case TN_AGENT_GIVE_BACK:
    case TN_AGENT_TAKE_UP:
        break;
    }
    sim_host_wish(hosts, party, name, TN_CLAIM_EV_DRAINED);
}

void sim_host_agent_settle(struct host_world *hosts, struct host_party *party)
{
    struct host_agent *agent = &hosts->agents[party->host];
    tenure_ns proven[HOST_STORES];

    for (uint32_t i = 0; i < hosts->store_count; i++)
        proven[i] = proven_until(hosts, sim_host_arm(hosts, party->host, i));
    for (uint32_t name = 0; name < HOST_NAMES; name++)
        if (agent->names[name].stage == TN_AGENT_HELD_BACK)
            sim_host_news(hosts, party, name, TN_AGENT_EV_LOOK, 0);
    for (uint32_t i = 0; i < agent->news_count; i++) {
        struct host_news news = agent->news[i];
        agent_hear(hosts, party, news.name, news.kind, news.token);
    }
    agent->news_count = 0;
    for (uint32_t i = 0; i < hosts->store_count; i++) {
        agent->awaited[i] = agent->awaited[i] && proven[i] == 0;
        if (proven[i] > agent->proven[i])
            agent->proven[i] = proven[i];
    }
}

/* --- What a session is promised --------------------------------------------------------------- */

/* What there is of each store for this session, and what it was before the news. */
static void reach(struct host_world *hosts, const struct host_party *party,
                  const struct tn_secret *secret, struct tn_agent_reach ret_list[HOST_STORES])
{
    const struct host_agent *agent = &hosts->agents[party->host];
    tenure_ns now = sim_host_now(hosts, party);
    uint32_t session = tn_table_session_of(agent->table, secret);

    for (uint32_t i = 0; i < hosts->store_count; i++) {
        const struct host_party *arm = sim_host_arm(hosts, party->host, i);
        ret_list[i].span = sim_host_candidate(hosts, arm)->session.timing.valid_for;
        ret_list[i].awaited = agent->awaited[i] ? now - agent->started + 1 : 0;
    }
    for (uint32_t name = 0; session != 0 && name < HOST_NAMES; name++) {
        const char *text = sim_name(name);
        uint32_t lease = tn_table_lease_of(agent->table, text, (uint32_t)strlen(text));
        struct tn_lease_view view = { 0 };
        if (lease != 0)
            tn_table_lease(agent->table, lease, &view);
        if (view.session != NULL && !view.revoked && tn_secret_equal(view.session, secret))
            ret_list[sim_host_store_of(hosts, name)].used = true;
    }
}

/* N3: before the table renews the session. */
static void count_out(struct host_world *hosts, struct host_party *party,
                      const struct tn_secret *secret, tenure_ns ttl, struct tn_agent_reach *list)
{
    struct host_agent *agent = &hosts->agents[party->host];
    bool out[HOST_STORES];

    for (uint32_t i = 0; i < hosts->store_count; i++)
        out[i] = tn_agent_counts_out(list, hosts->store_count, i, ttl);
    for (uint32_t name = 0; name < HOST_NAMES; name++) {
        const char *text = sim_name(name);
        uint32_t lease = tn_table_lease_of(agent->table, text, (uint32_t)strlen(text));
        struct tn_lease_view view = { 0 };
        if (lease == 0 || !out[sim_host_store_of(hosts, name)])
            continue;
        tn_table_lease(agent->table, lease, &view);
        if (view.session != NULL && !view.revoked && tn_secret_equal(view.session, secret))
            agent_hear(hosts, party, name, TN_AGENT_EV_SHORT, 0);
        list[sim_host_store_of(hosts, name)].used = false;
    }
}

static tenure_ns ttl_of(const struct host_agent *agent, const struct tn_op *op)
{
    uint32_t session = tn_table_session_of(agent->table, &op->session);
    struct tn_session_view view = { .ttl = op->ttl };

    if (session != 0)
        tn_table_session(agent->table, session, &view);
    return view.ttl;
}

static bool is_out_of_reach(const struct host_world *hosts, uint32_t host, uint32_t store)
{
    tenure_ns now = hosts->world->now;
    const struct sim_world *upstream = hosts->upstream;

    if (upstream != NULL)
        return !upstream->store.up || now < upstream->store.paused_until ||
               now < upstream->nodes[host].cut_to_until ||
               now < upstream->nodes[host].cut_from_until;
    return now < hosts->agents[host].cut_until[store] || now < hosts->stores[store].stopped_until;
}

/* Of a name that no local session has, upstream is asked: without a way there, no answer. */
static bool has_no_answer(struct host_world *hosts, const struct host_party *party,
                          const struct host_event *event)
{
    if (hosts->healed || event->request.kind != TN_OP_READ ||
        held_token(&hosts->agents[party->host], event->name) != 0)
        return false;
    return is_out_of_reach(hosts, party->host, sim_host_store_of(hosts, event->name)) ||
           sim_chance(hosts->world, hosts->unread_ppm);
}

/* A process asks its agent. */
void sim_host_agent_serve(struct host_world *hosts, struct host_party *party,
                          const struct host_event *event)
{
    struct host_agent *agent = &hosts->agents[party->host];
    struct tn_op op = sim_host_op(event);
    tenure_ns now = sim_host_now(hosts, party);
    struct tn_agent_reach list[HOST_STORES] = { { 0 } };
    struct tn_result result;
    tenure_ns ttl = 0;

    for (uint32_t i = 0; i < hosts->store_count; i++)
        list[i].left = tn_agent_left(proven_until(hosts, sim_host_arm(hosts, party->host, i)), now);
    /* N1: the news behind what is proven come before the answer. */
    sim_host_agent_settle(hosts, party);
    if (op.kind == TN_OP_OPEN || op.kind == TN_OP_RENEW) {
        reach(hosts, party, &op.session, list);
        count_out(hosts, party, &op.session, ttl_of(agent, &op), list);
    }
    sim_host_agent_step(hosts, party, &op, &result);
    if (result.ttl > 0) {
        ttl = tn_agent_ttl(list, hosts->store_count, result.ttl);
        tn_table_allow(agent->table, tn_table_session_of(agent->table, &op.session), now + ttl);
    }
    if (!has_no_answer(hosts, party, event))
        sim_host_reply(hosts, agent->table, event, &result, ttl);
}

/* Every life of that process is over, whatever the agent knows of it. */
void sim_host_agent_bury(struct host_world *hosts, const struct host_party *party,
                         const struct host_event *event)
{
    struct tn_op op = { .kind = TN_OP_CLOSE };
    struct tn_result result;

    for (uint64_t life = 1; life <= event->life; life++) {
        op.session = sim_host_secret(event->party, event->incarnation, life);
        sim_host_agent_step(hosts, party, &op, &result);
    }
}

/* --- Life ------------------------------------------------------------------------------------- */

static void begin_anew(struct host_world *hosts, struct host_agent *agent)
{
    struct tn_table_limits limits = { .sessions = 64,
                                      .leases = HOST_NAMES + 1,
                                      .waiters = 64,
                                      .text_bytes = 4096,
                                      .upstream = true,
                                      .hash_key = { hosts->world->seed, 3 } };

    memset(agent->block, 0, hosts->agent_size);
    agent->table = tn_table_init(agent->block, &limits);
}

/* The table is there again; upstream the agent is somebody else: a store whose sessions nobody can
 * take up, another store, or the file with the secrets is lost. */
static void keep_table(struct host_world *hosts, struct host_party *party)
{
    struct host_agent *agent = &hosts->agents[party->host];
    tenure_ns now = sim_host_now(hosts, party);

    sim_host_tell(hosts, party->index, "has a new session, and the old table");
    tn_table_restart(agent->table, now);
    for (uint32_t name = 0; name < HOST_NAMES; name++)
        sim_host_news(hosts, party, name, TN_AGENT_EV_RESUME, 0);
}

/* The table is there again, and so are the secrets of what was asked for upstream. */
static void resume(struct host_world *hosts, struct host_party *party)
{
    struct host_agent *agent = &hosts->agents[party->host];
    tenure_ns now = sim_host_now(hosts, party);
    uint64_t starts = ++agent->ledger.starts;

    sim_host_tell(hosts, party->index, "goes on where it was");
    tn_table_restart(agent->table, now);
    for (uint32_t i = 0; i < hosts->store_count; i++) {
        struct host_party *arm = sim_host_arm(hosts, party->host, i);
        arm->identity = agent->identity[i];
        agent->awaited[i] = true;
        if (agent->ledger.life[i] > 0)
            tn_candidate_resume(&arm->candidate, agent->ledger.life[i], starts << 32);
    }
    for (uint32_t name = 0; name < HOST_NAMES; name++) {
        struct tn_agent_local local = look_locally(hosts, party, name);
        uint64_t token = agent->ledger.token[name];
        local.held = local.held && token != 0 && token == held_token(agent, name);
        bool kept = agent->ledger.gen[name] > 0 &&
                    tn_agent_next(&agent->names[name], TN_AGENT_EV_RESUME, token, &local) ==
                        TN_AGENT_TAKE_UP;
        if (agent->ledger.gen[name] > 0)
            tn_claim_resume(&arm_of(hosts, party, name)->seats[name].claim, agent->ledger.gen[name],
                            kept ? token : 0);
        if (!kept)
            sim_host_news(hosts, party, name, TN_AGENT_EV_RESUME, 0);
    }
}

void sim_host_agent_boot(struct host_world *hosts, struct host_party *party)
{
    struct host_agent *agent = &hosts->agents[party->host];

    memset(agent->names, 0, sizeof agent->names);
    memset(agent->awaited, 0, sizeof agent->awaited);
    agent->started = sim_host_now(hosts, party);
    agent->news_count = 0;
    if (agent->ledger.life[0] > 0 && sim_chance(hosts->world, TN_PPM / 2)) {
        resume(hosts, party);
        return;
    }
    bool kept =
        (agent->ledger.life[0] > 0 || (hosts->upstream != NULL && party->incarnation > 1)) &&
        sim_chance(hosts->world, TN_PPM / 2);
    for (uint32_t i = 0; i < hosts->store_count; i++)
        agent->identity[i] = sim_host_arm(hosts, party->host, i)->identity;
    memset(&agent->ledger, 0, sizeof agent->ledger);
    if (kept)
        keep_table(hosts, party);
    else
        begin_anew(hosts, agent);
}
