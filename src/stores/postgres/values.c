/* values.c - parameters of statements as text, columns of results as values. */
#define _GNU_SOURCE
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/hex.h"
#include "stores/postgres/private.h"

void tn_pg_buf_add(struct tn_pg_buf *buf, const char *text, size_t len)
{
    if (!buf->failed && buf->len + len + 1 > buf->room) {
        size_t room = (buf->len + len + 1) * 2;
        char *data = realloc(buf->data, room);
        buf->failed = data == NULL;
        if (data != NULL) {
            buf->data = data;
            buf->room = room;
        }
    }
    if (buf->failed)
        return;
    memcpy(buf->data + buf->len, text, len);
    buf->len += len;
    buf->data[buf->len] = '\0';
}

void tn_pg_buf_addf(struct tn_pg_buf *buf, const char *format, ...)
{
    char text[512];
    va_list args;

    va_start(args, format);
    int len = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    TN_ASSERT(len >= 0 && (size_t)len < sizeof text);
    tn_pg_buf_add(buf, text, (size_t)len);
}

void tn_pg_buf_hex(struct tn_pg_buf *buf, const void *bytes, size_t len)
{
    const uint8_t *at = bytes;

    for (size_t i = 0; i < len; i++) {
        char two[2];
        tn_hex(two, at + i, 1);
        tn_pg_buf_add(buf, two, sizeof two);
    }
}

int64_t tn_pg_int(const PGresult *result, int row, int column)
{
    const uint8_t *bytes = (const uint8_t *)PQgetvalue(result, row, column);
    uint64_t value = 0;

    if (PQgetisnull(result, row, column) || PQgetlength(result, row, column) != 8)
        return 0;
    for (int i = 0; i < 8; i++)
        value = value << 8 | bytes[i];
    return (int64_t)value;
}

bool tn_pg_is(const PGresult *result, int row, int column, const char *text)
{
    return strcmp(PQgetvalue(result, row, column), text) == 0;
}

bool tn_pg_bool(const PGresult *result, int row, int column)
{
    return !PQgetisnull(result, row, column) && PQgetvalue(result, row, column)[0] != 0;
}

bool tn_pg_hash(const PGresult *result, int row, int column, struct tn_secret *ret_hash)
{
    if (PQgetisnull(result, row, column) ||
        PQgetlength(result, row, column) != (int)sizeof *ret_hash)
        return false;
    memcpy(ret_hash, PQgetvalue(result, row, column), sizeof *ret_hash);
    return true;
}

/* held, revoked, token, num, beat, ttl, term, label */
int64_t tn_pg_record(const PGresult *result, int row, int column,
                     struct tn_store_record *ret_record, bool *ret_revoked)
{
    struct tn_store_record record = { .held = tn_pg_bool(result, row, column),
                                      .revoked = tn_pg_bool(result, row, column + 1),
                                      .token = (uint64_t)tn_pg_int(result, row, column + 2) };

    if (record.held) {
        int len = PQgetlength(result, row, column + 7);
        record.beat = (uint64_t)tn_pg_int(result, row, column + 4);
        record.ttl = tn_pg_int(result, row, column + 5);
        record.remaining = record.ttl; /* At most: nobody here knows when it was renewed. */
        (void)tn_pg_hash(result, row, column + 6, &record.term);
        record.label_len = (uint32_t)(len <= TN_LABEL_MAX ? len : TN_LABEL_MAX);
        memcpy(record.label, PQgetvalue(result, row, column + 7), record.label_len);
    }
    *ret_revoked = record.revoked;
    *ret_record = record;
    return record.held ? tn_pg_int(result, row, column + 3) : 0;
}
