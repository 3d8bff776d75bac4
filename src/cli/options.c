/* options.c - the option parser of all verbs, and the help that is made from the same table.
 *
 * Accepted: --name VALUE, --name=VALUE, -n VALUE, -nVALUE, flags without a value, words in between;
 * after "--" all are words. An option is given at most once: of two contradicting ones, each choice
 * would surprise somebody. A value that begins with "--" has to be joined by "=", because it is far
 * more often an option whose predecessor lacks its value.
 *
 * What can fail is the input; then there is one message that says what was wrong and what to do. */
#include "cli/cli.h"

#include <inttypes.h>
#include <string.h>

#include "base/assert.h"
#include "base/duration.h"
#include "base/number.h"

enum { OPTIONS_MAX = 64 };

static const char duration_examples[] = "5s, 500ms, 2m or 1h";

static size_t digits(const char *text)
{
    return strspn(text, "0123456789");
}

/* "--ttl: 'VALUE'", the beginning of every complaint about a value. */
static void blame(struct tn_text *reterr, const struct tn_option *option, const char *value)
{
    tn_text_addf(reterr, "--%s: ", option->name);
    tn_cli_quote(reterr, value);
}

static bool is_unit(const char *text)
{
    return strcmp(text, "ms") == 0 || (strchr("smh", text[0]) != NULL && text[1] == '\0');
}

/* What a refused duration lacks, judged by its shape. */
static void blame_duration(struct tn_text *reterr, const struct tn_option *option,
                           const char *value)
{
    char most[TN_DURATION_TEXT];
    const char *unit = value + digits(value);
    bool number = unit > value;
    bool decimals = *unit == '.';

    if (decimals) {
        number = number && digits(unit + 1) > 0;
        unit += 1 + digits(unit + 1);
    }
    blame(reterr, option, value);
    if (value[0] == '-' && digits(value + 1) > 0)
        tn_text_addf(reterr, " is negative; write %s", duration_examples);
    else if (number && *unit == '\0')
        tn_text_addf(reterr, " has no unit; write %s", duration_examples);
    else if (!number || !is_unit(unit))
        tn_text_addf(reterr, " is not a duration; write a number and a unit: %s",
                     duration_examples);
    else if (decimals && digits(value) < 10)
        tn_text_add(reterr, " is finer than a nanosecond; write fewer decimals");
    else
        tn_text_addf(reterr, " is too long; give at most %s",
                     tn_cli_duration(most, (tenure_ns)option->most));
}

static bool read_duration(struct tn_option *option, const char *value, struct tn_text *reterr)
{
    char limit[TN_DURATION_TEXT];
    tenure_ns ns;

    if (tn_duration_parse(value, &ns) < 0) {
        blame_duration(reterr, option, value);
        return false;
    }
    if ((uint64_t)ns >= option->least && (uint64_t)ns <= option->most) {
        *option->target.duration = ns;
        return true;
    }
    blame(reterr, option, value);
    if ((uint64_t)ns > option->most)
        tn_text_addf(reterr, " is too long; give at most %s",
                     tn_cli_duration(limit, (tenure_ns)option->most));
    else if (option->least == 1)
        tn_text_add(reterr, " is too short; give more than zero");
    else
        tn_text_addf(reterr, " is too short; give at least %s",
                     tn_cli_duration(limit, (tenure_ns)option->least));
    return false;
}

static bool read_u64(struct tn_option *option, const char *value, struct tn_text *reterr)
{
    /* A number that does not fit is larger than any limit, the largest of all included. */
    bool plain = value[0] != '0' && value[digits(value)] == '\0';
    uint64_t number = UINT64_MAX;
    bool fits = tn_u64_parse(value, &number) == 0;

    if (!fits && !plain) {
        blame(reterr, option, value);
        tn_text_add(reterr, " is not a whole number; write digits only");
        return false;
    }
    if (!fits || number < option->least || number > option->most) {
        bool small = fits && number < option->least;
        blame(reterr, option, value);
        tn_text_addf(reterr, " is too %s; give at %s %" PRIu64, small ? "small" : "large",
                     small ? "least" : "most", small ? option->least : option->most);
        return false;
    }
    *option->target.u64 = number;
    return true;
}

