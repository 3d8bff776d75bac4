/* cli.h - the frame that all verbs of `tenure` share: exit codes, error lines, options, colour.
 *
 * A verb is one function in one file: int tn_cli_NAME(int argc, char **argv), with argv[0] its own
 * name and the exit status as its result. It describes its options in a table and lets
 * tn_cli_options do the rest:
 *
 *     int tn_cli_greet(int argc, char **argv)
 *     {
 *         bool loud = false;
 *         uint64_t times = 1;
 *         const char *whom = "world";
 *         struct tn_option options[] = {
 *             TN_FLAG("loud", 'l', &loud, "shout"),
 *             TN_U64("times", 0, &times, 1, 100, "COUNT", "1", "how often"),
 *             TN_STRING("whom", 'w', &whom, "NAME", "world", "who is greeted"),
 *         };
 *         struct tn_command command = { .verb = "greet", .words = "[WORD]", .words_max = 1,
 *                                       .about = "Greets.\n", .options = options,
 *                                       .option_count = sizeof options / sizeof options[0] };
 *         int status = tn_cli_options(&command, argc, argv);
 *         if (status >= 0)
 *             return status;
 *         ...
 *
 * Bad input is one line on stderr and nothing on stdout, so check everything before printing.
 * Threads: the main thread only. */
#ifndef TN_CLI_CLI_H
#define TN_CLI_CLI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/nearest.h"
#include "base/text.h"
#include "runtime/lines.h"
#include "tenure/time.h"

/* What scripts rely on; where sysexits.h has a fitting number, it is that one. */
enum tn_exit {
    TN_EXIT_OK = 0,
    TN_EXIT_UNSAFE = 1,        /* A check was made, and what was checked is not safe. */
    TN_EXIT_USAGE = 64,        /* Bad input; nothing was changed. */
    TN_EXIT_UNAVAILABLE = 69,  /* The store cannot be reached or does not work. */
    TN_EXIT_IO = 74,           /* The output could not be written. */
    TN_EXIT_NOT_ACQUIRED = 75, /* Held by another for the whole wait. */
    TN_EXIT_DENIED = 77,       /* Not permitted. */
    TN_EXIT_LOST = 79,         /* Leadership was lost. */
    TN_EXIT_STALE = 80,        /* The token is not the current one. */
};

/* An error is one line of at most this many characters, whatever the input was. */
enum { TN_CLI_LINE_MAX = 500 };

enum tn_option_kind {
    TN_OPTION_FLAG,
    TN_OPTION_DURATION,
    TN_OPTION_U64,
    TN_OPTION_PPM,
    TN_OPTION_STRING,
    TN_OPTION_CHOICE,
};

/* One option. Write it with the macros below, which let the compiler check the target's type. */
struct tn_option {
    const char *name; /* Without the dashes. */
    char letter;      /* The short form, or 0. */
    enum tn_option_kind kind;
    union {
        bool *flag;
        tenure_ns *duration;
        uint64_t *u64;
        uint32_t *ppm;
        const char **string; /* Borrowed from argv. */
        int *choice;         /* Index into @choices. */
    } target;
    uint64_t least, most;       /* Of a duration (in nanoseconds) or a number, both included. */
    const char *const *choices; /* NULL-terminated. */
    const char *placeholder;    /* What stands for the value in the help: "DURATION". */
    const char *fallback;       /* The default as the help tells it; NULL: there is none. */
    const char *help;
    bool given; /* Out: whether the option was there. */
};

#define TN_FLAG(name_, letter_, target_, help_)                                                 \
    {                                                                                           \
        .name = (name_), .letter = (letter_), .kind = TN_OPTION_FLAG, .target.flag = (target_), \
        .placeholder = NULL, .help = (help_),                                                   \
    }
#define TN_DURATION(name_, letter_, target_, least_, most_, fallback_, help_)                 \
    {                                                                                         \
        .name = (name_), .letter = (letter_), .kind = TN_OPTION_DURATION,                     \
        .target.duration = (target_), .least = (uint64_t)(least_), .most = (uint64_t)(most_), \
        .placeholder = "DURATION", .fallback = (fallback_), .help = (help_),                  \
    }
#define TN_U64(name_, letter_, target_, least_, most_, placeholder_, fallback_, help_)        \
    {                                                                                         \
        .name = (name_), .letter = (letter_), .kind = TN_OPTION_U64, .target.u64 = (target_), \
        .least = (least_), .most = (most_), .placeholder = (placeholder_),                    \
        .fallback = (fallback_), .help = (help_),                                             \
    }
#define TN_RATE(name_, letter_, target_, fallback_, help_)                                    \
    {                                                                                         \
        .name = (name_), .letter = (letter_), .kind = TN_OPTION_PPM, .target.ppm = (target_), \
        .placeholder = "RATE", .fallback = (fallback_), .help = (help_),                      \
    }
#define TN_STRING(name_, letter_, target_, placeholder_, fallback_, help_)                  \
    {                                                                                       \
        .name = (name_), .letter = (letter_), .kind = TN_OPTION_STRING,                     \
        .target.string = (target_), .placeholder = (placeholder_), .fallback = (fallback_), \
        .help = (help_),                                                                    \
    }
#define TN_CHOICE(name_, letter_, target_, choices_, placeholder_, fallback_, help_)      \
    {                                                                                     \
        .name = (name_), .letter = (letter_), .kind = TN_OPTION_CHOICE,                   \
        .target.choice = (target_), .choices = (choices_), .placeholder = (placeholder_), \
        .fallback = (fallback_), .help = (help_),                                         \
    }

