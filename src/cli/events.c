/* events.c - an event as a line of JSON. */
#include "cli/events.h"

#include <inttypes.h>
#include <string.h>

#include "base/assert.h"
#include "base/text.h"
#include "base/time.h"
#include "cli/cli.h"
#include "runtime/clock.h"
#include "runtime/terms.h"

/* The words that scripts rely on; NULL: not for them. */
static const char *event_word(enum tenure_event_kind kind)
{
    switch (kind) {
    case TENURE_WON:
        return "won";
    case TENURE_JEOPARDY:
        return "jeopardy";
    case TENURE_SAFE:
        return "safe";
    case TENURE_LOST:
        return "lost";
    case TENURE_LEADER:
        return "leader";
    case TENURE_VACANT:
        return "vacant";
    case TENURE_STOP:
    case TENURE_REFUSED:
    case TENURE_RENEWED:
    case TENURE_HEALTH:
        break;
    }
    return NULL;
}

/* An instant of CLOCK_BOOTTIME by the wall clock, for people: in ms since 1970. */
static int64_t wall_of(tenure_ns boot)
{
    return tn_wall_ms() - (tn_boottime() - boot) / TN_MS(1);
}

bool tn_cli_event_print(const char *name, const char *label, const struct tenure_event *event,
                        uint32_t slot)
{
    const char *word = event_word(event->kind);
    const char *holder = event->kind == TENURE_LEADER ? event->leader : label;
    char line[4096];
    struct tn_text text;

    if (word == NULL)
        return true;
    tn_text_init(&text, line, sizeof line);
    tn_text_addf(&text, "{\"event\":\"%s\",\"name\":", word);
    tn_json_string(&text, name, strlen(name));
    tn_text_add(&text, ",\"holder\":");
    if (event->kind == TENURE_VACANT)
        tn_text_add(&text, "null");
    else
        tn_json_string(&text, holder, strlen(holder));
    tn_text_addf(&text, ",\"token\":%" PRIu64 ",\"reason\":", event->token);
    if (event->kind == TENURE_LOST)
        tn_text_addf(&text, "\"%s\"", tenure_reason_text(event->reason));
    else
        tn_text_add(&text, "null");
    if (event->kind == TENURE_WON && slot > 0)
        tn_text_addf(&text, ",\"slot\":%" PRIu32, slot);
    if (event->kind == TENURE_LOST && event->proven > 0)
        tn_text_addf(&text, ",\"proven_ms\":%" PRId64, wall_of(event->proven));
    tn_text_add(&text, "}\n");
    TN_ASSERT(!tn_text_truncated(&text));
    enum tn_line_kind kind = event->kind == TENURE_WON    ? TN_LINE_BEGIN
                             : event->kind == TENURE_LOST ? TN_LINE_END
                                                          : TN_LINE_NOTE;
    return tn_cli_line(kind, name, line);
}

void tn_cli_refused_print(const char *verb, const char *name, const struct tenure_event *event,
                          const char *then)
{
    (void)tn_cli_fail(0, verb, "%s: refused to lead with token %" PRIu64 ": %s%s%s%s", name,
                      event->token, tenure_reason_text(event->reason),
                      event->detail[0] != '\0' ? ": " : "", event->detail, then);
}
