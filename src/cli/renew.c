/* renew.c - `tenure renew NAME`: prolongs a lease that `acquire` took. */
#include "cli/store.h"

static const char about[] =
    "Prolongs a lease that 'tenure acquire' took: its TTL begins anew. The token stays.\n";

static const char after[] =
    "Example:\n"
    "  lease=$(tenure acquire nightly-report --ttl 1m) || exit\n"
    "  eval \"$lease\" || exit; export TENURE_SECRET\n"
    "  tenure renew nightly-report --token \"$TENURE_TOKEN\"      every 20s, say\n"
    "\n"
    "Exit status: 0 renewed, 64 bad usage, 69 store unavailable, 77 wrong secret,\n"
    "80 expired or superseded: stop the work.\n";

int tn_cli_renew(int argc, char **argv)
{
    static const struct tn_cli_word word = { "renew",     about,        after,
                                             TN_OP_RENEW, TN_ANSWER_OK, "renewed" };

    return tn_cli_say(&word, argc, argv);
}
