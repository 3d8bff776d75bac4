/* release.c - `tenure release NAME`: gives a lease back that `acquire` took. */
#include "cli/store.h"

static const char about[] = "Gives a lease back that 'tenure acquire' took. The next one "
                            "gets it at once.\nSaid again, it succeeds again.\n";

static const char after[] =
    "Example:\n"
    "  lease=$(tenure acquire nightly-report) || exit\n"
    "  eval \"$lease\" || exit; export TENURE_SECRET\n"
    "  ./report.sh\n"
    "  tenure release nightly-report --token \"$TENURE_TOKEN\"\n"
    "\n"
    "Exit status: 0 released, 64 bad usage, 69 store unavailable, 77 wrong secret,\n"
    "80 expired or superseded.\n";

int tn_cli_release(int argc, char **argv)
{
    static const struct tn_cli_word word = { "release",          about,     after, TN_OP_RELEASE,
                                             TN_ANSWER_RELEASED, "released" };

    return tn_cli_say(&word, argc, argv);
}
