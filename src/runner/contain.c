/* contain.c - the names of the containments, and whether one can be had. */
#include "runner/contain.h"

#include <string.h>

#include "base/assert.h"
#include "runner/cgroup.h"
#include "runner/pidns.h"

static const char *const names[] = {
    [TN_CONTAIN_AUTO] = "auto",
    [TN_CONTAIN_CGROUP] = "cgroup",
    [TN_CONTAIN_PIDNS] = "pidns",
    [TN_CONTAIN_TREE] = "tree",
};

const char *tn_contain_text(enum tn_contain contain)
{
    TN_ASSERT(contain <= TN_CONTAIN_TREE);
    return names[contain];
}

int tn_contain_parse(const char *text, enum tn_contain *ret_contain)
{
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(text, names[i]) == 0) {
            *ret_contain = (enum tn_contain)i;
            return 0;
        }
    }
    return TENURE_E_INVALID;
}

int tn_contain_check(enum tn_contain contain, char *ret_why, size_t size)
{
    struct tn_cgroup group = TN_CGROUP_INIT;
    int rc = 0;

    if (contain == TN_CONTAIN_PIDNS)
        return tn_pidns_check(ret_why, size);
    if (contain == TN_CONTAIN_CGROUP)
        rc = tn_cgroup_make(&group, TN_CGROUP_NONE, ret_why, size);
    (void)tn_cgroup_remove(&group);
    tn_cgroup_close(&group);
    return rc;
}
