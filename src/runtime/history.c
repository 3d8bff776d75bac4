/* history.c - the bounded history of history.h. */
#define _GNU_SOURCE
#include "runtime/history.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/name.h"
#include "runtime/terms_read.h"
#include "wire/json.h"

/* A line with the longest name and label, each byte escaped. */
enum { LINE_MAX_BYTES = 2 * 6 * TN_NAME_MAX + 400, LINE_VALUES = 40 };

struct history_term {
    struct tn_term term;        /* First. */
    struct tn_list_node ended;  /* In tn_history.ended, once it is. */
    struct history_term *newer; /* Of the same name. */
    struct tn_history_name *name;
    enum tn_term_end why;
    char label[];
};

struct tn_history_name {
    struct tn_dict_node node; /* First. */
    struct history_term *oldest, *newest;
    uint32_t ends;
    char text[];
};

static struct history_term *term_of(struct tn_list_node *node)
{
    return (struct history_term *)((char *)node - offsetof(struct history_term, ended));
}

void tn_history_init(struct tn_history *history, struct tn_hash_key seed, uint32_t per_name,
                     uint32_t most)
{
    *history = (struct tn_history) { .per_name = per_name, .most = most };
    tn_dict_init(&history->names, seed);
    tn_list_init(&history->ended);
}

static void name_free(struct tn_history *history, struct tn_history_name *name)
{
    tn_dict_remove(&history->names, &name->node);
    free(name);
}

/* Drop the oldest term of the name. */
static void term_drop(struct tn_history *history, struct tn_history_name *name)
{
    struct history_term *term = name->oldest;

    if (term->term.end != TN_TERM_OPEN) {
        tn_list_remove(&term->ended);
        name->ends--;
        history->ends--;
    }
    history->count--;
    name->oldest = term->newer;
    if (name->oldest == NULL)
        name->newest = NULL;
    free(term);
}

void tn_history_done(struct tn_history *history)
{
    struct tn_dict_node *next;

    for (struct tn_dict_node *node = tn_dict_next(&history->names, NULL); node != NULL;
         node = next) {
        struct tn_history_name *name = (struct tn_history_name *)node;
        next = tn_dict_next(&history->names, node);
        while (name->oldest != NULL)
            term_drop(history, name);
        free(name);
    }
    tn_dict_done(&history->names);
    free(history->pending);
    history->pending = NULL;
}

static struct tn_history_name *name_find(const struct tn_history *history, const char *name,
                                         size_t len)
{
    return (struct tn_history_name *)tn_dict_find(&history->names, name, len);
}

static struct tn_history_name *name_get(struct tn_history *history, const char *text, size_t len)
{
    struct tn_history_name *name = name_find(history, text, len);

    if (name != NULL)
        return name;
    name = calloc(1, sizeof *name + len);
    if (name == NULL)
        return NULL;
    memcpy(name->text, text, len);
    tn_dict_add(&history->names, &name->node, name->text, len);
    return name;
}

/* The oldest ended ones go, of the name and of all; those that go on stay. */
static void trim(struct tn_history *history, struct tn_history_name *name)
{
    while (name->ends > history->per_name)
        term_drop(history, name);
    while (history->ends > history->most) {
        struct history_term *oldest = term_of(tn_list_first(&history->ended));
        struct tn_history_name *whose = oldest->name;
        term_drop(history, whose);
        if (whose->oldest == NULL)
            name_free(history, whose);
    }
}

/* --- Lines ---------------------------------------------------------------------------------- */

static void line_add(struct tn_text *text, const struct history_term *term)
{
    const struct tn_term *it = &term->term;
    const char *word = tn_term_word(it->end);

    tn_text_add(text, "{\"name\":");
    tn_json_string(text, term->name->text, term->name->node.len);
    tn_text_addf(text, ",\"token\":%" PRIu64 ",\"holder\":", it->token);
    tn_json_string(text, it->label, it->label_len);
    tn_text_addf(text, ",\"ttl_ms\":%" PRId64 ",\"from\":%" PRId64, it->ttl_ms, it->from);
    if (word != NULL)
        tn_text_addf(text, ",\"to\":%" PRId64 ",\"heard\":%" PRId64 ",\"ended\":\"%s\"", it->to,
                     it->heard, word);
    tn_text_add(text, "}\n");
}

