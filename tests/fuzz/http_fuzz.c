/* http_fuzz.c - whatever is said, a head ends in one place, and so do chunks.
 *
 * The first byte says how the rest is cut into pieces. A head must not end in any piece that is
 * shorter than where it ends; its fields must lie inside it. A path that is good must give a server
 * nothing to resolve, merge, cut off or decode again. Chunks read piece by piece must give the same
 * content as read at once, and so must all requests of a connection of the server. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "http/conn.h"
#include "http/target.h"
#include "wire/http.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum kind { ANSWER, ANSWER_TO_HEAD, REQUEST };

static int64_t read_head(enum kind kind, const char *bytes, size_t size, struct tn_http_head *head)
{
    return kind == REQUEST ? tn_http_read_request(bytes, size, head)
                           : tn_http_read(bytes, size, kind == ANSWER_TO_HEAD, head);
}

/* Decoded once, as a server does. */
static void check_path(const struct tn_http_slice *target)
{
    char path[TN_HTTP_HEAD_MAX + 2];
    size_t len = 0;

    if (tn_http_path_check(target) != NULL)
        return;
    for (size_t i = 0; i < target->len && target->bytes[i] != '?'; i++) {
        char digits[3] = { 0 };
        TN_ASSERT(target->bytes[i] != '/' || i + 1 == target->len || target->bytes[i + 1] != '/');
        if (target->bytes[i] != '%') {
            path[len++] = target->bytes[i];
            continue;
        }
        TN_ASSERT(i + 2 < target->len);
        memcpy(digits, target->bytes + i + 1, 2);
        path[len++] = (char)strtoul(digits, NULL, 16);
        i += 2;
    }
    TN_ASSERT(len > 0 && path[0] == '/' && memchr(path, '\0', len) == NULL);
    path[len] = '/';
    path[len + 1] = '\0';
    TN_ASSERT(strpbrk(path, "%;\\?#\r\n") == NULL);
    TN_ASSERT(strstr(path, "/./") == NULL && strstr(path, "/../") == NULL);
}

static void check_head(enum kind kind, const char *bytes, size_t size)
{
    static struct tn_http_head head;

    int64_t len = read_head(kind, bytes, size, &head);
    TN_ASSERT(len <= (int64_t)size);
    if (len <= 0)
        return;
    TN_ASSERT(kind != REQUEST || head.body != TN_HTTP_UNTIL_CLOSE);
    if (kind == REQUEST)
        check_path(&head.target);
    for (size_t i = 0; i < head.count; i++) {
        TN_ASSERT(head.fields[i].name.bytes >= bytes);
        TN_ASSERT(head.fields[i].value.bytes + head.fields[i].value.len <= bytes + len);
    }
    for (size_t i = 0; i < (size_t)len; i++)
        TN_ASSERT(read_head(kind, bytes, i, &head) == 0);
}

/* The sum stands for the content. */
static int64_t read_chunks(const uint8_t *data, size_t size, size_t step, uint64_t *ret_sum)
{
    struct tn_http_chunks chunks = { 0 };
    bool done = false;
    int64_t total = 0;

    *ret_sum = 0;
    for (size_t at = 0; at < size && !done;) {
        size_t len = step < size - at ? step : size - at;
        char *piece = malloc(len);
        size_t content = 0;

        TN_ASSERT(piece != NULL);
        memcpy(piece, data + at, len);
        int64_t used = tn_http_unchunk(&chunks, piece, len, &content, &done);
        TN_ASSERT(used <= (int64_t)len);
        TN_ASSERT(used < 0 || done || used == (int64_t)len);
        for (size_t i = 0; used >= 0 && i < content; i++)
            *ret_sum = *ret_sum * 31 + (uint8_t)piece[i];
        free(piece);
        if (used < 0)
            return -1;
        total += used;
        at += (size_t)used;
    }
    return done ? total : 0;
}

/* --- A connection of the server --------------------------------------------------------------- */

static uint64_t asked_sum; /* Stands for the targets and bodies of all requests. */
static bool ended;

static void add_to_sum(const char *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++)
        asked_sum = asked_sum * 31 + (uint8_t)bytes[i];
    asked_sum = asked_sum * 31 + 256;
}

static void answer_request(struct tn_http_conn *conn, const struct tn_http_head *head)
{
    struct tn_http_target target;
    size_t len;
    const char *body = tn_http_conn_body(conn, &len);

    add_to_sum(head->target.bytes, head->target.len);
    add_to_sum(body, len);
    if (tn_http_target_read(&target, &head->target) == 0) {
        TN_ASSERT(target.text[0] == '/');
        (void)tn_http_target_argument(&target, "a");
        tn_http_target_free(&target);
    }
    tn_http_conn_answer(conn, &(struct tn_http_response) { .status = 200, .type = "x/y" });
}

static void answer_error(struct tn_http_conn *conn, unsigned status, const char *why)
{
    (void)why;
    TN_ASSERT(status >= 400);
    add_to_sum("error", 5);
    tn_http_conn_answer(conn, &(struct tn_http_response) { .status = status, .type = "x/y" });
}

static bool send_bytes(struct tn_http_conn *conn, const char *bytes, size_t len)
{
    (void)conn;
    (void)bytes;
    TN_ASSERT(len > 0 && !ended);
    return true;
}

static void pause_peer(struct tn_http_conn *conn, bool pause)
{
    (void)conn;
    (void)pause;
}

static void end_peer(struct tn_http_conn *conn)
{
    (void)conn;
    TN_ASSERT(!ended);
    ended = true;
}

static uint64_t serve(const uint8_t *data, size_t size, size_t step)
{
    static const struct tn_http_service service = { 4096, answer_request, answer_error, NULL };
    static const struct tn_http_transport transport = { send_bytes, pause_peer, end_peer, NULL };
    static struct tn_http_head head;
    struct tn_http_conn conn;

    asked_sum = 0;
    ended = false;
    tn_http_conn_init(&conn, &service, &transport, &head);
    for (size_t at = 0; at < size; at += step) {
        size_t len = step < size - at ? step : size - at;
        TN_ASSERT(tn_http_conn_take(&conn, (const char *)data + at, len));
    }
    tn_http_conn_free(&conn);
    return asked_sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint64_t whole_sum;
    uint64_t pieces_sum;

    if (size < 2)
        return 0;
    size_t step = 1 + data[0] % 16;
    enum kind kind = (enum kind)(data[0] / 16 % 3);
    data++;
    size--;
    char *copy = malloc(size);
    TN_ASSERT(copy != NULL);
    memcpy(copy, data, size);
    check_head(kind, copy, size);
    free(copy);
    int64_t whole = read_chunks(data, size, size, &whole_sum);
    int64_t pieces = read_chunks(data, size, step, &pieces_sum);
    TN_ASSERT(whole == pieces);
    TN_ASSERT(whole < 0 || whole_sum == pieces_sum);
    TN_ASSERT(serve(data, size, size) == serve(data, size, step));
    return 0;
}
