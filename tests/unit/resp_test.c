/* resp_test.c - the RESP codec: commands in any pieces, values of both versions, limits. */
#include "tests/harness/test.h"

#include <stdio.h>
#include <string.h>

#include "base/prng.h"
#include "base/text.h"
#include "wire/resp.h"

static const struct tn_resp_limits limits = { .frame_bytes = 200, .word_bytes = 64, .words = 5 };

/* Reads one command from @input, which arrives @step bytes at a time: "[word|word] rest". */
static const char *reads_in_steps(const char *input, size_t step)
{
    static char shown[512];
    static char bytes[512];
    struct tn_resp_request request = { 0 };
    struct tn_resp_word words[5];
    struct tn_text text;
    const char *err = "no reason";
    uint32_t count = 0;
    int64_t rc = 0;
    size_t size = strlen(input);

    tn_text_init(&text, shown, sizeof shown);
    memcpy(bytes, input, size);
    for (size_t len = 0; rc == 0 && len < size;) {
        len = len + step < size ? len + step : size;
        rc = tn_resp_read(&request, &limits, bytes, len, words, &count, &err);
    }
    if (rc <= 0) {
        tn_text_addf(&text, "%s", rc == 0 ? "more" : err);
        return shown;
    }
    tn_text_add(&text, "[");
    for (uint32_t i = 0; i < count; i++) {
        tn_text_add(&text, i > 0 ? "|" : "");
        tn_text_add_bytes(&text, words[i].bytes, words[i].len);
    }
    tn_text_add(&text, "] ");
    tn_text_escape(&text, input + rc, size - (size_t)rc);
    return shown;
}

/* The same in one piece and byte by byte, which must agree. */
static const char *reads(const char *input)
{
    static char whole[512];
    (void)snprintf(whole, sizeof whole, "%s", reads_in_steps(input, 1000));
    CHECK_STR(reads_in_steps(input, 1), whole);
    return whole;
}

TEST(a_command_is_an_array_of_bulk_strings)
{
    CHECK_STR(reads("*2\r\n$4\r\nPING\r\n$0\r\n\r\n"), "[PING|] ");
    CHECK_STR(reads("*1\r\n$4\r\nPING\r\n*1\r\n"), "[PING] *1\\r\\n");
    CHECK_STR(reads("*0\r\n"), "[] ");
    CHECK_STR(reads("*-1\r\n"), "[] ");
    CHECK_STR(reads("*2\r\n$3\r\na\r\n\r\n$1\r\nb\r\n"), "[a\r\n|b] ");
}

TEST(a_command_that_is_not_all_there_needs_more)
{
    const char *whole = "*3\r\n$5\r\nLEASE\r\n$3\r\nGET\r\n$1\r\nx\r\n";
    char part[64];

    for (size_t len = 1; len < strlen(whole); len++) {
        (void)snprintf(part, sizeof part, "%.*s", (int)len, whole);
        CHECK_STR(reads(part), "more");
    }
    CHECK_STR(reads(whole), "[LEASE|GET|x] ");
}

TEST(a_line_of_words_is_a_command_too)
{
    CHECK_STR(reads("PING\r\n"), "[PING] ");
    CHECK_STR(reads("  lease  get x \n"), "[lease|get|x] ");
    CHECK_STR(reads("\r\n"), "[] ");
    CHECK_STR(reads("\n"), "[] ");
    CHECK_STR(reads("say \"two words\" ''\n"), "[say|two words|] ");
    CHECK_STR(reads("PING\nPING\n"), "[PING] PING\\n");
    CHECK_STR(reads("say \"two\n"), "unbalanced quotes in the command");
    CHECK_STR(reads("say \"two\"three\n"), "unbalanced quotes in the command");
    CHECK_STR(reads("1 2 3 4 5 6\n"), "too many or too long words in the command");
}

TEST(what_is_no_command_is_refused_with_a_reason)
{
    CHECK_STR(reads("*x\r\n"), "a length that is no number");
    CHECK_STR(reads("*1\n$4\r\n"), "a length that is no number");
    CHECK_STR(reads("*1\r\n:4\r\n"), "expected '$' and the length of a word");
    CHECK_STR(reads("*1\r\n$-1\r\n"), "a length below zero");
    CHECK_STR(reads("*1\r\n$-0\r\n\r\n"), "a length below zero");
    CHECK_STR(reads("*1\r\n$4\r\nPINGS\r\n"), "a word does not end where its length says");
    CHECK_STR(reads("*111111111111111111111111111"), "a length that is no number");
}

TEST(what_is_too_large_is_refused_when_it_is_announced)
{
    char line[300];

    CHECK_STR(reads("*6\r\n"), "too many words in the command");
    CHECK_STR(reads("*1\r\n$65\r\n"), "the command is too long");
    memset(line, 'a', sizeof line);
    line[299] = 0;
    CHECK_STR(reads(line), "the command is too long");
    (void)snprintf(line, sizeof line, "*4\r\n$64\r\n%064d\r\n$64\r\n%064d\r\n$64\r\n", 0, 0);
    CHECK_STR(reads(line), "the command is too long");
}

