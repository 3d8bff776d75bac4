/* terms.c - gaps, and terms as JSON; terms.h has the contract. */
#define _GNU_SOURCE
#include "runtime/terms.h"

#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "base/name.h"

static const char *const words[TN_TERM_ENDS] = { NULL,      "released", "expired", "gone",
                                                 "revoked", "store",    "unknown" };

const char *tn_term_word(enum tn_term_end end)
{
    return end < TN_TERM_ENDS ? words[end] : NULL;
}

enum tn_term_end tn_term_end_parse(const char *word)
{
    for (int i = 1; i < TN_TERM_ENDS; i++)
        if (strcmp(words[i], word) == 0)
            return (enum tn_term_end)i;
    return TN_TERM_OPEN;
}

int64_t tn_wall_ms(void)
{
    struct timespec now = { 0 };

    (void)clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static const char *name_cause(const struct tn_term *term, const struct tn_term *next, int64_t ms)
{
    switch (term->end) {
    case TN_TERM_RELEASED:
        return next != NULL && ms <= TN_READY_MS ? "hand-over" : "nobody ready";
    case TN_TERM_EXPIRED:
    case TN_TERM_GONE:
        return "crash";
    case TN_TERM_REVOKED:
        return "revoked";
    case TN_TERM_STORE:
        return "store gone";
    case TN_TERM_OPEN:
    case TN_TERM_UNKNOWN:
    case TN_TERM_ENDS:
        break;
    }
    return "unknown";
}

bool tn_gap_after(const struct tn_term *term, const struct tn_term *next, int64_t now,
                  struct tn_gap *ret_gap)
{
    bool silent = term->end == TN_TERM_EXPIRED || term->end == TN_TERM_STORE;
    int64_t from = silent && term->heard > 0 ? term->heard : term->to;
    int64_t end = next != NULL ? next->from : now;

    /* What was never seen to end is taken to have lasted until the next began. */
    if (term->end == TN_TERM_OPEN || from == 0 || end <= from)
        return false;
    *ret_gap = (struct tn_gap) { .from = from,
                                 .to = next != NULL ? end : 0,
                                 .ms = end - from,
                                 .cause = name_cause(term, next, end - from),
                                 .counts = next != NULL || term->end != TN_TERM_RELEASED,
                                 .after = term };
    return true;
}

bool tn_gap_longest(const struct tn_term *terms, size_t count, int64_t now, bool alert,
                    struct tn_gap *ret_gap)
{
    bool found = false;
    struct tn_gap gap;

    for (size_t i = 0; i < count; i++) {
        if (!tn_gap_after(&terms[i], i + 1 < count ? &terms[i + 1] : NULL, now, &gap))
            continue;
        if ((gap.to != 0 && gap.to < now - TN_DAY_MS) || (alert && !gap.counts))
            continue;
        if (!found || gap.ms > ret_gap->ms)
            *ret_gap = gap;
        found = true;
    }
    return found;
}

/* --- JSON ----------------------------------------------------------------------------------- */

size_t tn_terms_room(size_t count)
{
    return 512 + (size_t)6 * TN_NAME_MAX + count * (512 + (size_t)6 * TN_NAME_MAX);
}

static void add_instant(struct tn_text *text, const char *key, int64_t ms)
{
    if (ms != 0)
        tn_text_addf(text, ",\"%s\":%" PRId64, key, ms);
    else
        tn_text_addf(text, ",\"%s\":null", key);
}

static void add_term(struct tn_text *text, const struct tn_term *term)
{
    tn_text_addf(text, "{\"token\":%" PRIu64 ",\"holder\":", term->token);
    tn_json_string(text, term->label, term->label_len);
    tn_text_addf(text, ",\"ttl_ms\":%" PRId64, term->ttl_ms);
    add_instant(text, "from", term->from);
    add_instant(text, "to", term->to);
    if (term->heard != 0)
        add_instant(text, "heard", term->heard);
    if (term->end != TN_TERM_OPEN)
        tn_text_addf(text, ",\"ended\":\"%s\"}", tn_term_word(term->end));
    else
        tn_text_add(text, ",\"ended\":null}");
}

static void add_gap(struct tn_text *text, const struct tn_gap *gap)
{
    tn_text_addf(text, "{\"after\":%" PRIu64 ",\"ms\":%" PRId64 ",\"cause\":\"%s\"",
                 gap->after->token, gap->ms, gap->cause);
    add_instant(text, "from", gap->from);
    add_instant(text, "to", gap->to);
    tn_text_add(text, "}");
}

void tn_terms_json(struct tn_text *text, const char *name, size_t name_len,
                   const struct tn_term *terms, size_t count, int64_t since, int64_t now)
{
    const char *comma = "";
    struct tn_gap gap;

    tn_text_add(text, "{\"name\":");
    tn_json_string(text, name, name_len);
    add_instant(text, "since", since);
    add_instant(text, "now", now);
    tn_text_add(text, ",\"terms\":[");
    for (size_t i = 0; i < count; i++) {
        tn_text_add(text, i > 0 ? "," : "");
        add_term(text, &terms[i]);
    }
    tn_text_add(text, "],\"gaps\":[");
    for (size_t i = 0; i < count; i++) {
        if (!tn_gap_after(&terms[i], i + 1 < count ? &terms[i + 1] : NULL, now, &gap))
            continue;
        tn_text_add(text, comma);
        add_gap(text, &gap);
        comma = ",";
    }
    tn_text_add(text, "],\"longest_gap\":");
    if (tn_gap_longest(terms, count, now, false, &gap))
        add_gap(text, &gap);
    else
        tn_text_add(text, "null");
    tn_text_add(text, "}");
}
