/* snapshot.c - one instant of a world as JSON: store, candidates, resource, messages under way. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "sim/run.h"
#include "sim/stage.h"

/* --- Text that grows -------------------------------------------------------------------------- */

static void reserve(struct sim_out *out, size_t more)
{
    size_t room = out->room > 0 ? out->room : 4096;
    if (out->len + more < out->room)
        return;
    while (room <= out->len + more)
        room *= 2;
    out->data = realloc(out->data, room);
    TN_ASSERT(out->data != NULL);
    out->room = room;
}

void sim_out_add(struct sim_out *out, const char *format, ...)
{
    va_list args, again;

    va_start(args, format);
    va_copy(again, args);
    reserve(out, 256);
    int len = vsnprintf(out->data + out->len, out->room - out->len, format, args);
    TN_ASSERT(len >= 0);
    if (out->len + (size_t)len >= out->room) {
        reserve(out, (size_t)len + 1);
        (void)vsnprintf(out->data + out->len, out->room - out->len, format, again);
    }
    out->len += (size_t)len;
    va_end(again);
    va_end(args);
}

void sim_out_string(struct sim_out *out, const char *bytes, size_t len)
{
    struct tn_text text;
    size_t most = 6 * len + 3; /* Every byte as \u00xx, and the quotes. */
    reserve(out, most);
    tn_text_init(&text, out->data + out->len, most);
    tn_json_string(&text, bytes, len);
    out->len += text.len;
}

static void add_word(struct sim_out *out, const char *key, const char *word)
{
    sim_out_add(out, ",\"%s\":", key);
    sim_out_string(out, word, strlen(word));
}

/* --- The parts -------------------------------------------------------------------------------- */

static long long us(tenure_ns span)
{
    return span / 1000;
}

/* An instant that lies ahead, since the beginning; 0 when it has passed. */
static long long ahead(const struct sim_world *world, tenure_ns at)
{
    return at > world->now && at != TN_NEVER ? us(at - TN_SEC(1)) : 0;
}

static void add_label(struct sim_out *out, const struct sim_world *world, uint32_t node)
{
    char label[16] = "";
    if (node < world->config.nodes)
        sim_trace_label(&world->nodes[node], label, sizeof label);
    sim_out_add(out, "\"%s\"", label);
}

static void add_store(const struct sim_stage *stage, struct sim_out *out)
{
    const struct sim_world *world = &stage->world;
    const struct sim_store *store = &world->store;
    const struct sim_queue *queue = &store->queue[stage->name];
    struct sim_holding held;

    sim_store_look(world, stage->name, &held);
    sim_out_add(out, ",\"store\":{\"up\":%d,\"asleep\":%lld,\"holder\":", store->up,
                ahead(world, store->paused_until));
    add_label(out, world, held.node);
    sim_out_add(out, ",\"token\":%llu,\"left\":%lld,\"ttl\":%lld,\"revoked\":%d,\"backup\":%d",
                (unsigned long long)held.token, us(held.left), us(held.ttl), held.revoked,
                store->has_backup);
    sim_out_add(out, ",\"rate\":%lld,\"clock\":%lld,\"waiting\":%u,\"queue\":[",
                (long long)store->clock.rate_ppm, us(sim_store_now(world)), queue->count);
    for (uint32_t i = 0; i < queue->count && i < SIM_SEEN_NODES; i++) {
        sim_out_add(out, i > 0 ? "," : "");
        add_label(out, world, queue->list[queue->first + i].node);
    }
    sim_out_add(out, "]}");
}

static void add_node(const struct sim_stage *stage, const struct sim_node *node,
                     struct sim_out *out)
{
    static const char *const claims[] = { "watching", "acquiring", "raising",
                                          "holding",  "draining",  "releasing" };
    static const char *const sessions[] = { "closed", "opening", "live", "jeopardy", "lost" };
    static const char *const stops[] = { "paused", "suspended", "frozen" };
    const struct sim_world *world = &stage->world;
    const struct sim_seat *seat = &node->seats[stage->name];
    const struct tn_session *session = &node->candidate.session;
    tenure_ns left = node->up ? tn_session_deadline(session) - sim_node_now(world, node) : 0;

