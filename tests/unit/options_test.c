/* options_test.c - the option parser: what it accepts, and what it says about everything else. */
#include "tests/harness/test.h"

#include <string.h>

#include "base/time.h"
#include "cli/cli.h"

/* One option of each kind, and room for what is parsed. */
struct fixture {
    bool loud;
    tenure_ns ttl;
    uint64_t seeds;
    uint32_t rho_ppm;
    const char *store;
    int colour;
    struct tn_option options[6];
    struct tn_command command;
    char *argv[16];
    char error[TN_CLI_LINE_MAX];
};

static const char *const colours[] = { "auto", "always", "never", NULL };

static void setup(struct fixture *f)
{
    const struct tn_option options[] = {
        TN_FLAG("loud", 'l', &f->loud, "shout"),
        TN_DURATION("ttl", 0, &f->ttl, TN_SEC(1), TN_SEC(24 * 3600), "15s", "how long"),
        TN_U64("seeds", 'n', &f->seeds, 1, 1000, "COUNT", "10", "how many"),
        TN_RATE("rho", 0, &f->rho_ppm, "0.1", "how wrong"),
        TN_STRING("store", 's', &f->store, "URL", NULL, "where"),
        TN_CHOICE("colour", 0, &f->colour, colours, "WHEN", "auto", "when"),
    };

    *f = (struct fixture) { .colour = -1 };
    memcpy(f->options, options, sizeof options);
    f->command = (struct tn_command) { .verb = "test",
                                       .words = "[NAME]",
                                       .about = "Tests.\n",
                                       .after = "The end.\n",
                                       .words_max = 2,
                                       .options = f->options,
                                       .option_count = 6 };
}

/* Parses @line, split at blanks; '_' stands for an empty word. */
static enum tn_options_result parse(struct fixture *f, const char *line)
{
    static char words[1024];
    static char empty[] = "";
    struct tn_text error;
    int argc = 0;

    setup(f);
    CHECK(strlen(line) < sizeof words);
    memcpy(words, line, strlen(line) + 1);
    char *at = words;
    f->argv[argc++] = empty;
    while (*at != '\0') {
        char *end = at + strcspn(at, " ");
        f->argv[argc++] = strncmp(at, "_", (size_t)(end - at)) == 0 ? empty : at;
        at = *end == ' ' ? end + 1 : end;
        *end = '\0';
    }
    tn_text_init(&error, f->error, sizeof f->error);
    return tn_options_parse(&f->command, argc, f->argv, &error);
}

TEST(every_kind_is_read_in_both_spellings)
{
    static const char *const lines[] = {
        "--loud --ttl 5s --seeds 7 --rho 0.25 --store x: --colour never",
        "--ttl=5s --seeds=7 --rho=0.25 --store=x: --colour=never --loud",
        "-l -n 7 -s x: --ttl 5s --rho 0.25 --colour=never",
        "-n7 -sx: -l --ttl 5s --rho 0.25 --colour=never",
    };
    struct fixture f;

    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        CHECK_EQ_I64(parse(&f, lines[i]), TN_OPTIONS_OK);
        CHECK(f.loud);
        CHECK_EQ_I64(f.ttl, TN_SEC(5));
        CHECK_EQ_U64(f.seeds, 7);
        CHECK_EQ_U64(f.rho_ppm, 250000);
        CHECK_STR(f.store, "x:");
        CHECK_EQ_I64(f.colour, 2);
        CHECK_EQ_U64(f.command.rest_count, 0);
        CHECK_STR(f.error, "");
        for (size_t j = 0; j < 6; j++)
            CHECK(f.options[j].given);
    }
}

TEST(what_is_not_given_stays)
{
    struct fixture f;

    CHECK_EQ_I64(parse(&f, ""), TN_OPTIONS_OK);
    CHECK(!f.loud);
    CHECK_EQ_I64(f.colour, -1);
    CHECK_STR(f.store, NULL);
    CHECK(!f.options[1].given);
}

TEST(limits_are_included)
{
    struct fixture f;

    CHECK_EQ_I64(parse(&f, "--ttl 1s --seeds 1"), TN_OPTIONS_OK);
    CHECK_EQ_I64(parse(&f, "--ttl 24h --seeds 1000"), TN_OPTIONS_OK);
}

