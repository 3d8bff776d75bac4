/* acts.c - reads and judges what the commands of several candidates did; acts.h has the rules. */
#include "tests/runner/acts.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

bool acts_read(const char *file, struct acts *ret_acts)
{
    struct stat st = { .st_size = 0 };
    size_t len = 0;
    int fd = open(file, O_RDONLY | O_CLOEXEC);

    *ret_acts = (struct acts) { NULL, 0 };
    if (fd < 0)
        return true;
    if (fstat(fd, &st) == 0 && st.st_size > 0)
        ret_acts->list = malloc((size_t)st.st_size);
    while (ret_acts->list != NULL && len < (size_t)st.st_size) {
        ssize_t got = read(fd, (char *)ret_acts->list + len, (size_t)st.st_size - len);
        if (got <= 0)
            break;
        len += (size_t)got;
    }
    (void)close(fd);
    ret_acts->count = len / sizeof *ret_acts->list;
    return len == (size_t)st.st_size && len % sizeof *ret_acts->list == 0;
}

void acts_free(struct acts *acts)
{
    free(acts->list);
    *acts = (struct acts) { NULL, 0 };
}

bool acts_last(const char *file, struct act *ret_act)
{
    struct stat st;
    bool found = false;
    int fd = open(file, O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        return false;
    if (fstat(fd, &st) == 0 && st.st_size >= (off_t)sizeof *ret_act) {
        off_t from = st.st_size / (off_t)sizeof *ret_act * (off_t)sizeof *ret_act;
        found = pread(fd, ret_act, sizeof *ret_act, from - (off_t)sizeof *ret_act) ==
                (ssize_t)sizeof *ret_act;
    }
    (void)close(fd);
    return found;
}

/* The token of the term in which @candidate was at @from; 0: in none. */
static uint64_t token_at(const struct acts *acts, uint32_t candidate, tenure_ns from)
{
    uint64_t token = 0;

    for (size_t i = 0; i < acts->count; i++) {
        const struct act *act = &acts->list[i];
        if (act->candidate == candidate && act->at <= from && act->token > token)
            token = act->token;
    }
    return token;
}

tenure_ns acts_overrun(const struct acts *acts, const struct acts_bound *bound)
{
    uint64_t token = token_at(acts, bound->candidate, bound->from);
    tenure_ns overrun = INT64_MIN;

    for (size_t i = 0; token != 0 && i < acts->count; i++) {
        const struct act *act = &acts->list[i];
        if (act->token == token && (overrun == INT64_MIN || act->at - bound->by > overrun))
            overrun = act->at - bound->by;
    }
    return overrun;
}

size_t acts_terms(const struct acts *acts)
{
    size_t terms = 0;
    uint64_t highest = 0;

    for (size_t i = 0; i < acts->count; i++) {
        if (acts->list[i].token > highest) {
            highest = acts->list[i].token;
            terms++;
        }
    }
    return terms;
}

/* Two acts next to each other in the file: the later one must not belong to an earlier term, nor to
 * the same term of somebody else, nor tell an earlier time if it begins a new one. */
static bool check_order(const struct acts *acts, char *ret_why, size_t size)
{
    uint64_t token = 0;
    uint32_t candidate = 0;
    tenure_ns last = 0;

    for (size_t i = 0; i < acts->count; i++) {
        const struct act *act = &acts->list[i];
        const char *wrong = NULL;

        if (act->token == 0)
            wrong = "acts without a token";
        else if (act->token < token)
            wrong = "acts although a higher token has acted";
        else if (act->token == token && act->candidate != candidate)
            wrong = "acts with the token of another candidate";
        else if (act->token > token && act->at <= last)
            wrong = "acts before the term before it was over";
        if (wrong != NULL) {
            (void)snprintf(ret_why, size,
                           "act %zu: candidate %u, pid %" PRId64 ", token %" PRIu64 " at %" PRId64
                           " us %s: candidate %u, token %" PRIu64 ", until %" PRId64 " us",
                           i, act->candidate, act->pid, act->token, act->at / 1000, wrong,
                           candidate, token, last / 1000);
            return false;
        }
        token = act->token;
        candidate = act->candidate;
        last = act->at > last ? act->at : last;
    }
    return true;
}

bool acts_check(const struct acts *acts, const struct acts_bound *bounds, size_t count,
                char *ret_why, size_t size)
{
    if (!check_order(acts, ret_why, size))
        return false;
    for (size_t i = 0; i < count; i++) {
        tenure_ns overrun = acts_overrun(acts, &bounds[i]);
        if (overrun > 0) {
            (void)snprintf(ret_why, size,
                           "candidate %u, token %" PRIu64 " acted %" PRId64
                           " us after it had to be silent: %s",
                           bounds[i].candidate, token_at(acts, bounds[i].candidate, bounds[i].from),
                           overrun / 1000, bounds[i].why);
            return false;
        }
    }
    return true;
}
