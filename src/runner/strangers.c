/* strangers.c - the children that belong to no command; strangers.h. */
#include "runner/strangers.h"

static pid_t strangers[TN_STRANGERS_MAX];
static size_t stranger_count;
static bool strangers_known = true; /* Every look was complete, and there was room for all. */

bool tn_strangers_any(void)
{
    return stranger_count > 0;
}

void tn_strangers_add(const pid_t *children, size_t count, bool complete,
                      bool (*is_guardian)(pid_t pid))
{
    strangers_known = strangers_known && complete;
    for (size_t i = 0; i < count; i++) {
        bool known = is_guardian(children[i]);

        for (size_t j = 0; j < stranger_count && !known; j++)
            known = strangers[j] == children[i];
        if (!known && stranger_count < TN_STRANGERS_MAX)
            strangers[stranger_count++] = children[i];
        else if (!known)
            strangers_known = false;
    }
}

void tn_strangers_spare(struct tn_tree_spared *spared, pid_t *pids, uint64_t born)
{
    for (size_t i = 0; i < stranger_count; i++)
        pids[spared->count++] = strangers[i];
    spared->pids = pids;
    spared->born_before = stranger_count > 0 || !strangers_known ? born : 0;
}