TEST(a_zero_byte_in_a_line_is_refused)
{
    char bytes[] = "PI\0NG\n";
    struct tn_resp_request request = { 0 };
    struct tn_resp_word words[5];
    const char *err = NULL;
    uint32_t count;

    CHECK_EQ_I64(tn_resp_read(&request, &limits, bytes, 6, words, &count, &err), TENURE_E_INVALID);
    CHECK_STR(err, "a zero byte in the command");
}

TEST(words_are_compared_in_any_case)
{
    struct tn_resp_word word = { "pInG", 4 };

    CHECK(tn_resp_is(&word, "PING"));
    CHECK(!tn_resp_is(&word, "PIN"));
    CHECK(!tn_resp_is(&word, "PINGS"));
    CHECK(!tn_resp_is(&word, "PONG"));
}

/* --- Values ----------------------------------------------------------------------------------- */

static void show_value(struct tn_text *text, const char *bytes, size_t len, size_t *at)
{
    struct tn_resp_value value;

    if (tn_resp_next(bytes, len, at, &value) < 0) {
        tn_text_add(text, "BAD");
        return;
    }
    switch (value.type) {
    case TN_RESP_INTEGER:
        tn_text_addf(text, "%lld", (long long)value.integer);
        break;
    case TN_RESP_NULL:
        tn_text_add(text, "null");
        break;
    case TN_RESP_BOOL:
        tn_text_add(text, value.integer != 0 ? "true" : "false");
        break;
    case TN_RESP_ARRAY:
    case TN_RESP_PUSH:
    case TN_RESP_MAP:
        tn_text_add(text, value.type == TN_RESP_ARRAY ? "["
                          : value.type == TN_RESP_MAP ? "{"
                                                      : ">[");
        for (uint32_t i = 0; i < value.count * (value.type == TN_RESP_MAP ? 2 : 1); i++) {
            tn_text_add(text, i > 0 ? " " : "");
            show_value(text, bytes, len, at);
        }
        tn_text_add(text, value.type == TN_RESP_MAP ? "}" : "]");
        break;
    case TN_RESP_STRING:
    case TN_RESP_NUMBER:
    case TN_RESP_ERROR:
        tn_text_add(text, value.type == TN_RESP_ERROR ? "!" : "");
        tn_text_add_bytes(text, value.bytes, value.len);
        break;
    }
}

/* Scans @input byte by byte and at once, which must agree, and shows the value. */
static const char *scans(const char *input)
{
    static char shown[512];
    struct tn_resp_scan whole = { 0 };
    struct tn_resp_scan slow = { 0 };
    struct tn_text text;
    size_t at = 0;
    size_t size = strlen(input);
    int64_t rc = tn_resp_scan(&whole, 300, 20, input, size);
    int64_t slow_rc = 0;

    for (size_t len = 1; slow_rc == 0 && len <= size; len++)
        slow_rc = tn_resp_scan(&slow, 300, 20, input, len);
    CHECK_EQ_I64(rc, slow_rc);
    if (rc <= 0)
        return rc == 0 ? "more" : rc == TENURE_E_FULL ? "full" : "invalid";
    tn_text_init(&text, shown, sizeof shown);
    show_value(&text, input, (size_t)rc, &at);
    CHECK_EQ_U64(at, (uint64_t)rc);
    return shown;
}

TEST(values_of_both_versions_are_read)
{
    CHECK_STR(scans("+OK\r\n"), "OK");
    CHECK_STR(scans("-GONE no such session\r\n"), "!GONE no such session");
    CHECK_STR(scans("!5\r\nERR x\r\n"), "!ERR x");
    CHECK_STR(scans(":-42\r\n"), "-42");
    CHECK_STR(scans("$3\r\na\r\n\r\n"), "a\r\n");
    CHECK_STR(scans("$-1\r\n"), "null");
    CHECK_STR(scans("*-1\r\n"), "null");
    CHECK_STR(scans("_\r\n"), "null");
    CHECK_STR(scans("#t\r\n"), "true");
    CHECK_STR(scans("#f\r\n"), "false");
    CHECK_STR(scans("(18446744073709551615\r\n"), "18446744073709551615");
    CHECK_STR(scans(",3.25\r\n"), "3.25");
    CHECK_STR(scans("=7\r\ntxt:abc\r\n"), "abc");
    CHECK_STR(scans("*0\r\n"), "[]");
    CHECK_STR(scans("*3\r\n:1\r\n*2\r\n+a\r\n_\r\n$1\r\nb\r\n"), "[1 [a null] b]");
    CHECK_STR(scans("%2\r\n+a\r\n:1\r\n+b\r\n%0\r\n"), "{a 1 b {}}");
    CHECK_STR(scans(">2\r\n+message\r\n~1\r\n:9\r\n"), ">[message [9]]");
}