static void note_line(struct tn_history *history, const struct history_term *term)
{
    struct tn_text text;

    if (history->pending == NULL)
        history->pending = malloc(TN_HISTORY_PENDING);
    if (history->pending == NULL || TN_HISTORY_PENDING - history->pending_len < LINE_MAX_BYTES) {
        history->whole = true;
        history->pending_len = 0;
        return;
    }
    tn_text_init(&text, history->pending + history->pending_len, LINE_MAX_BYTES);
    line_add(&text, term);
    history->pending_len += text.len;
    history->file_lines++;
}

bool tn_history_is_long(const struct tn_history *history)
{
    return history->file_lines > 1000 + 4 * (uint64_t)history->count;
}

char *tn_history_take(struct tn_history *history, size_t *ret_len)
{
    char *bytes = history->pending;

    *ret_len = history->pending_len;
    if (history->pending_len == 0)
        return NULL;
    history->pending = NULL;
    history->pending_len = 0;
    return bytes;
}

char *tn_history_dump(struct tn_history *history, size_t *ret_len)
{
    size_t size = LINE_MAX_BYTES;
    const struct tn_dict_node *node = NULL;
    struct tn_text text;

    /* Escaped, a byte becomes six at most. */
    while ((node = tn_dict_next(&history->names, node)) != NULL)
        for (const struct history_term *term = ((const struct tn_history_name *)node)->oldest;
             term != NULL; term = term->newer)
            size += 300 + 6 * (node->len + term->term.label_len);
    char *bytes = malloc(size);
    if (bytes == NULL)
        return NULL;
    tn_text_init(&text, bytes, size);
    tn_text_addf(&text, "{\"since\":%" PRId64 "}\n", history->since);
    while ((node = tn_dict_next(&history->names, node)) != NULL)
        for (const struct history_term *term = ((const struct tn_history_name *)node)->oldest;
             term != NULL; term = term->newer)
            line_add(&text, term);
    history->pending_len = 0;
    history->whole = false;
    history->file_lines = history->count;
    *ret_len = text.len;
    return bytes;
}

/* --- Terms ---------------------------------------------------------------------------------- */

static struct history_term *term_add(struct tn_history *history, const char *text, size_t len,
                                     const struct tn_term *term)
{
    bool full = history->count - history->ends >= history->most;
    struct tn_history_name *name = !full ? name_get(history, text, len) : NULL;
    struct history_term *fresh = name != NULL ? calloc(1, sizeof *fresh + term->label_len) : NULL;

    if (fresh == NULL)
        return NULL;
    fresh->term = *term;
    fresh->term.end = TN_TERM_OPEN;
    fresh->term.to = fresh->term.heard = 0;
    fresh->term.label = fresh->label;
    if (term->label_len > 0)
        memcpy(fresh->label, term->label, term->label_len);
    fresh->name = name;
    if (name->newest != NULL)
        name->newest->newer = fresh;
    else
        name->oldest = fresh;
    name->newest = fresh;
    history->count++;
    return fresh;
}

static void term_end(struct tn_history *history, struct history_term *term, enum tn_term_end why,
                     int64_t at, int64_t heard)
{
    term->term.end = why;
    term->term.to = at;
    term->term.heard = heard;
    tn_list_add(&history->ended, &term->ended);
    term->name->ends++;
    history->ends++;
}

/* Whether @term is one that is not on record. Of a store that began anew, tokens are low again. */
static bool is_new(const struct history_term *newest, const struct tn_term *term)
{
    return newest == NULL || term->token > newest->term.token ||
           (newest->term.end != TN_TERM_OPEN && term->from > newest->term.to);
}

void tn_history_began(struct tn_history *history, const char *name, size_t len,
                      const struct tn_term *term)
{
    const struct tn_history_name *known = name_find(history, name, len);
    const struct history_term *newest = known != NULL ? known->newest : NULL;

    if (!is_new(newest, term))
        return;
    if (newest != NULL && newest->term.end == TN_TERM_OPEN)
        tn_history_ended(history, name, len, newest->term.token, TN_TERM_UNKNOWN, term->from, 0);
    struct history_term *fresh = term_add(history, name, len, term);
    if (fresh != NULL)
        note_line(history, fresh);
}

void tn_history_ended(struct tn_history *history, const char *name, size_t len, uint64_t token,
                      enum tn_term_end why, int64_t at, int64_t heard)
{
    struct tn_history_name *known = name_find(history, name, len);
    struct history_term *term = known != NULL ? known->newest : NULL;

