/* zookeeper_screen_test.c - which frames of a server reach the client library; no server needed. */
#include "tests/harness/test.h"

#ifdef TENURE_ZOOKEEPER

#include <string.h>

#include "base/prng.h"
#include "stores/zookeeper/screen.h"

static struct tn_zk_screen screen;
static uint8_t frame[512];
static size_t len;

static void put_int(int32_t value)
{
    for (int i = 0; i < 4; i++)
        frame[len++] = (uint8_t)((uint32_t)value >> (24 - 8 * i));
}

static void put_long(int64_t value)
{
    put_int((int32_t)(value >> 32));
    put_int((int32_t)value);
}

static void put_byte(uint8_t value)
{
    frame[len++] = value;
}

static void put_string(const char *text)
{
    put_int((int32_t)strlen(text));
    memcpy(frame + len, text, strlen(text));
    len += strlen(text);
}

static void put_stat(void)
{
    memset(frame + len, 1, 68);
    len += 68;
}

static int answer(void)
{
    int rc = tn_zk_screen_answer(&screen, frame, len);

    len = 0;
    return rc;
}

static void greeting(int32_t timeout, int64_t session, int32_t password, uint8_t read_only)
{
    len = 0;
    put_int(0);
    put_int(timeout);
    put_long(session);
    put_int(password);
    put_long(7);
    put_long(7);
    put_byte(read_only);
}

static void begin(bool resumes)
{
    tn_zk_screen_free(&screen);
    screen = (struct tn_zk_screen) { .resumes = resumes };
}

static void greet(void)
{
    begin(false);
    greeting(4000, 5, 16, 0);
    CHECK_EQ_I64(answer(), 0);
}

/* The library asks; the rest of most requests is nobody's business. */
static void ask(int32_t xid, int32_t type)
{
    len = 0;
    put_int(xid);
    put_int(type);
    if (type == 1 || type == 9 || type == 15)
        put_string("/a/b");
    CHECK_EQ_I64(tn_zk_screen_request(&screen, frame, len), 0);
    len = 0;
}

static void header(int32_t xid, int32_t error)
{
    len = 0;
    put_int(xid);
    put_long(99);
    put_int(error);
}

static void step(int32_t type, uint8_t done, int32_t error)
{
    put_int(type);
    put_byte(done);
    put_int(error);
}

/* Delete, and note the token: what a release asks. */
static void ask_release(int32_t xid)
{
    len = 0;
    put_int(xid);
    put_int(14);
    step(2, 0, -1);
    put_string("/a/b");
    put_int(-1);
    step(5, 0, -1);
    put_string("/a");
    put_string("token=1");
    put_int(-1);
    step(-1, 1, -1);
    CHECK_EQ_I64(tn_zk_screen_request(&screen, frame, len), 0);
    len = 0;
}

/* The answer to @type, well-formed. */
static void body(int32_t type)
{
    header(1, 0);
    if (type == 1 || type == 9 || type == 15)
        put_string("/a/b");
    if (type == 4)
        put_string("data");
    if (type == 12) {
        put_int(2);
        put_string("one");
        put_string("");
    }
    if (type == 14) {
        step(2, 0, 0);
        step(5, 0, 0);
        put_stat();
        step(-1, 1, -1);
    } else if (type != 1 && type != 2 && type != 9) {
        put_stat();
    }
}

static const int32_t types[] = { 1, 2, 3, 4, 5, 9, 12, 14, 15 };
enum { TYPES = sizeof types / sizeof types[0] };

static void ask_for(int32_t type)
{
    greet();
    if (type == 14)
        ask_release(1);
    else
        ask(1, type);
}

TEST(a_greeting_gives_a_session)
{
    begin(false);
    greeting(4000, 5, 16, 0);
    CHECK_EQ_I64(answer(), 0);
    begin(false);
    greeting(4000, 5, 16, 0);
    len--; /* Servers before 3.4. */
    CHECK_EQ_I64(answer(), 0);
    begin(true); /* A session that is over. */
    greeting(0, 0, 16, 0);
    CHECK_EQ_I64(answer(), 0);
}