TEST(a_value_that_is_not_all_there_needs_more)
{
    CHECK_STR(scans("*2\r\n:1\r\n"), "more");
    CHECK_STR(scans("$5\r\nabc"), "more");
    CHECK_STR(scans("$5"), "more");
    CHECK_STR(scans("%1\r\n+a\r\n"), "more");
}

TEST(what_is_no_value_is_refused)
{
    CHECK_STR(scans("hello\r\n"), "invalid");
    CHECK_STR(scans(":1x\r\n"), "invalid");
    CHECK_STR(scans(":\r\n"), "invalid");
    CHECK_STR(scans("$3\r\nabcd\r\n"), "invalid");
    CHECK_STR(scans("#x\r\n"), "invalid");
    CHECK_STR(scans("_x\r\n"), "invalid");
    CHECK_STR(scans("%-1\r\n"), "invalid");
    CHECK_STR(scans("$-2\r\n"), "invalid");
    CHECK_STR(scans("=3\r\nabc\r\n"), "invalid");
    CHECK_STR(scans("|1\r\n+a\r\n+b\r\n+c\r\n"), "invalid");
    CHECK_STR(scans(":99999999999999999999\r\n"), "invalid");
    CHECK_STR(scans("+OK\n"), "invalid");
}

TEST(a_value_beyond_the_limits_is_refused)
{
    char deep[100] = "";
    char line[400];

    CHECK_STR(scans("$301\r\n"), "full");
    CHECK_STR(scans("*21\r\n"), "full");
    CHECK_STR(scans("%21\r\n"), "full");
    CHECK_STR(scans("*3\r\n*7\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n*7\r\n:1\r\n:1\r\n:1\r\n"
                    ":1\r\n:1\r\n:1\r\n:1\r\n*7\r\n:1\r\n:1\r\n:1\r\n:1\r\n"),
              "full");
    for (size_t i = 0; i < TN_RESP_DEPTH + 1; i++)
        memcpy(deep + 4 * i, "*1\r\n", 5);
    CHECK_STR(scans(deep), "full");
    deep[4 * TN_RESP_DEPTH] = 0;
    CHECK_STR(scans(deep), "more");
    memset(line, 'a', sizeof line);
    line[0] = '+';
    line[399] = 0;
    CHECK_STR(scans(line), "full");
}

/* --- Writing ---------------------------------------------------------------------------------- */

static const char *written(bool resp3, size_t size)
{
    static char buf[512];
    struct tn_resp_out out = { .buf = buf, .size = size, .resp3 = resp3 };

    tn_resp_put_map(&out, 2);
    tn_resp_put_simple(&out, "OK");
    tn_resp_put_error(&out, "ERR two\r\nlines");
    tn_resp_put_text(&out, "name");
    tn_resp_put_bulk(&out, "", 0);
    tn_resp_put_array(&out, 3);
    tn_resp_put_int(&out, INT64_MIN);
    tn_resp_put_u64(&out, INT64_MAX);
    tn_resp_put_u64(&out, UINT64_MAX);
    tn_resp_put_null(&out);
    tn_resp_put_null_array(&out);
    tn_resp_put_push(&out, 0);
    CHECK(out.len <= size);
    buf[out.len] = 0;
    return out.full ? "full" : buf;
}

TEST(values_are_written_in_either_version)
{
    CHECK_STR(written(false, 500),
              "*4\r\n+OK\r\n-ERR two  lines\r\n$4\r\nname\r\n$0\r\n\r\n*3\r\n"
              ":-9223372036854775808\r\n:9223372036854775807\r\n$20\r\n18446744073709551615\r\n"
              "$-1\r\n*-1\r\n*0\r\n");
    CHECK_STR(written(true, 500),
              "%2\r\n+OK\r\n-ERR two  lines\r\n$4\r\nname\r\n$0\r\n\r\n*3\r\n"
              ":-9223372036854775808\r\n:9223372036854775807\r\n(18446744073709551615\r\n"
              "_\r\n_\r\n>0\r\n");
}

TEST(what_does_not_fit_is_not_written)
{
    for (size_t size = 0; size < 120; size++)
        CHECK_STR(written(true, size), "full");
}

TEST(noise_never_reads_beyond_its_end)
{
    static const char letters[] = "*$+-:_#,(=~>%!0123456789\r\n\r\n\r\nabc \"'";
    struct tn_prng prng;

    tn_prng_seed(&prng, 7);
    for (int i = 0; i < 20000; i++) {
        char input[41];
        size_t len = 1 + (size_t)tn_prng_below(&prng, 40);
        for (size_t j = 0; j < len; j++)
            input[j] = letters[tn_prng_below(&prng, sizeof letters - 1)];
        input[len] = 0;
        (void)scans(input);
        (void)reads(input);
    }
}