static bool read_ppm(struct tn_option *option, const char *value, struct tn_text *reterr)
{
    if (tn_ppm_parse(value, option->target.ppm) == 0)
        return true;
    blame(reterr, option, value);
    tn_text_add(reterr, " is not a rate; write a number from 0 up to but not including 1, with a "
                        "point and at most six decimals, such as 0.1");
    return false;
}

static bool read_choice(struct tn_option *option, const char *value, struct tn_text *reterr)
{
    for (int i = 0; option->choices[i] != NULL; i++) {
        if (strcmp(value, option->choices[i]) == 0) {
            *option->target.choice = i;
            return true;
        }
    }
    blame(reterr, option, value);
    tn_text_add(reterr, " is none of");
    for (size_t i = 0; option->choices[i] != NULL; i++)
        tn_text_addf(reterr, "%s %s", i > 0 ? "," : "", option->choices[i]);
    return false;
}

static bool read_value(struct tn_option *option, const char *value, struct tn_text *reterr)
{
    if (value[0] == '\0') {
        tn_text_addf(reterr, "--%s: the value is empty; give a %s", option->name,
                     option->placeholder);
        return false;
    }
    switch (option->kind) {
    case TN_OPTION_DURATION:
        return read_duration(option, value, reterr);
    case TN_OPTION_U64:
        return read_u64(option, value, reterr);
    case TN_OPTION_PPM:
        return read_ppm(option, value, reterr);
    case TN_OPTION_CHOICE:
        return read_choice(option, value, reterr);
    case TN_OPTION_STRING:
    case TN_OPTION_FLAG:
    default:
        TN_ASSERT(option->kind == TN_OPTION_STRING);
        *option->target.string = value;
        return true;
    }
}

/* The option that @arg names, and the value joined to it, if any. */
static struct tn_option *find(const struct tn_command *command, const char *arg,
                              const char **ret_joined)
{
    bool is_long = arg[1] == '-';
    size_t len = strcspn(arg + 2, "=");

    *ret_joined = NULL;
    for (size_t i = 0; i < command->option_count; i++) {
        struct tn_option *option = &command->options[i];

        if (is_long && strlen(option->name) == len && memcmp(option->name, arg + 2, len) == 0) {
            if (arg[2 + len] == '=')
                *ret_joined = arg + 2 + len + 1;
            return option;
        }
        if (!is_long && option->letter != 0 && option->letter == arg[1]) {
            if (arg[2] != '\0')
                *ret_joined = arg + 2;
            return option;
        }
    }
    return NULL;
}

static void blame_unknown(const struct tn_command *command, const char *arg, struct tn_text *reterr)
{
    const char *names[OPTIONS_MAX + 2] = { 0 };
    char name[32] = "";
    const char *nearest = NULL;

    TN_ASSERT(command->option_count <= OPTIONS_MAX);
    for (size_t i = 0; i < command->option_count; i++)
        names[i] = command->options[i].name;
    names[command->option_count] = "help";
    /* One dash too few is a common slip, so "-ttl" is compared like "--ttl". */
    arg += arg[1] == '-' ? 1 : 0;
    size_t len = strcspn(arg + 1, "=");
    if (len > 1 && len < sizeof name) {
        memcpy(name, arg + 1, len);
        nearest = tn_nearest(name, names);
    }
    if (nearest != NULL)
        tn_text_addf(reterr, "; did you mean --%s?", nearest);
    else
        tn_text_addf(reterr, "; 'tenure help %s' lists the options", command->verb);
}

static bool is_help(const char *arg)
{
    return strcmp(arg, "--help") == 0 || strcmp(arg, "-h") == 0;
}

/* A value that could stand behind the option. */
static const char *example(const struct tn_option *option)
{
    if (option->kind == TN_OPTION_DURATION)
        return "5s";
    return option->kind == TN_OPTION_PPM ? "0.1" : option->placeholder;
}