    sim_out_add(out, "{\"id\":");
    add_label(out, world, node->index);
    sim_out_add(out, ",\"up\":%d,\"asleep\":%lld,\"how\":\"%s\"", node->up,
                node->up ? ahead(world, node->paused_until) : 0, stops[node->stopped]);
    sim_out_add(out, ",\"claim\":\"%s\",\"session\":\"%s\"", claims[seat->seat.claim.state],
                sessions[session->state]);
    sim_out_add(out, ",\"told\":%d,\"valid\":%llu,\"token\":%llu", node->up && seat->app.told_won,
                (unsigned long long)sim_node_token(world, node, stage->name),
                (unsigned long long)seat->app.token);
    sim_out_add(out, ",\"working\":%d,\"ready\":%d,\"waits\":%d,\"begun\":%llu",
                node->up && seat->app.working, seat->app.ready, seat->app.waits,
                (unsigned long long)(node->begun_by == node->incarnation ? node->begun_token : 0));
    sim_out_add(out, ",\"left\":%lld,\"d\":%lld,\"ttl\":%lld", us(left > 0 ? left : 0),
                us(session->timing.valid_for), us(session->timing.ttl));
    sim_out_add(out, ",\"cut_to\":%lld,\"cut_from\":%lld,\"rate\":%lld,\"clock\":%lld}",
                ahead(world, node->cut_to_until), ahead(world, node->cut_from_until),
                (long long)node->clock.rate_ppm, us(sim_node_now(world, node)));
}

const char *sim_message_name(const struct sim_event *event)
{
    static const char *const requests[] = {
        "open", "renew", "close", "acquire", "release", "read"
    };
    static const char *const replies[] = { "open reply",    "renew reply",   "close reply",
                                           "acquire reply", "release reply", "read reply" };
    static const char *const others[SIM_EV_KINDS] = {
        [SIM_EV_ROW_GET] = "get",
        [SIM_EV_ROW_PUT] = "put",
        [SIM_EV_ROW_SESSION] = "session",
        [SIM_EV_LINE_STEP] = "step",
        [SIM_EV_VOTE] = "ask",
        [SIM_EV_GRANTED] = "granted",
        [SIM_EV_REVOKED] = "revoked",
        [SIM_EV_CHANGED] = "changed",
        [SIM_EV_NOTE] = "note",
        [SIM_EV_ROW_GOT] = "get reply",
        [SIM_EV_ROW_PUT_DONE] = "put reply",
        [SIM_EV_ROW_SESSION_DONE] = "session reply",
        [SIM_EV_LINE_DONE] = "step reply",
        [SIM_EV_LINE_NEWS] = "news",
        [SIM_EV_VOTE_REPLY] = "vote",
        [SIM_EV_VOTE_NEWS] = "vote news",
        [SIM_EV_WRITE] = "write",
        [SIM_EV_RAISE] = "raise",
        [SIM_EV_RAISED] = "raise reply",
    };
    if (others[event->kind] != NULL)
        return others[event->kind];
    TN_ASSERT(event->op <= TN_OP_READ);
    return event->kind == SIM_EV_REQUEST ? requests[event->op] : replies[event->op];
}

static void add_flights(const struct sim_stage *stage, struct sim_out *out)
{
    const struct sim_world *world = &stage->world;
    const char *comma = "";

    sim_out_add(out, ",\"messages\":[");
    for (uint64_t i = world->sent > SIM_FLIGHTS ? world->sent - SIM_FLIGHTS + 1 : 1;
         i <= world->sent; i++) {
        const struct sim_flight *flight = &stage->flights[i % SIM_FLIGHTS];
        bool lost = flight->arrives_at == TN_NEVER;
        tenure_ns shown_until = lost ? flight->sent_at + world->config.delay : flight->arrives_at;
        if (world->now > shown_until || flight->event.node >= SIM_SEEN_NODES)
            continue;
        sim_out_add(out, "%s{\"n\":%llu,\"name\":\"%s\",\"node\":%u", comma,
                    (unsigned long long)flight->number, sim_message_name(&flight->event),
                    flight->event.node);
        sim_out_add(out, ",\"token\":%llu,\"sent\":%lld,\"arrives\":%lld,\"lost\":%d}",
                    (unsigned long long)flight->event.token, us(flight->sent_at - TN_SEC(1)),
                    us(shown_until - TN_SEC(1)), lost);
        comma = ",";
    }
    sim_out_add(out, "]");
}

