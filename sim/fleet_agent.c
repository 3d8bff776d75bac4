/* fleet_agent.c - the agents of a fleet: what src/daemon/agent.c is to a real store. */
#include <string.h>

#include "base/assert.h"
#include "sim/fleet_world.h"

void sim_fleet_news(struct fleet *fleet, uint32_t seat, enum tn_agent_event_kind kind,
                    uint64_t token)
{
    struct fleet_news *news = sim_fleet_grow(fleet, fleet->news, fleet->news_count,
                                             &fleet->news_room, sizeof *fleet->news);

    if (news == NULL)
        return;
    fleet->news = news;
    fleet->news[fleet->news_count++] = (struct fleet_news) { seat, kind, token };
}

static tenure_ns proven_until(const struct fleet *fleet, const struct fleet_party *agent)
{
    const struct tn_session *session = &agent->candidate.session;

    return tn_session_valid(session, sim_fleet_now(fleet, agent)) ? tn_session_deadline(session)
                                                                  : 0;
}

static void step(struct fleet *fleet, const struct fleet_party *agent, const struct tn_op *op,
                 struct tn_result *ret_result)
{
    const struct fleet_host *host = &fleet->hosts[agent->host];

    tn_table_step(host->table, sim_fleet_now(fleet, agent), op, ret_result);
    sim_fleet_pass_on(fleet, host->table, host, ret_result,
                      op->kind == TN_OP_OPEN || op->kind == TN_OP_RENEW);
}

/* @news in the table: that changes it, and is news again. */
static void tell_table(struct fleet *fleet, struct fleet_party *agent, enum tn_agent_act act,
                       const struct fleet_news *news)
{
    struct fleet_host *host = &fleet->hosts[agent->host];
    const char *name = sim_fleet_text(fleet, sim_fleet_name(fleet, agent->host, news->seat));
    struct tn_op op = { .name = name, .name_len = (uint32_t)strlen(name) };
    struct tn_result result = { .answer = TN_ANSWER_STALE };

    if (act == TN_AGENT_RECALL) {
        op.kind = TN_OP_REVOKE;
        op.until =
            tn_table_allowed(host->table, tn_table_lease_of(host->table, op.name, op.name_len));
        step(fleet, agent, &op, &result);
    } else if (tn_candidate_token(&agent->candidate, &agent->seats[news->seat],
                                  sim_fleet_now(fleet, agent)) == news->token) {
        op.kind = TN_OP_GRANT;
        op.token = news->token;
        step(fleet, agent, &op, &result);
    }
    sim_fleet_news(fleet, news->seat,
                   result.answer == TN_ANSWER_GRANTED ? TN_AGENT_EV_GRANTED : TN_AGENT_EV_LOOK, 0);
}

static void hear_news(struct fleet *fleet, struct fleet_party *agent, const struct fleet_news *news)
{
    struct fleet_host *host = &fleet->hosts[agent->host];
    tenure_ns now = sim_fleet_now(fleet, agent);
    struct tn_seat *seat = &agent->seats[news->seat];
    const char *name = sim_fleet_text(fleet, sim_fleet_name(fleet, agent->host, news->seat));
    struct tn_agent_local local =
        tn_agent_local_of(host->table, name, (uint32_t)strlen(name), TN_NEVER, now);
    enum tn_agent_act act =
        tn_agent_next(&host->names[news->seat], news->kind, news->token, &local);

    switch (act) {
    case TN_AGENT_NOTHING:
        break;
    case TN_AGENT_CAMPAIGN:
        tn_candidate_wish(&agent->candidate, now, seat, TN_CLAIM_EV_CAMPAIGN);
        break;
    case TN_AGENT_GRANT:
    case TN_AGENT_RECALL:
        tell_table(fleet, agent, act, news);
        break;
    case TN_AGENT_LEAVE:
        tn_candidate_wish(&agent->candidate, now, seat, TN_CLAIM_EV_RESIGN);
        tn_candidate_wish(&agent->candidate, now, seat, TN_CLAIM_EV_DRAINED);
        break;
    case TN_AGENT_GIVE_BACK:
        tn_candidate_wish(&agent->candidate, now, seat, TN_CLAIM_EV_DRAINED);
        break;
    case TN_AGENT_TAKE_UP: /* An agent that was started again; here none is. */
        TN_ASSERT(false);
    }
}

void sim_fleet_settle(struct fleet *fleet, struct fleet_party *agent)
{
    struct fleet_host *host = &fleet->hosts[agent->host];
    tenure_ns proven = proven_until(fleet, agent);

    for (uint32_t i = 0; i < fleet->news_count; i++) {
        struct fleet_news news = fleet->news[i];
        hear_news(fleet, agent, &news);
    }
    fleet->news_count = 0;
    if (proven > host->proven)
        host->proven = proven;
}

void sim_fleet_tick_agent(struct fleet *fleet, struct fleet_party *agent)
{
    struct tn_result result;

    if (tn_table_wake_at(fleet->hosts[agent->host].table) <= sim_fleet_now(fleet, agent))
        step(fleet, agent, &(struct tn_op) { .kind = TN_OP_TICK }, &result);
}

void sim_fleet_serve(struct fleet *fleet, struct fleet_party *agent,
                     const struct fleet_message *message)
{
    struct fleet_host *host = &fleet->hosts[agent->host];
    tenure_ns now = sim_fleet_now(fleet, agent);
    struct tn_agent_reach reach = { .left = tn_agent_left(proven_until(fleet, agent), now),
                                    .span = agent->candidate.session.timing.valid_for,
                                    .used = true };
    struct tn_result result;
    tenure_ns ttl = 0;

    sim_fleet_count(fleet, fleet->local_load, message->request.kind);
    /* N1: the news behind what is proven come before the answer. */
    sim_fleet_settle(fleet, agent);
    struct tn_op op = sim_fleet_op(fleet, message);
    step(fleet, agent, &op, &result);
    if (result.ttl > 0) {
        ttl = tn_agent_ttl(&reach, 1, result.ttl);
        tn_table_allow(host->table, tn_table_session_of(host->table, &op.session), now + ttl);
    }
    sim_fleet_reply(fleet, host->table, message, &result, ttl);
}

void sim_fleet_bury(struct fleet *fleet, struct fleet_party *agent,
                    const struct fleet_message *message)
{
    struct tn_op op = { .kind = TN_OP_CLOSE };
    struct tn_result result;

    for (uint64_t life = 1; life <= message->life; life++) {
        op.session = sim_fleet_secret(message->party, message->incarnation, life);
        step(fleet, agent, &op, &result);
    }
}
