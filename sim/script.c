/* script.c - reads a script, and lets it happen.
 *
 * Acts are not events of their own: one step of the world does all that is due at an instant and
 * schedules the next, so a script adds no more events than it has instants. */
#include "sim/script.h"
#include "sim/run.h"

#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/nearest.h"
#include "base/number.h"

#define SPAN_MOST TN_SEC(3600)
#define WORD_MAX 40

/* What the settings said, before the plan is made from them; -1: nothing. */
struct settings {
    uint64_t nodes;
    tenure_ns ttl, renew, margin, net, end, stagger;
    int64_t rho;
    enum sim_style style;
    bool fenced, twins;
};

static int bad(struct tn_text *reterr, const char *item, const char *why)
{
    tn_text_add(reterr, "'");
    tn_text_escape(reterr, item, strlen(item) > WORD_MAX ? WORD_MAX : strlen(item));
    tn_text_addf(reterr, "': %s", why);
    return -1;
}

static int bad_word(struct tn_text *reterr, const char *item, const char *what, const char *word,
                    const char *const *words)
{
    const char *nearest = tn_nearest(word, words);
    char why[120];
    struct tn_text text;

    tn_text_init(&text, why, sizeof why);
    tn_text_addf(&text, "there is no such %s", what);
    if (nearest != NULL)
        tn_text_addf(&text, "; did you mean '%s'?", nearest);
    else
        tn_text_add(&text, "; 'tenure help sim' lists them");
    return bad(reterr, item, why);
}

/* --- Numbers ---------------------------------------------------------------------------------- */

/* Milliseconds with up to six decimals, at most SPAN_MOST. */
static bool read_ms(const char *word, tenure_ns *ret_span)
{
    char whole[WORD_MAX + 1];
    const char *point = strchr(word, '.');
    size_t len = point != NULL ? (size_t)(point - word) : strlen(word);
    uint64_t ms = 0;
    tenure_ns part = 0, unit = TN_MS(1) / 10;

    if (len > WORD_MAX)
        return false;
    memcpy(whole, word, len);
    whole[len] = '\0';
    if (tn_u64_parse(whole, &ms) != 0 || ms > (uint64_t)(SPAN_MOST / TN_MS(1)))
        return false;
    for (const char *digit = point != NULL ? point + 1 : ""; *digit != '\0'; digit++) {
        if (*digit < '0' || *digit > '9' || unit == 0)
            return false;
        part += (*digit - '0') * unit;
        unit /= 10;
    }
    *ret_span = TN_MS((tenure_ns)ms) + part;
    return true;
}

static bool read_signed(const char *word, int64_t most, int64_t *ret_value)
{
    bool minus = word[0] == '-';
    uint64_t value = 0;
    if (tn_u64_parse(word + minus, &value) != 0 || value > (uint64_t)most)
        return false;
    *ret_value = minus ? -(int64_t)value : (int64_t)value;
    return true;
}

/* --- Settings --------------------------------------------------------------------------------- */

static bool read_switch(const char *value, bool *ret_on)
{
    *ret_on = strcmp(value, "on") == 0;
    return *ret_on || strcmp(value, "off") == 0;
}

static bool read_style(const char *value, enum sim_style *ret_style)
{
    static const char *const styles[] = { "queue", "watch", "observed" };
    for (uint32_t i = 0; i < 3; i++) {
        if (strcmp(value, styles[i]) == 0) {
            *ret_style = (enum sim_style)i;
            return true;
        }
    }
    return false;
}

enum key { NODES, TTL, RENEW, RHO, MARGIN, NET, FENCE, STYLE, TWINS, STAGGER, SEED, PLANT, END };
static const char *const keys[] = { "nodes", "ttl",   "renew", "rho",     "margin",
                                    "net",   "fence", "style", "twins",   "stagger",
                                    "seed",  "plant", "end",   "history", NULL };

static bool read_value(enum key key, const char *value, struct settings *settings,
                       struct sim_script *script)
{
    switch (key) {
    case NODES:
        return tn_u64_parse(value, &settings->nodes) == 0 && settings->nodes > 0 &&
               settings->nodes <= SIM_NODES_MAX;
    case TTL:
        return read_ms(value, &settings->ttl) && settings->ttl >= TN_TTL_MIN;
    case RENEW:
        return read_ms(value, &settings->renew) && settings->renew >= TN_MS(10);
    case RHO:
        return read_signed(value, TN_PPM / 2, &settings->rho) && settings->rho >= 0;
    case MARGIN:
        return read_ms(value, &settings->margin);
    case NET:
        return read_ms(value, &settings->net) && settings->net <= TN_SEC(10);
    case FENCE:
        return read_switch(value, &settings->fenced);
    case STYLE:
        return read_style(value, &settings->style);
    case TWINS:
        return read_switch(value, &settings->twins);
    case STAGGER:
        return read_ms(value, &settings->stagger);
    case SEED:
        return tn_u64_parse(value, &script->seed) == 0 && script->seed > 0;
    case PLANT:
        script->plant = sim_plant_find(value);
        return script->plant != 0;
    case END:
        return read_ms(value, &settings->end) && settings->end > 0;
    default:
        return tn_u64_parse(value, &script->history) == 0 && script->history > 0;
    }
}