/* Reads the option at argv[*at] and moves *@at to the last word it used. */
static bool read_option(struct tn_command *command, char **argv, int *at, struct tn_text *reterr)
{
    const char *joined;
    const char *next = argv[*at + 1];
    struct tn_option *option = find(command, argv[*at], &joined);

    if (option == NULL) {
        tn_text_add(reterr, "unknown option ");
        tn_cli_quote(reterr, argv[*at]);
        blame_unknown(command, argv[*at], reterr);
        return false;
    }
    if (option->given) {
        tn_text_addf(reterr, "--%s is there twice; give it once", option->name);
        return false;
    }
    option->given = true;
    if (option->kind == TN_OPTION_FLAG) {
        if (joined != NULL)
            tn_text_addf(reterr, "--%s takes no value; write just --%s", option->name,
                         option->name);
        *option->target.flag = true;
        return joined == NULL;
    }
    if (joined != NULL)
        return read_value(option, joined, reterr);
    if (next == NULL || strncmp(next, "--", 2) == 0) {
        tn_text_addf(reterr, "--%s lacks its value; write --%s %s", option->name, option->name,
                     example(option));
        return false;
    }
    ++*at;
    return read_value(option, next, reterr);
}

enum tn_options_result tn_options_parse(struct tn_command *command, int argc, char **argv,
                                        struct tn_text *reterr)
{
    bool ended = false;
    size_t count = 0;

    TN_ASSERT(argc > 0);
    TN_ASSERT(argv[argc] == NULL);
    command->rest = argv + 1;
    command->rest_before = 0;
    for (int at = 1; at < argc; at++) {
        char *arg = argv[at];

        if (!ended && strcmp(arg, "--") == 0) {
            ended = true;
        } else if (!ended && is_help(arg)) {
            return TN_OPTIONS_HELP;
        } else if (!ended && arg[0] == '-' && arg[1] != '\0') {
            if (!read_option(command, argv, &at, reterr))
                return TN_OPTIONS_BAD;
        } else if (count == command->words_max) {
            tn_cli_quote(reterr, arg);
            tn_text_addf(reterr, " is one word too many; 'tenure help %s' shows the usage",
                         command->verb);
            return TN_OPTIONS_BAD;
        } else {
            command->rest[count++] = arg;
            command->rest_before += !ended;
        }
    }
    command->rest[count] = NULL;
    command->rest_count = count;
    return TN_OPTIONS_OK;
}

/* "-s, --store URL", the left column of the help. */
static int left_column(const struct tn_option *option, char *buf, size_t size)
{
    char letter[8] = "    ";

    if (option->letter != 0)
        (void)snprintf(letter, sizeof letter, "-%c, ", option->letter);
    return snprintf(buf, size, "%s--%s%s%s", letter, option->name,
                    option->placeholder != NULL ? " " : "",
                    option->placeholder != NULL ? option->placeholder : "");
}

void tn_options_help(const struct tn_command *command, FILE *out)
{
    static const struct tn_option help = { .name = "help", .letter = 'h', .help = "show this" };
    char left[64];
    int width = 0;

    for (size_t i = 0; i < command->option_count; i++) {
        int len = left_column(&command->options[i], left, sizeof left);
        width = len > width ? len : width;
    }
    fprintf(out, "usage: tenure %s [OPTION]...%s%s\n\n%s\nOptions:\n", command->verb,
            command->words != NULL ? " " : "", command->words != NULL ? command->words : "",
            command->about);
    for (size_t i = 0; i <= command->option_count; i++) {
        const struct tn_option *option = i < command->option_count ? &command->options[i] : &help;

        left_column(option, left, sizeof left);
        fprintf(out, "  %-*s  %s", width, left, option->help);
        for (size_t j = 0; option->choices != NULL && option->choices[j] != NULL; j++)
            fprintf(out, "%s%s", j == 0 ? ": " : ", ", option->choices[j]);
        if (option->fallback != NULL)
            fprintf(out, " [%s]", option->fallback);
        fprintf(out, "\n");
    }
    if (command->after != NULL)
        fprintf(out, "\n%s", command->after);
}

int tn_cli_options(struct tn_command *command, int argc, char **argv)
{
    char buf[TN_CLI_LINE_MAX];
    struct tn_text error;

    tn_text_init(&error, buf, sizeof buf);
    switch (tn_options_parse(command, argc, argv, &error)) {
    case TN_OPTIONS_OK:
        return -1;
    case TN_OPTIONS_HELP:
        tn_options_help(command, stdout);
        return TN_EXIT_OK;
    case TN_OPTIONS_BAD:
    default:
        return tn_cli_fail(TN_EXIT_USAGE, command->verb, "%s", tn_text_str(&error));
    }
}