/* What a verb accepts, and what it got besides options. */
struct tn_command {
    const char *verb;
    const char *words; /* The words after the options, for the usage line: "NAME"; or NULL. */
    const char *about; /* What it does; ends in a newline. */
    const char *after; /* Examples and exit status, after the options; ends in a newline. */
    size_t words_max;  /* More words than this are an error. */
    struct tn_option *options;
    size_t option_count;

    /* Out: the words in argv's own array, and how many of them stood before a "--". */
    char **rest;
    size_t rest_count;
    size_t rest_before;
};

/* A verb's own: its file has @about and @after, and @options_ is an array. */
#define TN_COMMAND(verb_, words_, words_max_, options_)                                \
    {                                                                                  \
        .verb = (verb_), .words = (words_), .words_max = (words_max_), .about = about, \
        .after = after, .options = (options_),                                         \
        .option_count = sizeof(options_) / sizeof(options_)[0]                         \
    }

enum tn_options_result { TN_OPTIONS_OK, TN_OPTIONS_HELP, TN_OPTIONS_BAD };

/* Read argv[1] and on into the targets and into @command's outputs; words are moved to the front
 * of argv. Stops at --help. When bad, @reterr says why, and some targets may have been set. */
enum tn_options_result tn_options_parse(struct tn_command *command, int argc, char **argv,
                                        struct tn_text *reterr);

void tn_options_help(const struct tn_command *command, FILE *out);

/* Parse; print the help or the error. Returns -1 to go on, or the exit status to end with. */
int tn_cli_options(struct tn_command *command, int argc, char **argv);

/* Print "tenure VERB: ..." as one escaped line on stderr; NULL for no verb. Returns @status: 0 says
 * that this is a note or a warning, which ends nothing. */
int tn_cli_fail(int status, const char *verb, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* From here on notes and warnings are not printed. */
void tn_cli_be_quiet(void);

/* From here on, what this verb says is written by threads of their own, so that a reader who does
 * not read holds up nothing: stderr and, with @prints, the lines of tn_cli_line. Returns -1 to go
 * on, or the exit status. */
int tn_cli_lines_open(const char *verb, bool prints);

/* A line for stdout, @text ending in a newline; runtime/lines.h says which lines may be dropped
 * when nobody reads. False: a line could not be written, and no further one will be. */
bool tn_cli_line(enum tn_line_kind kind, const char *key, const char *text);

/* Readable once a line could not be written; -1: there are none. */
int tn_cli_lines_fd(void);

/* Whether all lines are written, after having waited for a reader who still reads; and whether,
 * for all that is known, there is a reader. */
bool tn_cli_lines_flush(void);
bool tn_cli_lines_alive(void);

/* Write what is left, as far as somebody reads it. Returns 0, or the errno of a line for stdout
 * that could not be written. */
int tn_cli_lines_close(void);
/* And those for stderr, which come last. */
void tn_cli_lines_done(void);

/* A peer that hangs up must not end the process: SIGPIPE is ignored; and given back, as it was, to
 * a program that takes this one's place. Whether it was at its default. */
void tn_cli_pipe_ignore(void);
bool tn_cli_pipe_restore(void);

/* Add a foreign word in quotes, escaped and shortened, so that the advice after it still fits. */
void tn_cli_quote(struct tn_text *text, const char *word);

/* A duration that can be typed again: whole hours or minutes from 2m on, otherwise as
 * tn_duration_format, which is exact down to a millisecond. @buf holds TN_DURATION_TEXT bytes. */
const char *tn_cli_duration(char *buf, tenure_ns ns);

/* A duration rounded down for people: "250ms", "13.2s", "4m05s", "22h59m", "3d04h". */
const char *tn_cli_span(char *buf, tenure_ns ns);

enum tn_colour { TN_PLAIN, TN_BOLD, TN_DIM, TN_GREEN, TN_RED, TN_YELLOW, TN_COLOUR_COUNT };

/* The sequence that turns to @colour; empty unless stdout is a terminal that wants colours. */
const char *tn_cli_colour(enum tn_colour colour);

/* Become the first of the programs @places, paths from this program's folder, that is there.
 * Returns when there is none. */
void tn_cli_exec_beside(const char *const *places, size_t count, char **argv);

/* The verbs: one prototype here, one line in main.c's table. */
int tn_cli_acquire(int argc, char **argv);
int tn_cli_bench(int argc, char **argv);
int tn_cli_console(int argc, char **argv);
int tn_cli_doctor(int argc, char **argv);
int tn_cli_elect(int argc, char **argv);
int tn_cli_fence(int argc, char **argv);
int tn_cli_gate(int argc, char **argv);
int tn_cli_history(int argc, char **argv);
int tn_cli_list(int argc, char **argv);
int tn_cli_move(int argc, char **argv);
int tn_cli_plan(int argc, char **argv);
int tn_cli_release(int argc, char **argv);
int tn_cli_renew(int argc, char **argv);
int tn_cli_revoke(int argc, char **argv);
int tn_cli_handover(int argc, char **argv);
int tn_cli_stand_down(int argc, char **argv);
int tn_cli_resume(int argc, char **argv);
int tn_cli_drain(int argc, char **argv);
int tn_cli_undrain(int argc, char **argv);
int tn_cli_sandbox(int argc, char **argv);
int tn_cli_sim(int argc, char **argv);
int tn_cli_run(int argc, char **argv);
int tn_cli_status(int argc, char **argv);
int tn_cli_watch(int argc, char **argv);

#endif
