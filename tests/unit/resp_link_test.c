/* resp_link_test.c - the RESP client and its stream, against a peer that misbehaves on purpose. How
 * they do with servers that do not is in tests/live. */
#include "tests/harness/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/time.h"
#include "runtime/resp_link.h"

enum { CALLS = 8, PUSHES = 8 };

/* The peer: a Unix socket in the same loop. What it answers is the test's business. */
static struct {
    uv_pipe_t listener;
    uv_pipe_t conns[8];
    struct tn_resp_request request;
    char in[4096];
    size_t in_len;
    unsigned count;    /* Connections so far. */
    unsigned commands; /* On the present one. */
    void (*on_command)(const struct tn_resp_word *words, uint32_t count);
} peer;

static uv_loop_t loop;
static struct tn_clock test_clock;
static struct tn_resp_link wire;
static uv_timer_t pulse;
static char folder[64], path[96];
static unsigned ups, downs, pushes;
static char pushed[PUSHES][64];
static bool closed;

struct test_call {
    struct tn_resp_call call;
    unsigned done;
    char reply[64];
    char error[200];
};
static struct test_call calls[CALLS];

/* --- The peer --------------------------------------------------------------------------------- */

static void say(const char *text)
{
    uv_buf_t buf = uv_buf_init((char *)(uintptr_t)text, (unsigned)strlen(text));
    if (uv_is_closing((uv_handle_t *)&peer.conns[peer.count - 1]))
        return; /* It has hung up. */
    CHECK_EQ_I64(uv_try_write((uv_stream_t *)&peer.conns[peer.count - 1], &buf, 1),
                 (int64_t)strlen(text));
}

static void hang_up(void)
{
    uv_handle_t *handle = (uv_handle_t *)&peer.conns[peer.count - 1];
    if (!uv_is_closing(handle))
        uv_close(handle, NULL);
}

static void give_buf(uv_handle_t *handle, size_t wanted, uv_buf_t *ret_buf)
{
    (void)handle;
    (void)wanted;
    *ret_buf = uv_buf_init(peer.in + peer.in_len, (unsigned)(sizeof peer.in - peer.in_len));
}

static void hear(uv_stream_t *stream, ssize_t got, const uv_buf_t *buf)
{
    static const struct tn_resp_limits limits = { 4096, 1024, 16 };
    struct tn_resp_word words[16];
    uint32_t count = 0;
    const char *why = NULL;
    int64_t took;

    (void)buf;
    if (got < 0) {
        if (!uv_is_closing((uv_handle_t *)stream))
            uv_close((uv_handle_t *)stream, NULL);
        return;
    }
    peer.in_len += (size_t)got;
    while ((took = tn_resp_read(&peer.request, &limits, peer.in, peer.in_len, words, &count,
                                &why)) > 0) {
        peer.commands++;
        if (peer.on_command != NULL)
            peer.on_command(words, count);
        memmove(peer.in, peer.in + took, peer.in_len - (size_t)took);
        peer.in_len -= (size_t)took;
    }
    CHECK_EQ_I64(took, 0);
}

static void accept_one(uv_stream_t *listener, int status)
{
    CHECK_EQ_I64(status, 0);
    CHECK(peer.count < 8);
    uv_pipe_t *conn = &peer.conns[peer.count++];
    peer.commands = 0;
    peer.in_len = 0;
    peer.request = (struct tn_resp_request) { .at = 0 };
    CHECK_EQ_I64(uv_pipe_init(&loop, conn, 0), 0);
    CHECK_EQ_I64(uv_accept(listener, (uv_stream_t *)conn), 0);
    CHECK_EQ_I64(uv_read_start((uv_stream_t *)conn, give_buf, hear), 0);
}

/* A server that knows HELLO, PING and nothing else. */
static void polite(const struct tn_resp_word *words, uint32_t count)
{
    (void)count;
    if (tn_resp_is(&words[0], "HELLO"))
        say("%0\r\n");
    else if (tn_resp_is(&words[0], "PING"))
        say("+PONG\r\n");
}