static int read_setting(char *item, struct settings *settings, struct sim_script *script,
                        struct tn_text *reterr)
{
    char *value = strchr(item, '=');
    if (value == NULL)
        return bad(reterr, item, "neither MS:ACT nor KEY=VALUE");
    *value = '\0';
    for (uint32_t i = 0; keys[i] != NULL; i++) {
        if (strcmp(item, keys[i]) != 0)
            continue;
        bool good = read_value((enum key)i, value + 1, settings, script);
        *value = '=';
        return good ? 0 : bad(reterr, item, "not a value of this setting; see docs/sim.md");
    }
    return bad_word(reterr, item, "setting", item, keys);
}

/* --- Acts ------------------------------------------------------------------------------------- */

static const struct act_form {
    const char *name;
    enum sim_act_whom whom;
    enum sim_act_number number;
} forms[] = {
#define FORM(symbol, name, whom, number, words) { name, whom, number },
    SIM_ACTS(FORM)
#undef FORM
};

const char *sim_act_name(enum sim_act_kind kind)
{
    TN_ASSERT(kind < SIM_ACT_COUNT);
    return forms[kind].name;
}

static bool read_who(const char *word, enum sim_act_whom whom, uint32_t *ret_who)
{
    uint64_t number = 0;
    if (strcmp(word, "leader") == 0)
        *ret_who = SIM_WHO_LEADER;
    else if (strcmp(word, "all") == 0)
        *ret_who = SIM_WHO_ALL;
    else if (strcmp(word, "store") == 0 && whom == SIM_TO_NODE_OR_STORE)
        *ret_who = SIM_WHO_STORE;
    else if (word[0] >= 'a' && word[0] <= 'z' && word[1] == '\0')
        *ret_who = (uint32_t)(word[0] - 'a');
    else if (word[0] == 'n' && tn_u64_parse(word + 1, &number) == 0 && number < SIM_NODES_MAX)
        *ret_who = (uint32_t)number;
    else
        return false;
    return true;
}

static bool read_number(const char *word, enum sim_act_number number, int64_t *ret_value)
{
    if (number == SIM_SPAN)
        return read_ms(word, ret_value) && *ret_value > 0;
    if (number == SIM_RATE)
        return read_signed(word, TN_PPM * 9 / 10, ret_value);
    if (number == SIM_COUNT)
        return read_signed(word, INT32_MAX, ret_value) && *ret_value > 0;
    if (!read_signed(word, SPAN_MOST / TN_MS(1), ret_value))
        return false;
    *ret_value *= TN_MS(1);
    return true;
}

/* The next word up to a colon, which becomes its end; NULL when there is none. */
static char *next_word(char **rest)
{
    char *word = *rest;
    char *colon = word != NULL ? strchr(word, ':') : NULL;
    if (colon != NULL)
        *colon++ = '\0';
    *rest = colon;
    return word;
}

static bool insert(struct sim_script *script, const struct sim_act *act)
{
    uint32_t place = script->act_count;
    if (place == SIM_ACTS_MAX)
        return false;
    while (place > 0 && script->acts[place - 1].at > act->at)
        place--;
    memmove(&script->acts[place + 1], &script->acts[place],
            (script->act_count - place) * sizeof *act);
    script->acts[place] = *act;
    script->act_count++;
    return true;
}

static int add_act(struct sim_script *script, const struct sim_act *act, const char *item,
                   struct tn_text *reterr)
{
    struct sim_act finish = { .kind = SIM_ACT_FINISH,
                              .at = act->at + act->number,
                              .who = act->who };
    if (!insert(script, act) || (act->kind == SIM_ACT_FREEZE && !insert(script, &finish)))
        return bad(reterr, item, "there are more than 256 acts");
    return 0;
}

