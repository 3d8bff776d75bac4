/* main.c - `tenure VERB ...`: finds the verb, runs it, and makes sure that its output arrived.
 *
 * What can fail: an unknown verb (one line, exit 64), and an output that could not be written,
 * which a script must not take for success (one line, exit 74). */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "stores/registry.h"

#ifndef TENURE_VERSION
#error "the build defines TENURE_VERSION"
#endif

/* One line per verb; its function is in the file of the same name. */
static const struct verb {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *summary;
} verbs[] = {
#ifndef TN_PLANTS /* A program with bugs planted in it must not lead anything. */
    { "run", tn_cli_run, "run a command while leading; stop it before the deadline" },
    { "elect", tn_cli_elect, "campaign without a command; events as JSON lines" },
    { "status", tn_cli_status, "who leads" },
    { "watch", tn_cli_watch, "who leads, and every change of it" },
    { "list", tn_cli_list, "all names of a store" },
    { "history", tn_cli_history, "who led, and how long nobody did" },
    { "acquire", tn_cli_acquire, "take a lease, for scripts" },
    { "renew", tn_cli_renew, "prolong a lease that acquire took" },
    { "release", tn_cli_release, "give a lease back that acquire took" },
    { "revoke", tn_cli_revoke, "take a lease away from its holder" },
    { "move", tn_cli_move, "carry a running election to another store" },
    { "handover", tn_cli_handover, "ask the holder to step down, and follow it" },
    { "stand-down", tn_cli_stand_down, "maintenance: nobody leads a name, until resume" },
    { "resume", tn_cli_resume, "end a stand-down" },
    { "drain", tn_cli_drain, "a node gives back all that it holds and wins nothing" },
    { "undrain", tn_cli_undrain, "end a drain" },
    { "fence", tn_cli_fence, "the receiver's side: refuse the token of a past leader" },
    { "gate", tn_cli_gate, "an HTTP proxy that refuses a stale token" },
    { "doctor", tn_cli_doctor, "measure a store: round trips, clock, permissions, guarantees" },
    { "plan", tn_cli_plan, "check the five numbers; print both inequalities and the bounds" },
    { "bench", tn_cli_bench, "load a store and report" },
    { "console", tn_cli_console, "a live page for any store: who leads, gaps, revoke" },
    { "sandbox", tn_cli_sandbox, "a page to run, break and tune an election in the browser" },
#endif
    { "sim", tn_cli_sim, "deterministic simulation: seeds, scenarios, planted bugs" },
};

enum { VERB_COUNT = sizeof verbs / sizeof verbs[0] };

static const struct verb *find_verb(const char *name)
{
    for (size_t i = 0; i < VERB_COUNT; i++) {
        if (strcmp(name, verbs[i].name) == 0)
            return &verbs[i];
    }
    return NULL;
}

static int unknown_verb(const char *name)
{
    const char *names[VERB_COUNT + 2] = { "help" };
    char buf[TN_CLI_LINE_MAX];
    struct tn_text text;

    for (size_t i = 0; i < VERB_COUNT; i++)
        names[i + 1] = verbs[i].name;
    tn_text_init(&text, buf, sizeof buf);
    tn_cli_quote(&text, name);
    const char *nearest = tn_nearest(name, names);
    if (nearest != NULL)
        tn_text_addf(&text, " is not a verb; did you mean '%s'?", nearest);
    else
        tn_text_add(&text, " is not a verb; 'tenure --help' lists them");
    return tn_cli_fail(TN_EXIT_USAGE, NULL, "%s", tn_text_str(&text));
}

static int show_help(void)
{
    printf("usage: tenure VERB [OPTION]...\n\n"
           "Gives exactly one process at a time the right to lead.\n\n"
           "Verbs:\n");
    for (size_t i = 0; i < VERB_COUNT; i++)
        printf("  %-10s  %s\n", verbs[i].name, verbs[i].summary);
    printf("\n'tenure help VERB' tells more about one of them.\n"
           "Durations need a unit: 500ms, 15s, 2m, 1h.\n");
    return TN_EXIT_OK;
}

static int show_version(void)
{
    char words[2][1024];
    struct tn_text built, left_out;

    tn_text_init(&built, words[0], sizeof words[0]);
    tn_text_init(&left_out, words[1], sizeof words[1]);
    tn_store_catalogue(&built, &left_out);
    printf("tenure %s\nstores: %s\n", TENURE_VERSION, words[0]);
    if (words[1][0] != '\0')
        printf("left out, with what they need to be built: %s\n", words[1]);
    return TN_EXIT_OK;
}

static bool is_either(const char *arg, const char *one, const char *other)
{
    return strcmp(arg, one) == 0 || strcmp(arg, other) == 0;
}

/* tenure help [VERB] */
static int run_help(int argc, char **argv)
{
    static char option[] = "--help";

    if (argc < 2)
        return show_help();
    if (argc > 2)
        return tn_cli_fail(TN_EXIT_USAGE, "help", "one verb at a time, as in 'tenure help plan'");
    if (is_either(argv[1], "help", "--help") || strcmp(argv[1], "-h") == 0)
        return show_help();
    const struct verb *verb = find_verb(argv[1]);
    if (verb == NULL)
        return unknown_verb(argv[1]);
    return verb->run(2, (char *[]) { argv[1], option, NULL });
}

static int run(int argc, char **argv)
{
    if (argc < 2)
        return tn_cli_fail(TN_EXIT_USAGE, NULL, "a verb is missing; 'tenure --help' lists them");
    if (strcmp(argv[1], "help") == 0)
        return run_help(argc - 1, argv + 1);
    if (is_either(argv[1], "--help", "-h"))
        return show_help();
    if (is_either(argv[1], "--version", "-V"))
        return show_version();
    const struct verb *verb = find_verb(argv[1]);
    if (verb == NULL)
        return unknown_verb(argv[1]);
    /* These two only print: nobody but their reader can hang up on them. */
    if (!is_either(verb->name, "plan", "sim"))
        tn_cli_pipe_ignore();
    return verb->run(argc - 1, argv + 1);
}

/* Started with a standard stream closed, the next file opened would take its place, and what is
 * printed would end up in it. /dev/null fills the gap, opened the wrong way round, so that using
 * the stream is still an error. */
static void fill_standard_streams(void)
{
    for (int fd = 0; fd <= 2; fd++) {
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY) != fd)
            abort();
    }
}

/* A full disk may show only now, when the buffer is written. A reader that is gone ends a verb that
 * has done its work as it ends any other program. */
static int finish(int status)
{
    bool failed = ferror(stdout) != 0;
    int error = tn_cli_lines_close();

    errno = 0;
    if (fclose(stdout) != 0 || failed) {
        if (errno == EPIPE && status == TN_EXIT_OK && tn_cli_pipe_restore())
            (void)raise(SIGPIPE);
    } else if (error == 0) {
        return status;
    }
    error = errno != 0 ? errno : error;
    return tn_cli_fail(status == TN_EXIT_LOST ? status : TN_EXIT_IO, NULL,
                       "the output could not be written: %s",
                       error != 0 ? strerror(error) : "an earlier write failed");
}

int main(int argc, char **argv)
{
    fill_standard_streams();
    int status = finish(run(argc, argv));
    tn_cli_lines_done();
    return status;
}