/* --- The link's owner ------------------------------------------------------------------------- */

static void came_up(void *arg)
{
    (void)arg;
    ups++;
    tn_resp_link_ready(&wire);
}

static void went_down(void *arg)
{
    (void)arg;
    downs++;
}

static void hear_push(void *arg, const char *frame, size_t len)
{
    (void)arg;
    CHECK(pushes < PUSHES);
    (void)snprintf(pushed[pushes++], sizeof pushed[0], "%.*s", (int)len, frame);
}

static void call_done(struct tn_resp_call *call)
{
    struct test_call *own = (struct test_call *)call;

    own->done++;
    if (call->status == 0)
        (void)snprintf(own->reply, sizeof own->reply, "%.*s", (int)call->reply_len, call->reply);
    else
        (void)snprintf(own->error, sizeof own->error, "%s", call->error);
}

static void ask_within(unsigned number, const char *word, tenure_ns patience)
{
    const struct tn_resp_word words[] = { tn_resp_word_of(word) };

    calls[number] = (struct test_call) { .call = { .done = call_done } };
    calls[number].call.give_up_at = tn_clock_now(&test_clock) + patience;
    CHECK_EQ_I64(tn_resp_link_send(&wire, &calls[number].call, words, 1), 0);
    CHECK_EQ_U64(calls[number].done, 0);
}

static void ask(unsigned number, const char *word)
{
    ask_within(number, word, TN_SEC(20));
}

static bool run_until(bool (*condition)(void))
{
    tenure_ns end = tn_clock_now(&test_clock) + TN_SEC(15);

    while (!condition()) {
        if (tn_clock_now(&test_clock) >= end)
            return false;
        (void)uv_run(&loop, UV_RUN_ONCE);
    }
    return true;
}

static bool all_done(void)
{
    for (unsigned i = 0; i < CALLS; i++)
        if (calls[i].call.done != NULL && calls[i].done == 0)
            return false;
    return true;
}

static bool is_ready(void)
{
    return wire.ready;
}

static bool is_closed(void)
{
    return closed;
}

static void hear_closed(void *arg)
{
    (void)arg;
    closed = true;
}

static void beat(uv_timer_t *timer)
{
    (void)timer;
}

static void listen_at(void)
{
    CHECK_EQ_I64(uv_pipe_init(&loop, &peer.listener, 0), 0);
    CHECK_EQ_I64(uv_pipe_bind(&peer.listener, path), 0);
    CHECK_EQ_I64(uv_listen((uv_stream_t *)&peer.listener, 8, accept_one), 0);
}

static void start(void (*on_command)(const struct tn_resp_word *words, uint32_t count),
                  bool listens)
{
    static const struct tn_resp_host host = { came_up, went_down, hear_push };
    struct tn_endpoint endpoints[2];

    memset(&peer, 0, sizeof peer);
    memset(&wire, 0, sizeof wire);
    memset(calls, 0, sizeof calls);
    ups = downs = pushes = 0;
    closed = false;
    peer.on_command = on_command;
    (void)snprintf(folder, sizeof folder, "/tmp/tenure-link-......");
    memset(strchr(folder, '.'), 'X', 6); /* What mkdtemp replaces. */
    CHECK(mkdtemp(folder) != NULL);
    (void)snprintf(path, sizeof path, "%s/socket", folder);
    CHECK_EQ_I64(tn_clock_init(&test_clock), 0);
    CHECK_EQ_I64(uv_loop_init(&loop), 0);
    CHECK_EQ_I64(uv_timer_init(&loop, &pulse), 0);
    CHECK_EQ_I64(uv_timer_start(&pulse, beat, 5, 5), 0);
    if (listens)
        listen_at();
    /* Nobody is at the first: whichever is tried first, the second is found. */
    CHECK(tn_endpoint_local(&endpoints[0], "/nonexistent/socket"));
    CHECK(tn_endpoint_local(&endpoints[1], path));
    wire.stream.loop = &loop;
    wire.stream.clock = &test_clock;
    wire.stream.scheme = "test";
    wire.stream.reach_ms = 5000;
    wire.stream.own_peer = true;
    wire.host = &host;
    CHECK_EQ_I64(tn_resp_link_init(&wire, endpoints, 2, 7), 0);
    tn_resp_link_start(&wire);
}