static int read_act(char *item, struct sim_script *script, struct tn_text *reterr)
{
    const char *names[SIM_ACT_COUNT + 1] = { NULL };
    struct sim_act act = { .who = SIM_NOBODY };
    char whole[WORD_MAX + 1];
    char *text = strchr(item, '=');
    char *rest = item;

    (void)snprintf(whole, sizeof whole, "%s", item);
    if (text != NULL) {
        *text = '\0';
        act.text = text + 1;
    }
    if (!read_ms(next_word(&rest), &act.at))
        return bad(reterr, whole, "an act begins with its instant in milliseconds, up to an hour");
    const char *name = next_word(&rest);
    for (uint32_t i = 0; i < SIM_ACT_COUNT; i++)
        names[i] = forms[i].name;
    while (act.kind < SIM_ACT_COUNT && (name == NULL || strcmp(name, names[act.kind]) != 0))
        act.kind++;
    if (act.kind == SIM_ACT_COUNT)
        return bad_word(reterr, whole, "act", name != NULL ? name : "", names);
    const struct act_form *form = &forms[act.kind];
    if (form->whom != SIM_TO_NOBODY) {
        const char *who = next_word(&rest);
        if (who == NULL || !read_who(who, form->whom, &act.who))
            return bad(reterr, whole, "it needs a candidate: a, b, ... or leader");
    }
    if (form->number != SIM_NO_NUMBER) {
        const char *number = next_word(&rest);
        if (number == NULL || !read_number(number, form->number, &act.number))
            return bad(reterr, whole, "it needs a number: milliseconds, ppm for rate");
    }
    if (rest != NULL)
        return bad(reterr, whole, "there is a word too many");
    return add_act(script, &act, whole, reterr);
}

/* --- The whole -------------------------------------------------------------------------------- */

static void make_config(const struct settings *settings, struct sim_script *script)
{
    struct sim_config *config = &script->config;
    struct tn_plan *plan = &config->plan;
    uint32_t room = settings->nodes > 16 ? 2 * (uint32_t)settings->nodes : 32;

    *config = (struct sim_config) { .nodes = (uint32_t)settings->nodes,
                                    .names = 1,
                                    .style = settings->style,
                                    .fenced = settings->fenced,
                                    .twins = settings->twins,
                                    .delay = settings->net >= 0 ? settings->net : TN_MS(5),
                                    .session_limit = room,
                                    .lease_limit = 8,
                                    .waiter_limit = room };
    tn_plan_init(plan, settings->ttl);
    if (settings->net >= 0)
        tn_plan_turn(plan, TN_KNOB_RTT, 2 * settings->net + settings->net / 2);
    if (settings->rho >= 0)
        tn_plan_turn(plan, TN_KNOB_RHO, settings->rho);
    if (settings->renew >= 0)
        tn_plan_turn(plan, TN_KNOB_RENEW, settings->renew);
    if (settings->margin >= 0)
        tn_plan_turn(plan, TN_KNOB_MARGIN, settings->margin);
    script->verdict = tn_plan_judge(plan, &script->answer);
    config->rho_ppm = plan->rho_holder_ppm;
    config->claim = (struct tn_claim_config) {
        .attempt_timeout = plan->attempt_timeout,
        .backoff = plan->backoff,
        .poll_every = plan->poll_every,
        .drain_timeout = plan->grace,
        .raise_timeout = plan->ttl / 2,
        .jitter_ppm = plan->jitter_ppm,
        .fenced = settings->fenced,
        .observed = settings->style == SIM_OBSERVED,
    };
}

static int finish_script(struct settings *settings, struct sim_script *script,
                         struct tn_text *reterr)
{
    tenure_ns last = script->act_count > 0 ? script->acts[script->act_count - 1].at : 0;

    if (script->history != 0 && script->act_count > 0)
        return bad(reterr, "history", "the world of a seed takes no acts");
    for (uint32_t i = 0; i < script->act_count; i++)
        if (script->acts[i].who < SIM_NODES_MAX && script->acts[i].who >= settings->nodes)
            return bad(reterr, forms[script->acts[i].kind].name, "there is no such candidate");
    make_config(settings, script);
    script->stagger = settings->stagger;
    script->end = settings->end;
    if (script->end < 0)
        script->end = last + TN_SEC(30) > TN_SEC(60) ? last + TN_SEC(30) : TN_SEC(60);
    else if (script->end < last)
        script->end = last + 2 * settings->ttl;
    return 0;
}

/* A text that begins with story=NAME continues that story. */
static int copy_text(const char *text, struct sim_script *script, struct tn_text *reterr)
{
    static const char begin[] = "story=";
    const char *names[32] = { NULL };
    struct tn_text copy;
    char name[WORD_MAX + 1];
    size_t len = strcspn(text, "+\n");

    tn_text_init(&copy, script->text, sizeof script->text);
    if (strncmp(text, begin, sizeof begin - 1) == 0) {
        (void)snprintf(name, sizeof name, "%.*s", (int)(len - sizeof begin + 1),
                       text + sizeof begin - 1);
        const struct sim_scenario *scenario = sim_scenario_find(name);
        for (uint32_t i = 0; i < 31 && sim_scenario_at(i) != NULL; i++)
            names[i] = sim_scenario_at(i)->name;
        if (scenario == NULL)
            return bad_word(reterr, name, "story", name, names);
        script->story = scenario->name;
        tn_text_add(&copy, scenario->script);
        text += len;
    }
    tn_text_add(&copy, text);
    return tn_text_truncated(&copy) ? bad(reterr, text, "the script is too long") : 0;
}

