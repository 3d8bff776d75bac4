/* trace.c - the telling: one line per thing that happened, with a bar for the leader's TTL.
 *
 * The bar spans one TTL from the send of the last renewal that counted: '.' is over, '#' is left,
 * '|' is the deadline D, '-' the margin in which the holder is silent and the store still waits. */
#include <stdarg.h>
#include <stdio.h>

#include "sim/world.h"

#define BAR 26

void sim_trace_label(const struct sim_node *node, char *buf, size_t size)
{
    if (node->label < 26) /* Of two with one label the second is a'. */
        (void)snprintf(buf, size, "%c%s", (char)('a' + node->label),
                       node->label == node->index ? "" : "'");
    else
        (void)snprintf(buf, size, "n%u", node->label);
}

static void draw_bar(const struct sim_world *world, const struct sim_node *node, char bar[BAR + 3])
{
    const struct tn_timing *timing = &node->candidate.session.timing;
    tenure_ns sent_at = tn_session_deadline(&node->candidate.session) - timing->valid_for;
    tenure_ns elapsed = sim_node_now(world, node) - sent_at;
    tenure_ns deadline_at = timing->valid_for * BAR / timing->ttl;
    bar[0] = '[';
    for (int i = 0; i < BAR; i++) {
        char mark = timing->ttl * (i + 1) / BAR <= elapsed ? '.' : '#';
        if (i == deadline_at)
            mark = '|';
        else if (i > deadline_at)
            mark = '-';
        bar[1 + i] = mark;
    }
    bar[BAR + 1] = ']';
    bar[BAR + 2] = '\0';
}

static bool is_told(const struct sim_world *world)
{
    return world->listener != NULL && world->listener->line != NULL;
}

static void tell(struct sim_world *world, const char *who, const char *bar, const char *format,
                 va_list args)
{
    tenure_ns us = (world->now - TN_SEC(1)) / 1000;
    char text[200], line[300];
    (void)vsnprintf(text, sizeof text, format, args);
    int len = snprintf(line, sizeof line,
                       bar[0] ? "[%5lld.%03lld] %-6s %-52s %s\n" : "[%5lld.%03lld] %-6s %s\n",
                       (long long)(us / 1000000), (long long)(us / 1000 % 1000), who, text, bar);
    world->listener->line(world->listener->arg, world, line, (size_t)len);
}

void sim_trace_node(struct sim_world *world, const struct sim_node *node, const char *format, ...)
{
    va_list args;
    char label[16], bar[BAR + 3] = "";
    bool leads = false;
    if (!is_told(world))
        return;
    for (uint32_t i = 0; i < world->config.names && node->up; i++)
        leads = leads || node->seats[i].app.told_won;
    if (leads && tn_session_deadline(&node->candidate.session) > 0)
        draw_bar(world, node, bar);
    sim_trace_label(node, label, sizeof label);
    va_start(args, format);
    tell(world, label, bar, format, args);
    va_end(args);
}

void sim_trace_other(struct sim_world *world, const char *who, const char *format, ...)
{
    va_list args;
    if (!is_told(world))
        return;
    va_start(args, format);
    tell(world, who, "", format, args);
    va_end(args);
}