static void close_one(uv_handle_t *handle, void *arg)
{
    (void)arg;
    if (!uv_is_closing(handle))
        uv_close(handle, NULL);
}

static void stop(void)
{
    if (!wire.closing)
        tn_resp_link_close(&wire, hear_closed);
    CHECK(run_until(is_closed));
    uv_walk(&loop, close_one, NULL);
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    CHECK_EQ_I64(uv_loop_close(&loop), 0);
    (void)unlink(path);
    (void)rmdir(folder);
}

/* --- Tests ------------------------------------------------------------------------------------ */

TEST(what_is_sent_early_waits_for_the_connection_and_answers_come_in_order)
{
    start(polite, true);
    ask(0, "PING");
    ask(1, "PING");
    CHECK(run_until(all_done));
    CHECK_EQ_U64(ups, 1);
    CHECK_EQ_I64(calls[1].call.status, 0);
    CHECK_STR(calls[1].reply, "+PONG\r\n");
    CHECK_EQ_U64(peer.count, 1);
    CHECK_EQ_U64(peer.commands, 3);
    stop();
    CHECK_EQ_U64(downs, 0); /* Closing is not losing. */
}

/* As the redis store does with every request. */
TEST(starting_again_neither_ends_an_attempt_nor_the_pause_between_two)
{
    struct tn_endpoint nobody = { .host = "localhost", .port = "1", .where = "localhost:1" };

    start(polite, false);
    tn_stream_set_endpoints(&wire.stream, &nobody, 1);
    for (int i = 0; i < 50; i++) {
        tn_resp_link_start(&wire);
        (void)uv_run(&loop, UV_RUN_ONCE);
        CHECK(strstr(wire.stream.error, "within") == NULL); /* Of five seconds. */
    }
    CHECK(wire.stream.failures < 20);
    stop();
}

/* Hangs up on the first, and keeps the second waiting. */
static void hangs_up_once(const struct tn_resp_word *words, uint32_t count)
{
    (void)words;
    (void)count;
    if (peer.count == 1)
        hang_up();
}

static bool is_kept_waiting(void)
{
    return peer.count == 2 && peer.commands == 1;
}

TEST(why_it_failed_is_known_until_the_server_has_proved_to_be_one)
{
    start(hangs_up_once, true);
    CHECK(run_until(is_kept_waiting));
    CHECK(wire.stream.up);
    CHECK(strstr(tn_resp_link_error(&wire), "closed the connection at once") != NULL ||
          strstr(tn_resp_link_error(&wire), "no such socket") != NULL); /* The other endpoint. */
    say("%0\r\n");
    CHECK(run_until(is_ready));
    CHECK_STR(wire.stream.error, "");
    stop();
}

static void in_pieces(const struct tn_resp_word *words, uint32_t count)
{
    if (tn_resp_is(&words[0], "HELLO"))
        polite(words, count);
    else
        say("*2\r\n$3\r\nab");
}

TEST(an_answer_in_pieces_is_one_answer)
{
    start(in_pieces, true);
    ask(0, "GET");
    CHECK(run_until(is_ready));
    for (int i = 0; i < 20; i++)
        (void)uv_run(&loop, UV_RUN_ONCE);
    CHECK_EQ_U64(calls[0].done, 0);
    say("c\r\n:7\r\n+next\r\n");
    ask(1, "GET");
    CHECK(run_until(all_done));
    CHECK_STR(calls[0].reply, "*2\r\n$3\r\nabc\r\n:7\r\n");
    CHECK_STR(calls[1].reply, "+next\r\n");
    stop();
}

