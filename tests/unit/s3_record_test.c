/* s3_record_test.c - the objects of the S3 store: what is written is read again, and what is no
 * record is refused rather than taken for a free name. */
#include "tests/harness/test.h"

#include <stdio.h>
#include <string.h>

#include "base/time.h"
#include "net/s3_bucket.h"
#include "stores/s3/record.h"

static int read_text(const char *json, struct tn_row *ret_row)
{
    static char label[TN_LABEL_MAX];
    char buf[TN_S3_BODY];

    (void)snprintf(buf, sizeof buf, "%s", json);
    return tn_s3_read_record(buf, strlen(buf), ret_row, label);
}

TEST(a_record_is_read_as_it_was_written)
{
    char label[TN_LABEL_MAX], buf[TN_S3_BODY], again[TN_LABEL_MAX];
    struct tn_row row = { .held = true,
                          .revoked = true,
                          .token = UINT64_MAX,
                          .floor = UINT64_MAX - 1,
                          .ttl = TN_SEC(86400),
                          .session = { { 1, 2, 3 } },
                          .term = { { 255 } },
                          .nonce = UINT64_MAX,
                          .label = label,
                          .label_len = TN_LABEL_MAX };
    struct tn_row got;
    struct tn_text text;

    for (size_t i = 0; i < sizeof label; i++)
        label[i] = (char)(i * 7);
    tn_text_init(&text, buf, sizeof buf);
    tn_s3_write_record(&text, &row);
    CHECK(!tn_text_truncated(&text)); /* The longest there is. */
    CHECK_EQ_I64(tn_s3_read_record(buf, text.len, &got, again), 0);
    CHECK(got.held && got.revoked);
    CHECK_EQ_U64(got.token, row.token);
    CHECK_EQ_U64(got.floor, row.floor);
    CHECK_EQ_I64(got.ttl, row.ttl);
    CHECK(tn_secret_equal(&got.session, &row.session));
    CHECK(tn_secret_equal(&got.term, &row.term));
    CHECK_EQ_U64(got.label_len, TN_LABEL_MAX);
    CHECK_MEM(got.label, label, TN_LABEL_MAX);
}

TEST(a_record_is_what_the_documents_say)
{
    char buf[TN_S3_BODY];
    struct tn_row row = { .held = true,
                          .token = 7,
                          .ttl = TN_SEC(15) + 1,
                          .nonce = 0xc4,
                          .label = "web-1",
                          .label_len = 5 };
    struct tn_text text;

    tn_text_init(&text, buf, sizeof buf);
    tn_s3_write_record(&text, &row);
    CHECK_STR(buf, "{\"tenure\":1,\"held\":true,\"token\":7,\"floor\":0,\"ttl_ms\":15001,"
                   "\"holder\":\"web-1\",\"nonce\":\"00000000000000c4\"}");
    row = (struct tn_row) { .token = 7, .floor = 3, .nonce = 1 };
    tn_text_init(&text, buf, sizeof buf);
    tn_s3_write_record(&text, &row);
    CHECK_STR(buf, "{\"tenure\":1,\"held\":false,\"token\":7,\"floor\":3,"
                   "\"nonce\":\"0000000000000001\"}");
}

TEST(what_is_no_record_is_not_a_free_name)
{
    static const char *const bad[] = {
        "",
        "{}",
        "[1]",
        "null",
        "{\"tenure\":1}",
        "{\"tenure\":1,\"held\":\"no\",\"token\":1,\"floor\":0}",
        "{\"tenure\":1,\"held\":false,\"token\":-1,\"floor\":0}",
        "{\"tenure\":1,\"held\":false,\"token\":1.5,\"floor\":0}",
        "{\"tenure\":1,\"held\":false,\"token\":18446744073709551616,\"floor\":0}",
        "{\"tenure\":1,\"held\":false,\"token\":1}",
        "{\"tenure\":1,\"held\":true,\"token\":1,\"floor\":0}",
        "{\"tenure\":1,\"held\":true,\"token\":1,\"floor\":0,\"ttl_ms\":0}",
        "{\"tenure\":1,\"held\":true,\"token\":1,\"floor\":0,\"ttl_ms\":86400001}",
        "{\"tenure\":1,\"held\":true,\"token\":1,\"floor\":0,\"ttl_ms\":1,\"session\":\"12\"}",
        "{\"tenure\":1,\"held\":true,\"token\":1,\"floor\":0,\"ttl_ms\":1,\"holder_hex\":\"1\"}",
        "{\"tenure\":1,\"held\":true,\"token\":1,\"floor\":0,\"ttl_ms\":1,\"holder\":7}",
        "{\"tenure\":1,\"held\":false,\"token\":1,\"floor\":0} and more",
    };
    struct tn_row row;

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        CHECK_EQ_I64(read_text(bad[i], &row), TENURE_E_DAMAGED);
    CHECK_EQ_I64(read_text("{\"tenure\":2,\"held\":false,\"token\":1,\"floor\":0}", &row),
                 TENURE_E_UNSUPPORTED);
    CHECK_EQ_I64(
        read_text("{\"tenure\":1,\"held\":false,\"token\":1,\"floor\":0,\"new\":{}}", &row), 0);
}

TEST(the_counter_is_read_as_it_was_written)
{
    char buf[TN_S3_BODY];
    struct tn_text text;
    uint64_t next = 0;

    tn_text_init(&text, buf, sizeof buf);
    tn_s3_write_counter(&text, UINT64_MAX, 1);
    CHECK_EQ_I64(tn_s3_read_counter(buf, text.len, &next), 0);
    CHECK_EQ_U64(next, UINT64_MAX);
    (void)snprintf(buf, sizeof buf, "{\"tenure\":1}");
    CHECK_EQ_I64(tn_s3_read_counter(buf, strlen(buf), &next), TENURE_E_DAMAGED);
}