    if (term == NULL || term->term.token != token || term->term.end != TN_TERM_OPEN)
        return;
    term_end(history, term, why, at, heard);
    note_line(history, term);
    trim(history, known);
}

void tn_history_ending(struct tn_history *history, const char *name, size_t len,
                       enum tn_term_end why)
{
    struct tn_history_name *known = name_find(history, name, len);

    /* A revocation stays one, however its holder leaves. */
    if (known != NULL && known->newest != NULL && known->newest->why != TN_TERM_REVOKED)
        known->newest->why = why;
}

const struct tn_term *tn_history_current(const struct tn_history *history, const char *name,
                                         size_t len, enum tn_term_end *ret_why)
{
    const struct tn_history_name *known = name_find(history, name, len);

    if (known == NULL || known->newest == NULL || known->newest->term.end != TN_TERM_OPEN)
        return NULL;
    *ret_why = known->newest->why;
    return &known->newest->term;
}

struct tn_term *tn_history_terms(const struct tn_history *history, const char *name, size_t len,
                                 size_t *ret_count)
{
    const struct tn_history_name *known = name_find(history, name, len);
    size_t count = 0;

    *ret_count = 0;
    if (known == NULL)
        return NULL;
    struct tn_term *list = calloc((size_t)known->ends + 1, sizeof *list);
    if (list == NULL)
        return NULL;
    for (const struct history_term *term = known->oldest; term != NULL; term = term->newer)
        list[count++] = term->term;
    *ret_count = count;
    return list;
}

const struct tn_history_name *tn_history_next(const struct tn_history *history,
                                              const struct tn_history_name *name)
{
    return (const struct tn_history_name *)tn_dict_next(&history->names,
                                                        name != NULL ? &name->node : NULL);
}

const char *tn_history_name_text(const struct tn_history_name *name, size_t *ret_len)
{
    *ret_len = name->node.len;
    return name->text;
}

void tn_history_gaps(const struct tn_history *history, int64_t now, int64_t *ret_longest,
                     int64_t *ret_current)
{
    const struct tn_dict_node *node = NULL;
    struct tn_gap gap;

    *ret_longest = *ret_current = 0;
    while ((node = tn_dict_next(&history->names, node)) != NULL) {
        const struct history_term *term = ((const struct tn_history_name *)node)->oldest;
        for (; term != NULL; term = term->newer) {
            const struct tn_term *next = term->newer != NULL ? &term->newer->term : NULL;
            if (!tn_gap_after(&term->term, next, now, &gap) || !gap.counts ||
                (gap.to != 0 && gap.to < now - TN_DAY_MS))
                continue;
            *ret_longest = gap.ms > *ret_longest ? gap.ms : *ret_longest;
            *ret_current = gap.to == 0 && gap.ms > *ret_current ? gap.ms : *ret_current;
        }
    }
}

/* --- Reading -------------------------------------------------------------------------------- */

static void take_line(struct tn_history *history, char *line, size_t len)
{
    struct tn_json_value values[LINE_VALUES];
    char name[TN_NAME_MAX + 1];
    struct tn_term term;

    if (tn_json_read(line, len, values, LINE_VALUES) < 1 || values[0].type != TN_JSON_OBJECT)
        return;
    history->file_lines++;
    if (history->since == 0)
        history->since = tn_instant_read(values, values, "since");
    if (!tn_json_text(values, values, "name", name, sizeof name) ||
        !tn_term_read(values, values, &term))
        return;
    struct tn_history_name *known = name_find(history, name, strlen(name));
    struct history_term *newest = known != NULL ? known->newest : NULL;
    if (is_new(newest, &term)) {
        if (newest != NULL && newest->term.end == TN_TERM_OPEN)
            term_end(history, newest, TN_TERM_UNKNOWN, term.from, 0);
        newest = term_add(history, name, strlen(name), &term);
    } else if (newest->term.token != term.token) {
        return;
    }
    if (newest != NULL && newest->term.end == TN_TERM_OPEN && term.end != TN_TERM_OPEN)
        term_end(history, newest, term.end, term.to, term.heard);
    if (newest != NULL)
        trim(history, newest->name);
}

void tn_history_read(struct tn_history *history, char *bytes, size_t len)
{
    char *end = bytes + len;

    for (char *line = bytes; line < end;) {
        char *stop = memchr(line, '\n', (size_t)(end - line));
        if (stop == NULL)
            break; /* Cut off while it was written. */
        take_line(history, line, (size_t)(stop - line));
        line = stop + 1;
    }
}