static void chatters(const struct tn_resp_word *words, uint32_t count)
{
    if (tn_resp_is(&words[0], "SUBSCRIBE"))
        say(">3\r\n$7\r\nmessage\r\n$1\r\na\r\n$1\r\nx\r\n"
            ">3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n>3\r\n$9\r\nsubscribe\r\n$1\r\nb\r\n:2\r\n");
    else
        polite(words, count);
}

TEST(messages_are_no_answers_and_confirmations_are)
{
    start(chatters, true);
    CHECK(run_until(is_ready));
    const struct tn_resp_word words[] = { tn_resp_word_of("SUBSCRIBE") };
    calls[0].call.done = call_done;
    calls[0].call.confirms = 2;
    calls[0].call.give_up_at = TN_NEVER;
    CHECK_EQ_I64(tn_resp_link_send(&wire, &calls[0].call, words, 1), 0);
    ask(1, "PING");
    CHECK(run_until(all_done));
    CHECK_EQ_U64(pushes, 1);
    CHECK_STR(pushed[0], ">3\r\n$7\r\nmessage\r\n$1\r\na\r\n$1\r\nx\r\n");
    CHECK_STR(calls[0].reply, ">3\r\n$9\r\nsubscribe\r\n$1\r\nb\r\n:2\r\n");
    CHECK_STR(calls[1].reply, "+PONG\r\n");
    stop();
}

TEST(not_written_has_failed_and_says_why)
{
    start(polite, false);
    ask_within(0, "PING", TN_MS(300));
    CHECK(run_until(all_done));
    CHECK_EQ_I64(calls[0].call.status, TENURE_E_UNAVAILABLE);
    CHECK(strstr(calls[0].error, "test /") == calls[0].error);
    CHECK(strstr(calls[0].error, "no such socket") != NULL);
    /* Later there is somebody. */
    ask(1, "PING");
    listen_at();
    CHECK(run_until(all_done));
    CHECK_STR(calls[1].reply, "+PONG\r\n");
    stop();
}

static void hangs_up(const struct tn_resp_word *words, uint32_t count)
{
    if (tn_resp_is(&words[0], "DIE"))
        hang_up();
    else
        polite(words, count);
}

TEST(written_and_lost_is_unknown_and_the_next_connection_goes_on)
{
    start(hangs_up, true);
    CHECK(run_until(is_ready));
    ask(0, "DIE");
    ask(1, "PING");
    CHECK(run_until(all_done));
    CHECK_EQ_I64(calls[0].call.status, TENURE_E_TIMEOUT);
    CHECK_EQ_I64(calls[1].call.status, TENURE_E_TIMEOUT);
    CHECK_EQ_U64(downs, 1);
    ask(2, "PING");
    CHECK(run_until(all_done));
    CHECK_STR(calls[2].reply, "+PONG\r\n");
    CHECK_EQ_U64(ups, 2);
    stop();
}

TEST(silence_gives_the_connection_up)
{
    start(polite, true);
    CHECK(run_until(is_ready));
    ask_within(0, "NOTHING", TN_MS(200));
    ask(1, "NOTHING");
    CHECK(run_until(all_done));
    CHECK_EQ_I64(calls[0].call.status, TENURE_E_TIMEOUT);
    CHECK_EQ_I64(calls[1].call.status, TENURE_E_TIMEOUT);
    CHECK(strstr(calls[0].error, "no answer") != NULL);
    ask(2, "PING");
    CHECK(run_until(all_done));
    CHECK_EQ_U64(peer.count, 2);
    stop();
}

static void babbles(const struct tn_resp_word *words, uint32_t count)
{
    if (tn_resp_is(&words[0], "GARBAGE"))
        say("this is no RESP\r\n");
    else if (tn_resp_is(&words[0], "TWICE"))
        say("+one\r\n+two\r\n");
    else
        polite(words, count);
}

