/* handover.c - `tenure handover NAME`: the holder is asked to step down, and another one leads. */
#include <inttypes.h>
#include <string.h>

#include "base/duration.h"
#include "base/time.h"
#include "cli/operate.h"

#define WAIT_MAX TN_SEC(24 * 3600)

static const char about[] = "Asks the holder of NAME to step down: it stops its work while it "
                            "still renews, gives the lease\n"
                            "back, and the next candidate leads, or the one of --to. Follows that "
                            "to its end, and tells how\n"
                            "long nobody led.\n";

static const char after[] =
    "The holder stands back until another one leads. With --to the other candidates leave the line "
    "for\n"
    "that long; if the chosen one does not come, they return after a while.\n"
    "\n"
    "Examples:\n"
    "  tenure handover nightly-report                 nightly-report: handed over from ... to ...\n"
    "  tenure handover nightly-report --to web2-712   to this one\n"
    "  tenure handover nightly-report --wait 2m       it takes long to stop\n"
    "\n"
    "Exit status: 0 handed over, 64 bad usage, 69 store unavailable, 75 not within --wait, nobody\n"
    "else was there, or another hand-over is under way, 77 not permitted, 80 nobody holds it.\n";

/* A label for people or, with quotes, for JSON. */
static const char *label_text(const struct tn_store_record *record, bool json, char *buf,
                              size_t size)
{
    struct tn_text text;

    tn_text_init(&text, buf, size);
    if (json)
        tn_json_string(&text, record->label, record->label_len);
    else
        tn_text_escape(&text, record->label, record->label_len);
    return buf;
}

static void print_already(const struct tn_handover *handover, bool json)
{
    char holder[8 * TN_LABEL_MAX];

    (void)label_text(&handover->from, json, holder, sizeof holder);
    printf(json ? "{\"handed_over\":false,\"name\":\"%s\",\"holder\":%s,\"token\":%" PRIu64 "}\n"
                : "%s: %s leads already, token %" PRIu64 "\n",
           handover->name, holder, handover->from.token);
}

static void print_done(const struct tn_handover *handover, bool json)
{
    char from[8 * TN_LABEL_MAX], next[8 * TN_LABEL_MAX];

    (void)label_text(&handover->from, json, from, sizeof from);
    (void)label_text(&handover->next, json, next, sizeof next);
    if (json)
        printf("{\"handed_over\":true,\"name\":\"%s\",\"from\":%s,\"from_token\":%" PRIu64
               ",\"holder\":%s,\"token\":%" PRIu64 ",\"gap_ms\":%.3f}\n",
               handover->name, from, handover->from.token, next, handover->next.token,
               (double)handover->gap / (double)TN_MS(1));
    else
        printf("%s: handed over from %s, token %" PRIu64 ", to %s, token %" PRIu64
               "; nobody led for %.3f ms\n",
               handover->name, from, handover->from.token, next, handover->next.token,
               (double)handover->gap / (double)TN_MS(1));
}

static int fail_late(const struct tn_handover *handover)
{
    char wait[TN_DURATION_TEXT], holder[TN_CLI_LINE_MAX];
    struct tn_text text;

    tn_text_init(&text, holder, sizeof holder);
    tn_cli_quote(&text, handover->from.label);
    return tn_cli_fail(TN_EXIT_NOT_ACQUIRED, "handover",
                       "%s: nobody else leads after %s; %s, token %" PRIu64
                       ", did not step down or nobody else is there; give it longer with --wait, "
                       "or see 'tenure revoke'",
                       handover->name, tn_cli_duration(wait, handover->wait), holder,
                       handover->from.token);
}

