/* cxx.cpp - the public headers from C++; tests/tools/installed.sh compiles, links and runs it. */
#include "tenure/error.h"
#include "tenure/fence.h"
#include "tenure/fence_file.h"
#include "tenure/fence_sqlite.h"
#include "tenure/tenure.h"
#include "tenure/time.h"

static void hear(struct tenure_election *election, const struct tenure_event *event, void *arg)
{
    (void)election;
    if (event->kind == TENURE_WON)
        *static_cast<uint64_t *>(arg) = event->token;
}

int main()
{
    tenure_campaign_options campaign = {};
    struct tenure_options options = {};
    struct tenure_fence fence = {};
    struct tenure_election *election = nullptr;
    struct tenure *tenure = nullptr;
    uint64_t won = 0;

    options.size = sizeof options;
    options.flags = TENURE_OWN_LOOP;
    campaign.size = sizeof campaign;
    campaign.callback = hear;
    campaign.arg = &won;
    if (tenure_open("memory:cxx", &options, &tenure, nullptr) != 0 ||
        tenure_campaign(tenure, "job", &campaign, &election) != 0)
        return 1;
    while (tenure_token(election) == 0 || won == 0)
        if (tenure_dispatch(tenure) < 0)
            return 2;
    if (tenure_fence_admit(&fence, won) != 0 || tenure_fence_highest(&fence) != won)
        return 3;
    return tenure_close(tenure) == 0 ? 0 : 4;
}
