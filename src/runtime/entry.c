/* entry.c - who a candidate is, and whether its numbers are safe; entry.h. */
#define _GNU_SOURCE
#include "runtime/entry.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/duration.h"

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

int tn_entry_plan(const struct tn_plan *plan, struct tn_text *reterr)
{
    struct tn_plan_answer answer;
    char left[TN_DURATION_TEXT], right[TN_DURATION_TEXT];
    enum tn_plan_verdict verdict = tn_plan_judge(plan, &answer);
    bool p1 = verdict == TN_PLAN_BREAKS_P1;

    if (verdict == TN_PLAN_SAFE)
        return 0;
    tn_duration_format(left, sizeof left, p1 ? answer.p1_left : answer.p8_left);
    tn_duration_format(right, sizeof right, p1 ? answer.p1_right : answer.p8_right);
    tn_text_addf(reterr, "%s, by P%d: %s is not at most %s; 'tenure plan' shows the arithmetic",
                 p1 ? "two leaders could overlap" : "one lost renewal would cost the term",
                 p1 ? 1 : 8, left, right);
    return TENURE_E_INVALID;
}
