/* http_fuzz.c - whatever is said, a head ends in one place, and so do chunks.
 *
 * The first byte says how the rest is cut into pieces. A head must not end in any piece that is
 * shorter than where it ends; its fields must lie inside it. A path that is good must give a server
 * nothing to resolve, merge, cut off or decode again. Chunks read piece by piece must give the same
 * content as read at once. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
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
    return 0;
}
