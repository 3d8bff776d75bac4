/* web_quiet.c - servers that ask for fewer requests; web.h.
 *
 * What a caller has told by tn_web_slow_down is kept per host, so that another server, or the
 * source of credentials, is asked as ever. A host that answers well again is forgotten. */
#include <stdio.h>
#include <string.h>

#include "base/number.h"
#include "net/web_inside.h"

enum {
    SECOND_MS = 1000,
    DOUBLINGS = 3,    /* Without Retry-After: 1, 2, 4, then 8 s. */
    QUIET_MAX_S = 60, /* Whatever Retry-After says. */
};

static struct tn_web_quiet *find_quiet(struct tn_web *web, const char *where)
{
    for (size_t i = 0; i < TN_WEB_QUIETS; i++)
        if (strcmp(web->quiets[i].where, where) == 0)
            return &web->quiets[i];
    return NULL;
}

void tn_web_slow_down(struct tn_web *web, const struct tn_web_req *req, const char *why)
{
    const char *asked = tn_web_header(req, "Retry-After");
    struct tn_web_quiet *quiet = find_quiet(web, req->work->where);
    uint64_t now = uv_now(web->loop), seconds = 0;

    if (quiet == NULL) { /* In the place of the one that is over first. */
        quiet = &web->quiets[0];
        for (size_t i = 1; i < TN_WEB_QUIETS; i++)
            if (web->quiets[i].until_ms < quiet->until_ms)
                quiet = &web->quiets[i];
        *quiet = (struct tn_web_quiet) { .times = 0 };
        (void)snprintf(quiet->where, sizeof quiet->where, "%s", req->work->where);
    }
    (void)snprintf(quiet->why, sizeof quiet->why, "%s", why);
    quiet->urgent_ms = now;
    if (asked != NULL && tn_u64_parse(asked, &seconds) == 0 && seconds > 0) {
        seconds = seconds < QUIET_MAX_S ? seconds : QUIET_MAX_S;
        quiet->urgent_ms += SECOND_MS;
    } else {
        seconds = UINT64_C(1) << (quiet->times < DOUBLINGS ? quiet->times : DOUBLINGS);
    }
    quiet->times++;
    if (now + seconds * SECOND_MS > quiet->until_ms)
        quiet->until_ms = now + seconds * SECOND_MS;
}

const char *tn_web_hush(struct tn_web *web, const struct tn_web_req *req, const char *where)
{
    const struct tn_web_quiet *quiet = find_quiet(web, where);
    uint64_t until = quiet == NULL ? 0 : req->urgent ? quiet->urgent_ms : quiet->until_ms;

    return uv_now(web->loop) < until ? quiet->why : NULL;
}

void tn_web_end_quiet(struct tn_web *web, const char *where)
{
    struct tn_web_quiet *quiet = find_quiet(web, where);

    if (quiet != NULL && uv_now(web->loop) >= quiet->until_ms)
        *quiet = (struct tn_web_quiet) { .times = 0 };
}
