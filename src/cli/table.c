/* table.c - leases as columns, and which names were asked for; table.h has the contract. */
#include "cli/table.h"

#include <inttypes.h>
#include <string.h>

#include "base/duration.h"
#include "base/time.h"

/* --- Selecting ------------------------------------------------------------------------------ */

static int fail_word(const char *verb, const char *word, const char *what, const char *reason)
{
    char buf[TN_CLI_LINE_MAX];
    struct tn_text text;

    tn_text_init(&text, buf, sizeof buf);
    tn_cli_quote(&text, word);
    return tn_cli_fail(TN_EXIT_USAGE, verb, "%s is not %s: %s", buf, what, reason);
}

/* A pattern without its star is the beginning of the names it covers. */
int tn_selection_read(const char *verb, const char *word, struct tn_selection *ret_selection)
{
    static const char why[] = "a star stands alone or for all that is below a name, as in 'jobs/*'";
    const char *reason = why;
    size_t len = strlen(word);
    const char *star = strchr(word, '*');

    if (star != NULL && (star[1] != '\0' || (len > 1 && star[-1] != '/')))
        return fail_word(verb, word, "a pattern", why);
    if (star != NULL && !tn_pattern_check(word, &reason))
        return fail_word(verb, word, "a pattern", reason);
    if (star == NULL && tn_name_check(word, len, &reason) < 0)
        return fail_word(verb, word, "a name", reason);
    ret_selection->exact = star == NULL;
    (void)snprintf(ret_selection->prefix, sizeof ret_selection->prefix, "%.*s",
                   (int)(star == NULL ? len : len - 1), word);
    return -1;
}

static bool selects(const struct tn_selection *selection, const char *name)
{
    return selection->exact ? strcmp(name, selection->prefix) == 0
                            : strncmp(name, selection->prefix, strlen(selection->prefix)) == 0;
}

size_t tn_selection_filter(const struct tn_selection *selection, struct tn_store_lease *leases,
                           size_t count)
{
    size_t kept = 0;

    for (size_t i = 0; i < count; i++)
        if (selects(selection, leases[i].name))
            leases[kept++] = leases[i];
    return kept;
}

/* --- Columns -------------------------------------------------------------------------------- */

enum { NAME, STATE, HOLDER, TOKEN, SINCE, LEFT, COLUMNS };

/* One line. Each cell has room for a label with each byte escaped, and is ASCII. */
struct row {
    char cells[COLUMNS][4 * TN_NAME_MAX + 5];
};

static void fill_row(struct row *row, const struct tn_store_lease *lease)
{
    const struct tn_store_record *record = &lease->record;
    struct tn_text label;
    char left[TN_DURATION_TEXT] = "-";

    tn_text_init(&label, row->cells[HOLDER], sizeof row->cells[HOLDER]);
    if (record->held)
        tn_text_escape(&label, record->label, record->label_len);
    if (label.len == 0)
        tn_text_add(&label, record->held ? "''" : "-");
    if (record->held && record->ttl > 0) /* Not every store tells it to others. */
        (void)tn_cli_span(left, record->remaining);
    (void)snprintf(row->cells[NAME], sizeof row->cells[NAME], "%s", lease->name);
    (void)snprintf(row->cells[STATE], sizeof row->cells[STATE], "%s", tn_cli_state(record));
    (void)snprintf(row->cells[TOKEN], sizeof row->cells[TOKEN], "%" PRIu64, record->token);
    (void)tn_cli_instant(row->cells[SINCE], record->held ? lease->since : 0);
    (void)snprintf(row->cells[LEFT], sizeof row->cells[LEFT], "%s", left);
}

static void print_row(FILE *out, const struct row *row, const size_t widths[COLUMNS])
{
    for (int i = 0; i < COLUMNS; i++) {
        const char *cell = row->cells[i];
        int pad = i + 1 < COLUMNS ? (int)(widths[i] - strlen(cell)) + 2 : 0;
        (void)fprintf(out, "%s%*s", cell, pad, "");
    }
    (void)fprintf(out, "\n");
}

void tn_columns_print(FILE *out, const struct tn_store_lease *leases, size_t count)
{
    struct row row = { { "NAME", "STATE", "HOLDER", "TOKEN", "SINCE", "LEFT" } };
    const struct row head = row;
    size_t widths[COLUMNS];

    for (int i = 0; i < COLUMNS; i++)
        widths[i] = strlen(head.cells[i]);
    for (size_t i = 0; i < count; i++) {
        fill_row(&row, &leases[i]);
        for (int j = 0; j < COLUMNS; j++)
            widths[j] = strlen(row.cells[j]) > widths[j] ? strlen(row.cells[j]) : widths[j];
    }
    if (count > 0)
        print_row(out, &head, widths);
    for (size_t i = 0; i < count; i++) {
        fill_row(&row, &leases[i]);
        print_row(out, &row, widths);
    }
}
