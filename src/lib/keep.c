/* keep.c - a session that outlives its process: what an agent (src/daemon/agent.c) needs to go on
 * after it was started again. runtime/ledger.h has the file. */
#include <stdio.h>
#include <string.h>

#include "lib/private.h"

int tn_lib_keep(struct tenure *tenure, const char *path, const char *url,
                struct tenure_error *reterr)
{
    char buf[TENURE_ERROR_TEXT] = "";
    struct tn_text text;

    tn_text_init(&text, buf, sizeof buf);
    if (!tn_lib_alive(tenure) || tenure->driver.store == NULL)
        return tn_lib_fail(TENURE_E_CLOSED, "", reterr);
    if ((tenure->driver.store->ops->caps & TN_STORE_RESUMES) == 0)
        return tn_lib_fail(0, "", reterr);
    int rc = tn_ledger_open(&tenure->ledger, path, tenure->driver.clock.domain, url, &text);
    if (rc == 0) {
        tenure->keeps = true;
        tn_driver_lock(&tenure->driver);
        tn_driver_keep(&tenure->driver, &tenure->ledger);
        tn_driver_unlock(&tenure->driver);
    }
    tn_text_cut(&text);
    return tn_lib_fail(rc, buf, reterr);
}

bool tn_lib_resumed(const struct tenure *tenure)
{
    return tenure->keeps && tenure->ledger.resumed;
}

bool tn_lib_past(const struct tenure *tenure, uint32_t index, const char **ret_name,
                 uint64_t *ret_token)
{
    if (index >= tenure->ledger.past_count)
        return false;
    *ret_name = tenure->ledger.past[index].name;
    *ret_token = tenure->ledger.past[index].token;
    return true;
}

int tn_lib_resume(struct tenure *tenure, uint32_t index, uint64_t token,
                  const struct tenure_campaign *campaign, struct tenure_election **ret_election,
                  struct tenure_error *reterr)
{
    tenure->past = &tenure->ledger.past[index];
    tenure->past_token = token;
    int rc = tenure_campaign_start(tenure, tenure->past->name, campaign, ret_election, reterr);
    tenure->past = NULL;
    return rc;
}