int sim_script_parse(const char *text, struct sim_script *ret_script, struct tn_text *reterr)
{
    struct settings settings = { .nodes = 3,
                                 .ttl = TN_SEC(15),
                                 .renew = -1,
                                 .margin = -1,
                                 .net = -1,
                                 .end = -1,
                                 .rho = -1,
                                 .stagger = TN_MS(100),
                                 .fenced = true };
    memset(ret_script, 0, sizeof *ret_script);
    ret_script->seed = 1;
    if (copy_text(text, ret_script, reterr) != 0)
        return -1;
    for (char *item = ret_script->text; item != NULL;) {
        char *end = item + strcspn(item, "+\n");
        char *next = *end != '\0' ? end + 1 : NULL;
        int rc = 0;
        *end = '\0';
        item += strspn(item, " \t\r");
        if (item[0] >= '0' && item[0] <= '9')
            rc = read_act(item, ret_script, reterr);
        else if (item[0] != '\0' && item[0] != '#')
            rc = read_setting(item, &settings, ret_script, reterr);
        if (rc != 0)
            return rc;
        item = next;
    }
    return finish_script(&settings, ret_script, reterr);
}

bool sim_script_loses(const struct sim_script *script, uint64_t number)
{
    for (uint32_t i = 0; i < script->act_count; i++)
        if (script->acts[i].kind == SIM_ACT_LOSE && (uint64_t)script->acts[i].number == number)
            return true;
    return false;
}

/* --- Letting it happen ------------------------------------------------------------------------ */

void sim_script_open(struct sim_world *world, const struct sim_script *script)
{
    struct sim_event begin = { .kind = SIM_EV_STEP };
    const struct sim_config *config = &script->config;

    sim_world_reset(world, config, script->seed);
    world->script = script;
    world->healed = true; /* Nothing is left to chance. */
    for (uint32_t i = 0; i < config->nodes; i++) {
        struct sim_node *node = &world->nodes[i];
        node->label = config->twins ? 0 : i;
        node->clock = (struct sim_clock) { .real_from = world->now,
                                           .local_from = TN_SEC(100 * (int64_t)(i + 1)),
                                           .rate_ppm = TN_PPM };
    }
    sim_at(world, world->now, &begin);
}

/* One after the other, so that the first leads and the others queue in turn. */
static void start_all(struct sim_world *world)
{
    for (uint32_t i = 0; i < world->config.nodes; i++) {
        struct sim_event up = { .kind = SIM_EV_NODE_UP, .node = i };
        if (world->script->stagger == 0)
            sim_node_boot(world, i);
        else
            sim_at(world, world->now + (tenure_ns)i * world->script->stagger, &up);
    }
}

void sim_script_step(struct sim_world *world)
{
    const struct sim_script *script = world->script;
    struct sim_event next = { .kind = SIM_EV_STEP };
    tenure_ns at = world->now - TN_SEC(1);

    while (world->act < script->act_count && script->acts[world->act].at <= at)
        sim_act_do(world, &script->acts[world->act++]);
    if (world->phase++ == 0)
        start_all(world);
    if (at >= script->end) {
        world->ended = true;
        return;
    }
    bool more = world->act < script->act_count && script->acts[world->act].at < script->end;
    sim_at(world, TN_SEC(1) + (more ? script->acts[world->act].at : script->end), &next);
}

void sim_script_tell_end(struct sim_world *world)
{
    const struct sim_stats *stats = &world->stats;
    long long gap_us = world->gap_most[0] / 1000;

    sim_trace_other(world, "end", "%llu terms, %llu lost; %llu writes, %llu refused, %llu harmful",
                    (unsigned long long)stats->terms, (unsigned long long)stats->losses,
                    (unsigned long long)stats->writes, (unsigned long long)stats->refused_writes,
                    (unsigned long long)stats->harm);
    sim_trace_other(world, "end", "longest time without a leader: %lld.%06lld s", gap_us / 1000000,
                    gap_us % 1000000);
    if (world->violation.promise != NULL)
        sim_trace_other(world, "end", "%s was broken%s", world->violation.promise,
                        world->clock_out_of_bounds
                            ? ": a clock ran outside of rho, which every promise rests on"
                            : "");
}