TEST(a_malformed_greeting_is_refused)
{
    begin(false);
    greeting(0, 0, 16, 0); /* None is over that never was. */
    CHECK_EQ_I64(answer(), TENURE_E_DAMAGED);
    greeting(-1, 5, 16, 0);
    CHECK_EQ_I64(answer(), TENURE_E_DAMAGED);
    greeting(4000, 5, 15, 0);
    CHECK_EQ_I64(answer(), TENURE_E_DAMAGED);
    greeting(4000, 5, 16, 1);
    CHECK_EQ_I64(answer(), TENURE_E_DAMAGED);
    greeting(4000, 5, 16, 0);
    put_byte(0);
    CHECK_EQ_I64(answer(), TENURE_E_DAMAGED);
    CHECK_EQ_I64(answer(), TENURE_E_DAMAGED);
    CHECK(screen.why != NULL);
}

TEST(every_answer_passes_once)
{
    for (size_t i = 0; i < TYPES; i++) {
        ask_for(types[i]);
        body(types[i]);
        size_t whole = len;
        CHECK_EQ_I64(tn_zk_screen_answer(&screen, frame, whole), 0);
        CHECK_EQ_I64(tn_zk_screen_answer(&screen, frame, whole), TENURE_E_DAMAGED);
        ask_for(types[i]);
        header(1, -101);
        CHECK_EQ_I64(answer(), 0);
    }
}

TEST(an_answer_that_is_cut_or_drawn_out_is_refused)
{
    for (size_t i = 0; i < TYPES; i++) {
        ask_for(types[i]);
        body(types[i]);
        for (size_t cut = 0; cut < len; cut++)
            CHECK_EQ_I64(tn_zk_screen_answer(&screen, frame, cut), TENURE_E_DAMAGED);
        put_byte(0);
        CHECK_EQ_I64(answer(), TENURE_E_DAMAGED);
    }
}

/* Of one form: EXISTS and SET, CREATE and SYNC; and a path may be data. */
static bool is_alike(int32_t asked, int32_t answered)
{
    return asked + answered == 3 + 5 || asked + answered == 1 + 9 || (asked == 4 && answered == 15);
}

TEST(an_answer_to_something_else_is_refused)
{
    greet();
    header(1, 0);
    CHECK_EQ_I64(answer(), TENURE_E_DAMAGED); /* Nobody has asked. */
    ask(1, 2);
    ask(2, 2);
    header(2, 0);
    CHECK_EQ_I64(answer(), TENURE_E_DAMAGED);
    for (size_t i = 0; i < TYPES; i++) {
        for (size_t k = 0; k < TYPES; k++) {
            ask_for(types[i]);
            body(types[k]);
            bool alike = i == k || is_alike(types[i], types[k]);
            CHECK_EQ_I64(answer(), alike ? 0 : TENURE_E_DAMAGED);
        }
    }
}

TEST(a_created_path_is_the_one_that_was_asked_for)
{
    static const struct {
        const char *path;
        int rc;
    } cases[] = { { "/a/b", 0 },
                  { "/a/b0000000012", 0 },
                  { "/a/b-2147483648", 0 },
                  { "/a/c", TENURE_E_DAMAGED },
                  { "/a/", TENURE_E_DAMAGED },
                  { "/a/b/c", TENURE_E_DAMAGED },
                  { "/a/b000000001x", TENURE_E_DAMAGED } };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ask_for(1);
        header(1, 0);
        put_string(cases[i].path);
        CHECK_EQ_I64(answer(), cases[i].rc);
    }
}

TEST(answers_without_a_number_need_a_question)
{
    static const struct {
        int32_t xid, type;
    } kinds[] = { { -2, 11 }, { -4, 100 }, { -8, 101 } };

    for (size_t i = 0; i < 3; i++) {
        greet();
        header(kinds[i].xid, 0);
        CHECK_EQ_I64(answer(), TENURE_E_DAMAGED);
        ask(kinds[i].xid, kinds[i].type);
        header(kinds[i].xid, 0);
        CHECK_EQ_I64(answer(), 0);
        header(kinds[i].xid, 0);
        CHECK_EQ_I64(answer(), TENURE_E_DAMAGED);
    }
}