static void add_violation(const struct sim_world *world, struct sim_out *out)
{
    if (world->violation.promise == NULL)
        return;
    sim_out_add(out, ",\"violation\":{\"at\":%lld,\"assumption\":%d",
                us(world->violation.at - TN_SEC(1)), world->clock_out_of_bounds);
    add_word(out, "promise", world->violation.promise);
    add_word(out, "text", world->violation.text);
    sim_out_add(out, "}");
}

void sim_snapshot(const struct sim_stage *stage, struct sim_out *out)
{
    const struct sim_world *world = &stage->world;
    const struct sim_receiver *receiver = &world->receivers[stage->name];
    uint32_t leaders = 0;

    for (uint32_t i = 0; i < world->config.nodes; i++)
        leaders += sim_node_token(world, &world->nodes[i], stage->name) != 0;
    sim_out_add(out, "{\"t\":%lld,\"ended\":%d,\"leaders\":%u,\"gap\":%lld",
                us(world->now - TN_SEC(1)), sim_world_next_at(world) == TN_NEVER, leaders,
                us(world->gap_most[stage->name]));
    add_store(stage, out);
    sim_out_add(out, ",\"nodes\":[");
    for (uint32_t i = 0; i < world->config.nodes && i < SIM_SEEN_NODES; i++) {
        sim_out_add(out, i > 0 ? "," : "");
        add_node(stage, &world->nodes[i], out);
    }
    sim_out_add(out, "],\"resource\":{\"fenced\":%d,\"highest\":%llu", world->config.fenced,
                (unsigned long long)receiver->highest);
    sim_out_add(out, ",\"accepted\":%llu,\"refused\":%llu,\"harmed\":%llu}",
                (unsigned long long)receiver->accepted, (unsigned long long)receiver->refused,
                (unsigned long long)receiver->harmed);
    add_flights(stage, out);
    sim_out_add(out, ",\"terms\":%llu,\"losses\":%llu", (unsigned long long)world->stats.terms,
                (unsigned long long)world->stats.losses);
    add_violation(world, out);
    sim_out_add(out, "}");
}

/* The two-level world has no stage, so its planted bugs cannot be shown there. */
static bool has_stage(const struct sim_plant *plant)
{
    return strncmp(plant->name, "agent-", 6) != 0;
}

void sim_catalogue(struct sim_out *out)
{
    sim_out_add(out, "{\"stories\":[");
    for (uint32_t i = 0; sim_scenario_at(i) != NULL; i++) {
        const struct sim_scenario *story = sim_scenario_at(i);
        sim_out_add(out, "%s{\"n\":%u", i > 0 ? "," : "", i);
        add_word(out, "name", story->name);
        add_word(out, "title", story->title);
        add_word(out, "moral", story->moral);
        add_word(out, "script", story->script);
        sim_out_add(out, "}");
    }
    sim_out_add(out, "],\"plants\":[");
    for (uint32_t i = 1; sim_plant_at(i) != NULL; i++) {
        const struct sim_plant *plant = sim_plant_at(i);
        if (!has_stage(plant))
            continue;
        sim_out_add(out, "%s{\"n\":%u", i > 1 ? "," : "", i);
        add_word(out, "name", plant->name);
        add_word(out, "promise", plant->promise);
        add_word(out, "wrong", plant->wrong);
        sim_out_add(out, "}");
    }
    sim_out_add(out, "]}");
}