TEST(garbage_and_answers_that_nobody_asked_for_end_the_connection)
{
    start(babbles, true);
    CHECK(run_until(is_ready));
    ask(0, "GARBAGE");
    CHECK(run_until(all_done));
    CHECK_EQ_I64(calls[0].call.status, TENURE_E_TIMEOUT);
    CHECK(strstr(calls[0].error, "not RESP") != NULL);
    CHECK(run_until(is_ready));
    ask(1, "TWICE");
    CHECK(run_until(all_done));
    CHECK_STR(calls[1].reply, "+one\r\n");
    ask(2, "PING");
    CHECK(run_until(all_done));
    CHECK(peer.count >= 3);
    stop();
}

static void refuses(const struct tn_resp_word *words, uint32_t count)
{
    (void)count;
    if (tn_resp_is(&words[0], "HELLO"))
        say("-WRONGPASS no such user\r\n");
}

TEST(who_is_not_let_in_is_told_at_once)
{
    start(refuses, true);
    wire.user = "ada";
    wire.password = "hunter2";
    ask(0, "PING");
    CHECK(run_until(all_done));
    CHECK_EQ_I64(calls[0].call.status, TENURE_E_DENIED);
    CHECK(strstr(calls[0].error, "WRONGPASS no such user") != NULL);
    CHECK(strstr(calls[0].error, "hunter2") == NULL);
    CHECK_EQ_U64(ups, 0);
    stop();
}

static void is_old(const struct tn_resp_word *words, uint32_t count)
{
    if (tn_resp_is(&words[0], "HELLO"))
        say("-ERR unknown command 'HELLO'\r\n");
    else if (tn_resp_is(&words[0], "AUTH"))
        say(count == 2 && tn_resp_is(&words[1], "HUNTER2") ? "+OK\r\n"
                                                           : "-ERR invalid password\r\n");
    else
        polite(words, count);
}

TEST(a_server_without_hello_is_asked_with_auth)
{
    start(is_old, true);
    wire.password = "hunter2";
    ask(0, "PING");
    CHECK(run_until(all_done));
    CHECK_STR(calls[0].reply, "+PONG\r\n");
    stop();
}

/* As fences do: each round trip would delay the beginning of a term. */
TEST(without_a_greeting_the_first_command_goes_at_once_and_behind_auth_where_there_is_a_password)
{
    start(polite, true);
    wire.no_hello = true;
    ask(0, "PING");
    CHECK(run_until(all_done));
    CHECK_STR(calls[0].reply, "+PONG\r\n");
    CHECK_EQ_U64(peer.commands, 1);
    stop();
    start(is_old, true);
    wire.no_hello = true;
    wire.password = "hunter2";
    ask(0, "PING");
    CHECK(run_until(all_done));
    CHECK_STR(calls[0].reply, "+PONG\r\n");
    CHECK_EQ_U64(peer.commands, 2);
    stop();
}

TEST(closing_ends_what_waits_and_what_was_written)
{
    start(polite, true);
    CHECK(run_until(is_ready));
    ask(0, "NOTHING");
    tn_resp_link_close(&wire, hear_closed);
    CHECK_EQ_U64(calls[0].done, 1);
    CHECK_EQ_I64(calls[0].call.status, TENURE_E_CLOSED);
    stop();
    start(polite, false);
    ask(0, "PING");
    tn_resp_link_close(&wire, hear_closed);
    CHECK_EQ_I64(calls[0].call.status, TENURE_E_CLOSED);
    stop();
}

TEST(other_endpoints_are_taken_when_the_present_one_is_left)
{
    struct tn_endpoint endpoint;

    start(polite, true);
    CHECK(run_until(is_ready));
    CHECK(tn_endpoint_local(&endpoint, path));
    tn_stream_set_endpoints(&wire.stream, &endpoint, 1);
    CHECK(wire.ready);
    tn_stream_drop(&wire.stream, "moved");
    CHECK(!wire.ready);
    CHECK(run_until(is_ready));
    CHECK_EQ_U64(ups, 2);
    CHECK_STR(wire.stream.at.where, path);
    stop();
}