TEST(words_are_gathered_around_options)
{
    struct fixture f;

    CHECK_EQ_I64(parse(&f, "a --loud b"), TN_OPTIONS_OK);
    CHECK_EQ_U64(f.command.rest_count, 2);
    CHECK_EQ_U64(f.command.rest_before, 2);
    CHECK_STR(f.command.rest[0], "a");
    CHECK_STR(f.command.rest[1], "b");
    CHECK_STR(f.command.rest[2], NULL);
    CHECK(f.loud);

    /* Behind "--" nothing is an option; a lone dash never is. */
    CHECK_EQ_I64(parse(&f, "- -- --loud"), TN_OPTIONS_OK);
    CHECK_EQ_U64(f.command.rest_count, 2);
    CHECK_EQ_U64(f.command.rest_before, 1);
    CHECK_STR(f.command.rest[0], "-");
    CHECK_STR(f.command.rest[1], "--loud");
    CHECK(!f.loud);
    CHECK_EQ_I64(parse(&f, "-- --help"), TN_OPTIONS_OK);
    CHECK_EQ_I64(parse(&f, "-- --"), TN_OPTIONS_OK);
    CHECK_STR(f.command.rest[0], "--");
}

TEST(help_stops_the_reading)
{
    struct fixture f;

    CHECK_EQ_I64(parse(&f, "--help --bogus"), TN_OPTIONS_HELP);
    CHECK_EQ_I64(parse(&f, "--loud -h"), TN_OPTIONS_HELP);
    CHECK_EQ_I64(parse(&f, "--bogus --help"), TN_OPTIONS_BAD);
}

TEST(bad_input_is_told_what_to_do)
{
    static const struct {
        const char *line;
        const char *error;
    } bad[] = {
        { "--ttl 5", "--ttl: '5' has no unit; write 5s, 500ms, 2m or 1h" },
        { "--ttl 1.5", "--ttl: '1.5' has no unit; write 5s, 500ms, 2m or 1h" },
        { "--ttl -3s", "--ttl: '-3s' is negative; write 5s, 500ms, 2m or 1h" },
        { "--ttl soon",
          "--ttl: 'soon' is not a duration; write a number and a unit: 5s, 500ms, 2m or 1h" },
        { "--ttl 5sm",
          "--ttl: '5sm' is not a duration; write a number and a unit: 5s, 500ms, 2m or 1h" },
        { "--ttl 1.s",
          "--ttl: '1.s' is not a duration; write a number and a unit: 5s, 500ms, 2m or 1h" },
        { "--ttl 25h", "--ttl: '25h' is too long; give at most 24h" },
        { "--ttl 99999999999999999999h",
          "--ttl: '99999999999999999999h' is too long; give at most 24h" },
        { "--ttl 9999999999999999999.5ms",
          "--ttl: '9999999999999999999.5ms' is too long; give at most 24h" },
        { "--ttl 0.9999s", "--ttl: '0.9999s' is too short; give at least 1s" },
        { "--ttl 1.0000000001s",
          "--ttl: '1.0000000001s' is finer than a nanosecond; write fewer decimals" },
        { "--ttl=", "--ttl: the value is empty; give a DURATION" },
        { "--store _", "--store: the value is empty; give a URL" },
        { "--ttl", "--ttl lacks its value; write --ttl 5s" },
        { "--rho", "--rho lacks its value; write --rho 0.1" },
        { "--store", "--store lacks its value; write --store URL" },
        { "-s --loud", "--store lacks its value; write --store URL" },
        { "--ttl 5s --ttl 5s", "--ttl is there twice; give it once" },
        { "--ttl 5s --ttl=6s", "--ttl is there twice; give it once" },
        { "-l --loud", "--loud is there twice; give it once" },
        { "--loud=yes", "--loud takes no value; write just --loud" },
        { "-lx", "--loud takes no value; write just --loud" },
        { "--seeds 0", "--seeds: '0' is too small; give at least 1" },
        { "--seeds 1001", "--seeds: '1001' is too large; give at most 1000" },
        { "--seeds 99999999999999999999",
          "--seeds: '99999999999999999999' is too large; give at most 1000" },
        { "--seeds 1e3", "--seeds: '1e3' is not a whole number; write digits only" },
        { "--seeds -1", "--seeds: '-1' is not a whole number; write digits only" },
        { "--seeds 007", "--seeds: '007' is not a whole number; write digits only" },
        { "--rho 2", "--rho: '2' is not a rate; write a number from 0 up to but not including 1, "
                     "with a point and at most six decimals, such as 0.1" },
        { "--colour red", "--colour: 'red' is none of auto, always, never" },
        { "--tll 5s", "unknown option '--tll'; did you mean --ttl?" },
        { "--tll=5s", "unknown option '--tll=5s'; did you mean --ttl?" },
        { "-ttl 5s", "unknown option '-ttl'; did you mean --ttl?" },
        { "--hlep", "unknown option '--hlep'; did you mean --help?" },
        { "--see 5", "unknown option '--see'; did you mean --seeds?" },
        { "--frobnicate", "unknown option '--frobnicate'; 'tenure help test' lists the options" },
        { "-x", "unknown option '-x'; 'tenure help test' lists the options" },
        { "--=5", "unknown option '--=5'; 'tenure help test' lists the options" },
        { "a b c", "'c' is one word too many; 'tenure help test' shows the usage" },
        { "--\033[31m", "unknown option '--\\x1b[31m'; 'tenure help test' lists the options" },
        { "a b \n", "'\\n' is one word too many; 'tenure help test' shows the usage" },
    };
    struct fixture f;

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        CHECK_EQ_I64(parse(&f, bad[i].line), TN_OPTIONS_BAD);
        CHECK_STR(f.error, bad[i].error);
    }
}