static int fail_other(const struct tn_handover *handover, bool same)
{
    char next[TN_CLI_LINE_MAX];
    struct tn_text text;

    tn_text_init(&text, next, sizeof next);
    tn_cli_quote(&text, handover->next.label);
    if (same)
        return tn_cli_fail(
            TN_EXIT_NOT_ACQUIRED, "handover",
            "%s: %s stepped down and leads again with token %" PRIu64 ": %s was waiting for it",
            handover->name, next, handover->next.token,
            handover->to != NULL ? "the one of --to was not, and nobody else" : "nobody else");
    return tn_cli_fail(TN_EXIT_NOT_ACQUIRED, "handover",
                       "%s: %s leads now, token %" PRIu64
                       ", not the one of --to: is it waiting for this name?",
                       handover->name, next, handover->next.token);
}

static int fail_free(const struct tn_handover *handover)
{
    if (handover->from.held)
        return tn_cli_fail(TN_EXIT_STALE, "handover",
                           "%s: token %" PRIu64 " is not current, %" PRIu64 " is", handover->name,
                           handover->token, handover->from.token);
    return tn_cli_fail(TN_EXIT_STALE, "handover",
                       "%s: nobody holds it, so there is nothing to hand over", handover->name);
}

static int tell_end(const struct tn_handover *handover, enum tn_handover_end end, bool json)
{
    switch (end) {
    case TN_HANDOVER_DONE:
        print_done(handover, json);
        return TN_EXIT_OK;
    case TN_HANDOVER_ALREADY:
        print_already(handover, json);
        return TN_EXIT_OK;
    case TN_HANDOVER_FREE:
        return fail_free(handover);
    case TN_HANDOVER_BUSY:
        return tn_cli_fail(TN_EXIT_NOT_ACQUIRED, "handover",
                           "%s: another operator's wish is in force: '%s'; wait for its end, or "
                           "see 'tenure resume'",
                           handover->name, handover->text);
    case TN_HANDOVER_SAME:
    case TN_HANDOVER_OTHER:
        return fail_other(handover, end == TN_HANDOVER_SAME);
    case TN_HANDOVER_LATE:
        return fail_late(handover);
    case TN_HANDOVER_STOPPED:
        return tn_cli_fail(TN_EXIT_NOT_ACQUIRED, "handover",
                           "%s: stopped; a holder that has begun to step down goes on",
                           handover->name);
    case TN_HANDOVER_FAILED:
        break;
    }
    return tn_cli_store_fail("handover", handover->code, handover->text);
}

int tn_cli_handover(int argc, char **argv)
{
    const char *url = NULL;
    struct tn_handover handover = { .wait = TN_SEC(30) };
    bool json = false;
    struct tn_option options[] = {
        TN_STRING("to", 0, &handover.to, "ID", "the next in line", "the candidate that is to lead"),
        TN_DURATION("wait", 0, &handover.wait, TN_MS(100), WAIT_MAX, "30s",
                    "follow it for this long"),
        TN_U64("token", 't', &handover.token, 1, UINT64_MAX, "TOKEN", "whichever it is",
               "only the term of this token"),
        TN_STORE(&url),
        TN_FLAG("json", 0, &json, "print one JSON object when it is done"),
    };
    struct tn_command command = TN_COMMAND("handover", "NAME", 1, options);
    struct tn_cli_store store;

    int status = tn_cli_options(&command, argc, argv);
    if (status < 0)
        status = tn_cli_name(&command, &handover.name);
    if (status < 0 && handover.to != NULL && handover.to[0] == '\0')
        status =
            tn_cli_fail(TN_EXIT_USAGE, "handover",
                        "--to: an id has 1 to %d bytes; 'tenure run --id' sets it", TN_LABEL_MAX);
    if (status < 0)
        status = tn_cli_store_open("handover", url, false, 0, &store);
    if (status >= 0)
        return status;
    if (store.ask == NULL) {
        status = fail_free(&handover);
    } else {
        tn_cli_catch_signals(&store);
        status = tell_end(&handover, tn_handover_run(&store, &handover), json);
    }
    tn_cli_store_close(&store);
    return status;
}
