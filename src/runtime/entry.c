/* entry.c - who a candidate is, and whether its numbers are safe; entry.h. */
#define _GNU_SOURCE
#include "runtime/entry.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/duration.h"
#include "base/time.h"

int tn_entry_label(const char *id, char ret_label[TN_LABEL_MAX + 1], struct tn_text *reterr)
{
    char host[128] = "";

    if (id != NULL && (id[0] == '\0' || strlen(id) > TN_LABEL_MAX)) {
        tn_text_addf(reterr, "an id has 1 to %d bytes", TN_LABEL_MAX);
        return TENURE_E_INVALID;
    }
    if (id == NULL && (gethostname(host, sizeof host - 1) != 0 || host[0] == '\0'))
        (void)snprintf(host, sizeof host, "host");
    if (id != NULL)
        (void)snprintf(ret_label, TN_LABEL_MAX + 1, "%s", id);
    else
        (void)snprintf(ret_label, TN_LABEL_MAX + 1, "%s-%ld", host, (long)getpid());
    return 0;
}

/* The nearest value that works, rounded to the safe side if that works as well. */
static bool mended(const struct tn_plan *plan, enum tn_plan_knob knob, int64_t step,
                   int64_t *ret_value)
{
    struct tn_plan better = *plan;
    struct tn_plan_answer answer;
    int64_t value;

    if (!tn_plan_mend(plan, knob, &value))
        return false;
    int64_t rounded = (knob == TN_KNOB_TTL ? value + step - 1 : value) / step * step;
    if (rounded > 0 && !(knob == TN_KNOB_TTL && rounded > TN_TTL_MAX)) {
        tn_plan_turn(&better, knob, rounded);
        if (tn_plan_judge(&better, &answer) == TN_PLAN_SAFE)
            value = rounded;
    }
    *ret_value = value;
    return value > 0;
}

/* What would work, each alone: the remedy comes before the reason. */
static void add_remedies(const struct tn_plan *plan, struct tn_text *text)
{
    char span[TN_DURATION_TEXT];
    const char *link = "; what works: ";
    int64_t value;

    if (mended(plan, TN_KNOB_TTL, TN_MS(100), &value)) {
        tn_duration_format(span, sizeof span, value);
        tn_text_addf(text, "%sa TTL of %s", link, span);
        link = ", or ";
    }
    if (mended(plan, TN_KNOB_GRACE, TN_MS(100), &value)) {
        tn_duration_format(span, sizeof span, value);
        tn_text_addf(text, "%sa grace of %s", link, span);
        link = ", or ";
    }
    if (mended(plan, TN_KNOB_RHO, TN_PPM / 1000, &value))
        tn_text_addf(text, "%sa rho of %g", link, (double)value / TN_PPM);
}

int tn_entry_plan(const struct tn_plan *plan, struct tn_text *reterr)
{
    struct tn_plan_answer answer;
    char left[TN_DURATION_TEXT], right[TN_DURATION_TEXT], kept[TN_DURATION_TEXT];
    enum tn_plan_verdict verdict = tn_plan_judge(plan, &answer);
    bool p1 = verdict == TN_PLAN_BREAKS_P1;

    if (tn_plan_asked(plan) > TN_TTL_MAX) {
        tn_duration_format(left, sizeof left, tn_plan_asked(plan));
        tn_text_addf(reterr,
                     "with this TTL and hold-off the store would keep a lost lease for %s, and "
                     "stores take 24h at most; make one of them shorter",
                     left);
        return TENURE_E_INVALID;
    }
    if (verdict == TN_PLAN_SAFE)
        return 0;
    tn_duration_format(left, sizeof left, p1 ? answer.p1_left : answer.p8_left);
    tn_duration_format(right, sizeof right, p1 ? answer.p1_right : answer.p8_right);
    tn_text_add(reterr, p1 ? "two leaders could overlap" : "one lost renewal would cost the term");
    if (p1 && plan->delay_most > 0 && tn_plan_asked(plan) > plan->delay_most) {
        tn_duration_format(kept, sizeof kept, plan->delay_most);
        tn_text_addf(reterr, ", as this store keeps a lost lease back for %s at most", kept);
    }
    add_remedies(plan, reterr);
    tn_text_addf(reterr, " (P%d: %s is not at most %s; 'tenure plan' shows the arithmetic)",
                 p1 ? 1 : 8, left, right);
    return TENURE_E_INVALID;
}

int tn_entry_soft(const struct tn_plan *plan, tenure_ns soft, struct tn_text *reterr)
{
    char least[TN_DURATION_TEXT], ttl[TN_DURATION_TEXT];
    tenure_ns from = (tn_plan_soft_least(plan) + TN_MS(100) - 1) / TN_MS(100) * TN_MS(100);

    if (plan->hold_off > 0) {
        tn_text_add(reterr, "a soft limit lets the next one lead early, and a hold-off late; leave "
                            "one of them out");
        return TENURE_E_INVALID;
    }
    if (soft >= tn_plan_soft_least(plan) && soft < plan->ttl)
        return 0;
    tn_duration_format(least, sizeof least, from);
    tn_duration_format(ttl, sizeof ttl, plan->ttl);
    if (from >= plan->ttl)
        tn_text_addf(reterr,
                     "no soft limit fits below the TTL of %s: one lost renewal may take %s; give a "
                     "longer TTL or a smaller rho",
                     ttl, least);
    else
        tn_text_addf(reterr,
                     "the soft limit is from %s, which one lost renewal may take, to less than the "
                     "TTL of %s",
                     least, ttl);
    return TENURE_E_INVALID;
}