TEST(a_long_word_does_not_push_the_advice_out)
{
    struct fixture f;
    char line[900] = "--ttl ";

    memset(line + 6, 7, sizeof line - 7);
    CHECK_EQ_I64(parse(&f, line), TN_OPTIONS_BAD);
    CHECK(strstr(f.error, "...' is not a duration; write") != NULL);
    CHECK(strlen(f.error) < 200);
    memset(line, '-', 2);
    memset(line + 2, 'x', sizeof line - 3);
    CHECK_EQ_I64(parse(&f, line), TN_OPTIONS_BAD);
    CHECK(strstr(f.error, "lists the options") != NULL);
}

TEST(help_shows_every_option)
{
    struct fixture f;
    char text[2048] = "";
    FILE *out = tmpfile();

    CHECK(out != NULL);
    setup(&f);
    tn_options_help(&f.command, out);
    rewind(out);
    text[fread(text, 1, sizeof text - 1, out)] = '\0';
    fclose(out);
    CHECK_STR(text, "usage: tenure test [OPTION]... [NAME]\n"
                    "\n"
                    "Tests.\n"
                    "\n"
                    "Options:\n"
                    "  -l, --loud          shout\n"
                    "      --ttl DURATION  how long [15s]\n"
                    "  -n, --seeds COUNT   how many [10]\n"
                    "      --rho RATE      how wrong [0.1]\n"
                    "  -s, --store URL     where\n"
                    "      --colour WHEN   when: auto, always, never [auto]\n"
                    "  -h, --help          show this\n"
                    "\n"
                    "The end.\n");
}

TEST(nearest_word)
{
    static const char *const words[] = { "plan", "sim", "status", "run", NULL };
    static const char *const far[] = { "a_word_longer_than_any_verb_can_be", NULL };

    CHECK_STR(tn_nearest("plna", words), "plan");
    CHECK_STR(tn_nearest("pan", words), "plan");
    CHECK_STR(tn_nearest("plans", words), "plan");
    CHECK_STR(tn_nearest("stat", words), "status");
    CHECK_STR(tn_nearest("sin", words), "sim");
    CHECK_STR(tn_nearest("xyz", words), NULL);
    CHECK_STR(tn_nearest("", words), NULL);
    CHECK_STR(tn_nearest("a_word_longer_than_any_verb_can_be", words), NULL);
    CHECK_STR(tn_nearest("a", far), NULL);
}

TEST(durations_can_be_typed_again)
{
    static const struct {
        tenure_ns ns;
        const char *text;
    } cases[] = {
        { TN_SEC(86400), "24h" },    { TN_SEC(3600), "1h" },  { TN_SEC(5400), "90m" },
        { TN_SEC(120), "2m" },       { TN_SEC(60), "60s" },   { TN_SEC(121), "121s" },
        { TN_MS(2100), "2.1s" },     { TN_MS(300), "300ms" }, { 0, "0ms" },
        { -TN_SEC(7200), "-7200s" },
    };
    char buf[32];

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        CHECK_STR(tn_cli_duration(buf, cases[i].ns), cases[i].text);
}
