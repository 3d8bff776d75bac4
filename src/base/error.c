/* error.c - texts and outcome classes, straight from the table in tenure/error.h. */
#include "tenure/error.h"

enum outcome { FAILED, UNKNOWN };

const char *tenure_strerror(int err)
{
    switch (err) {
    case 0:
        return "no error";
#define CASE_TEXT(name, value, outcome, text) \
    case TENURE_E_##name:                     \
        return text;
        TENURE_ERRORS(CASE_TEXT)
#undef CASE_TEXT
    default:
        return "unknown error";
    }
}

bool tenure_error_unknown(int err)
{
    switch (err) {
#define CASE_OUTCOME(name, value, outcome, text) \
    case TENURE_E_##name:                        \
        return outcome == UNKNOWN;
        TENURE_ERRORS(CASE_OUTCOME)
#undef CASE_OUTCOME
    default:
        return err < 0;
    }
}