TEST(events_have_a_kind_and_a_path)
{
    greet();
    header(-1, 0);
    put_int(4);
    put_int(3);
    put_string("/a");
    CHECK_EQ_I64(answer(), 0);
    for (int32_t type = -2; type < 8; type++) {
        header(-1, 0);
        put_int(type);
        put_int(3);
        put_string("/a");
        CHECK_EQ_I64(answer(), type >= 1 && type <= 4 ? 0 : TENURE_E_DAMAGED);
    }
    header(-1, 0);
    put_int(4);
    put_int(3);
    put_int(-1);
    CHECK_EQ_I64(answer(), TENURE_E_DAMAGED);
    header(-1, 0);
    put_int(4);
    put_int(3);
    put_string("");
    CHECK_EQ_I64(answer(), TENURE_E_DAMAGED);
}

TEST(strings_that_c_cannot_hold_are_refused)
{
    ask_for(12);
    header(1, 0);
    put_int(1);
    put_string("a_b");
    frame[len - 2] = '\0';
    put_stat();
    CHECK_EQ_I64(answer(), TENURE_E_DAMAGED);
    header(1, 0);
    put_int(-1); /* A vector of none that there is. */
    put_stat();
    CHECK_EQ_I64(answer(), TENURE_E_DAMAGED);
    header(1, 0);
    put_int(0x7fffffff);
    put_stat();
    CHECK_EQ_I64(answer(), TENURE_E_DAMAGED);
    ask_for(4);
    header(1, 0);
    put_int(-1); /* A znode without data. */
    put_stat();
    CHECK_EQ_I64(answer(), 0);
}

TEST(a_transaction_has_as_many_results_as_steps)
{
    ask_for(14);
    header(1, 0);
    step(2, 0, 0);
    step(-1, 1, -1);
    CHECK_EQ_I64(answer(), TENURE_E_DAMAGED);
    header(1, 0); /* Refused by the server, step by step. */
    step(-1, 0, -101);
    put_int(-101);
    step(-1, 0, -2);
    put_int(-2);
    step(-1, 1, -1);
    CHECK_EQ_I64(answer(), 0);
}

TEST(errors_of_this_side_are_no_answers)
{
    static const int32_t errors[] = { -4, -7, -116, -117, 1 };

    for (size_t i = 0; i < 5; i++) {
        ask_for(2);
        header(1, errors[i]);
        CHECK_EQ_I64(answer(), TENURE_E_DAMAGED);
    }
}

TEST(a_request_of_an_unknown_kind_is_refused)
{
    greet();
    put_int(1);
    put_int(77);
    CHECK_EQ_I64(tn_zk_screen_request(&screen, frame, len), TENURE_E_DAMAGED);
    CHECK_EQ_I64(tn_zk_screen_request(&screen, frame, 3), TENURE_E_DAMAGED);
    len = 0;
}

/* Whatever the bytes: nothing is read beyond them (the sanitizers look), and whatever passes is
 * answered once. */
TEST(random_frames_are_refused_or_counted)
{
    struct tn_prng prng;
    unsigned passed = 0;

    tn_prng_seed(&prng, 28);
    for (unsigned round = 0; round < 200000; round++) {
        int32_t type = types[round % TYPES];
        ask_for(type);
        body(type);
        for (uint64_t i = tn_prng_below(&prng, 3); i < 3; i++)
            frame[tn_prng_below(&prng, len)] = (uint8_t)tn_prng_next(&prng);
        if (round % 4 == 0)
            len = (size_t)tn_prng_below(&prng, len);
        bool pass = answer() == 0;
        CHECK_EQ_I64(pass, screen.why == NULL);
        CHECK(pass || screen.first != NULL);
        passed += pass;
    }
    CHECK(passed > 1000); /* Values may be any. */
    begin(false);
}

#endif
