/* contain.h - the ways to hold a command's processes together, so that all can be killed. */
#ifndef TN_RUNNER_CONTAIN_H
#define TN_RUNNER_CONTAIN_H

#include <stddef.h>

#include "tenure/error.h"

enum tn_contain {
    TN_CONTAIN_AUTO,   /* A cgroup where one can be made, else the tree. */
    TN_CONTAIN_CGROUP, /* cgroup.h */
    TN_CONTAIN_PIDNS,  /* pidns.h; only when asked for, because the command sees it. */
    TN_CONTAIN_TREE,   /* tree.h alone: a race, see docs/runner.md. */
};

/* "auto", "cgroup", "pidns", "tree". */
const char *tn_contain_text(enum tn_contain contain);

/* 0, or TENURE_E_INVALID for any other word. */
TENURE_MUST_USE int tn_contain_parse(const char *text, enum tn_contain *ret_contain);

/* Whether it can be had here. Makes one and removes it again; forks.
 * Returns 0 or TENURE_E_UNSUPPORTED with the reason in @ret_why. */
TENURE_MUST_USE int tn_contain_check(enum tn_contain contain, char *ret_why, size_t size);

#endif
