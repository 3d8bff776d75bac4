/* output.c - what verbs say: error lines, quoted words, durations to type again, colour. */
#define _GNU_SOURCE
#include "cli/cli.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/duration.h"
#include "base/time.h"

/* Of a foreign word, this much is repeated: enough to recognise it. */
enum { QUOTE_MAX = 80 };

/* At the end, a reader who takes no line for this long is not waited for. */
#define PATIENCE TN_SEC(1)

void tn_cli_quote(struct tn_text *text, const char *word)
{
    char buf[QUOTE_MAX + 1];
    struct tn_text quoted;

    tn_text_init(&quoted, buf, sizeof buf);
    tn_text_escape(&quoted, word, strlen(word));
    tn_text_addf(text, "'%s%s'", buf, tn_text_truncated(&quoted) ? "..." : "");
}

/* NULL: written at once, by the calling thread. */
static struct tn_lines *errors, *output;

static void print_error(const char *line)
{
    if (errors != NULL)
        (void)tn_lines_put(errors, TN_LINE_NOTE, NULL, line);
    else
        (void)fputs(line, stderr);
}

static bool quiet;

void tn_cli_be_quiet(void)
{
    quiet = true;
}

int tn_cli_fail(int status, const char *verb, const char *format, ...)
{
    char line[TN_CLI_LINE_MAX + 1]; /* And the newline. */
    char message[4 * TN_CLI_LINE_MAX];
    struct tn_text text;
    va_list args;

    if (status == TN_EXIT_OK && quiet)
        return status;
    va_start(args, format);
    (void)vsnprintf(message, sizeof message, format, args);
    va_end(args);
    tn_text_init(&text, line, TN_CLI_LINE_MAX);
    tn_text_addf(&text, "tenure%s%s: ", verb != NULL ? " " : "", verb != NULL ? verb : "");
    /* Foreign words were quoted; this is for those that were forgotten. */
    tn_text_add_line(&text, message, strlen(message));
    tn_text_cut(&text);
    memcpy(line + text.len, "\n", 2);
    print_error(line);
    return status;
}

/* --- Lines that never block ------------------------------------------------------------------- */

int tn_cli_lines_open(const char *verb, bool prints)
{
    int rc = tn_lines_open(STDERR_FILENO, &errors);

    if (rc == 0 && prints)
        rc = tn_lines_open(STDOUT_FILENO, &output);
    return rc < 0 ? tn_cli_fail(TN_EXIT_UNAVAILABLE, verb,
                                "the thread for the output could not be started: %s",
                                rc == TENURE_E_NOMEM ? tenure_strerror(rc) : strerror(errno))
                  : -1;
}

bool tn_cli_line(enum tn_line_kind kind, const char *key, const char *text)
{
    return tn_lines_put(output, kind, key, text);
}

int tn_cli_lines_fd(void)
{
    return output != NULL ? tn_lines_fd(output) : -1;
}

bool tn_cli_lines_flush(void)
{
    return output == NULL || tn_lines_flush(output, PATIENCE);
}

bool tn_cli_lines_alive(void)
{
    return output != NULL && tn_lines_error(output) == 0;
}

int tn_cli_lines_close(void)
{
    int error = 0;

    if (output != NULL) {
        (void)tn_lines_flush(output, PATIENCE);
        error = tn_lines_error(output);
        (void)tn_lines_close(output, 0);
    }
    output = NULL;
    return error;
}

void tn_cli_lines_done(void)
{
    (void)tn_lines_close(errors, PATIENCE);
    errors = NULL;
}

/* --- SIGPIPE ---------------------------------------------------------------------------------- */

static struct sigaction pipe_before;
static bool pipe_ignored;

void tn_cli_pipe_ignore(void)
{
    struct sigaction ignore = { .sa_handler = SIG_IGN };

    pipe_ignored = sigaction(SIGPIPE, &ignore, &pipe_before) == 0;
}

bool tn_cli_pipe_restore(void)
{
    if (pipe_ignored)
        (void)sigaction(SIGPIPE, &pipe_before, NULL);
    return pipe_ignored && pipe_before.sa_handler == SIG_DFL;
}

const char *tn_cli_duration(char *buf, tenure_ns ns)
{
    if (ns >= TN_SEC(120) && ns % TN_SEC(3600) == 0)
        (void)snprintf(buf, TN_DURATION_TEXT, "%" PRId64 "h", ns / TN_SEC(3600));
    else if (ns >= TN_SEC(120) && ns % TN_SEC(60) == 0)
        (void)snprintf(buf, TN_DURATION_TEXT, "%" PRId64 "m", ns / TN_SEC(60));
    else
        tn_duration_format(buf, TN_DURATION_TEXT, ns);
    return buf;
}

const char *tn_cli_span(char *buf, tenure_ns ns)
{
    int64_t seconds = ns / TN_SEC(1);

    if (ns < TN_SEC(60))
        tn_duration_format(buf, TN_DURATION_TEXT, ns - ns % TN_MS(ns < TN_SEC(1) ? 1 : 100));
    else if (seconds < 3600)
        (void)snprintf(buf, TN_DURATION_TEXT, "%" PRId64 "m%02" PRId64 "s", seconds / 60,
                       seconds % 60);
    else if (seconds < 48 * 3600)
        (void)snprintf(buf, TN_DURATION_TEXT, "%" PRId64 "h%02" PRId64 "m", seconds / 3600,
                       seconds / 60 % 60);
    else
        (void)snprintf(buf, TN_DURATION_TEXT, "%" PRId64 "d%02" PRId64 "h", seconds / 86400,
                       seconds / 3600 % 24);
    return buf;
}

/* NO_COLOR as https://no-color.org has it: present and not empty. */
static bool wants_colour(void)
{
    const char *no_colour = getenv("NO_COLOR");
    const char *term = getenv("TERM");

    if (no_colour != NULL && no_colour[0] != '\0')
        return false;
    if (term == NULL || strcmp(term, "dumb") == 0)
        return false;
    return isatty(STDOUT_FILENO) == 1;
}

const char *tn_cli_colour(enum tn_colour colour)
{
    static const char *const sequences[TN_COLOUR_COUNT] = {
        [TN_PLAIN] = "\x1b[0m",  [TN_BOLD] = "\x1b[1m", [TN_DIM] = "\x1b[2m",
        [TN_GREEN] = "\x1b[32m", [TN_RED] = "\x1b[31m", [TN_YELLOW] = "\x1b[33m",
    };

    return wants_colour() ? sequences[colour] : "";
}

void tn_cli_exec_beside(const char *const *places, size_t count, char **argv)
{
    char self[4096], path[4200];
    ssize_t len = readlink("/proc/self/exe", self, sizeof self - 1);

    self[len > 0 ? len : 0] = '\0';
    char *slash = strrchr(self, '/');
    if (slash != NULL)
        slash[1] = '\0';
    for (size_t i = 0; slash != NULL && i < count; i++) {
        (void)snprintf(path, sizeof path, "%s%s", self, places[i]);
        if (access(path, X_OK) == 0) {
            (void)tn_cli_pipe_restore();
            (void)execv(path, argv);
            return;
        }
    }
}
