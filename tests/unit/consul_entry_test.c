/* consul_entry_test.c - keys of Consul as rows, and rows as JSON texts. */
#include "tests/harness/test.h"

#include <stdio.h>
#include <string.h>

#include "base/base64.h"
#include "stores/consul/entry.h"

static struct tn_consul_entry entry;

/* A key with that Value, held by @session ("" for nobody). */
static int read_key(const char *flags, const char *session, const char *value)
{
    static char body[4096];
    struct tn_json_value values[64];
    struct tn_text text;

    tn_text_init(&text, body, sizeof body);
    tn_text_addf(&text,
                 "[{\"Key\":\"t/job/.lock\",\"Flags\":%s,\"ModifyIndex\":77,\"Value\":", flags);
    if (value == NULL) {
        tn_text_add(&text, "null");
    } else {
        tn_text_add(&text, "\"");
        tn_base64_add(&text, value, strlen(value));
        tn_text_add(&text, "\"");
    }
    if (session[0] != '\0')
        tn_text_addf(&text, ",\"Session\":\"%s\"", session);
    tn_text_add(&text, "}]");
    CHECK(tn_json_read(body, text.len, values, 64) > 1);
    return tn_consul_read_entry(values, 1, &entry);
}

static struct tn_row full_row(void)
{
    struct tn_row row = { .held = true,
                          .token = 9,
                          .floor = 4,
                          .ttl = TN_SEC(15),
                          .label = "a \"b\"",
                          .label_len = 5,
                          .owner = "s-1" };

    memset(&row.session, 1, sizeof row.session);
    memset(&row.term, 2, sizeof row.term);
    return row;
}

static void write_text(const struct tn_row *row, char ret_text[TN_ROW_JSON])
{
    struct tn_text text;

    tn_text_init(&text, ret_text, TN_ROW_JSON);
    tn_row_json_write(&text, row);
    CHECK(!tn_text_truncated(&text));
}

TEST(a_row_comes_back_as_it_was_written)
{
    struct tn_row row = full_row();
    char text[TN_ROW_JSON];

    write_text(&row, text);
    CHECK_EQ_I64(read_key(TN_CONSUL_FLAGS, "s-1", text), 0);
    CHECK(entry.row.held);
    CHECK(!entry.row.minted);
    CHECK_EQ_U64(entry.row.token, 9);
    CHECK_EQ_U64(entry.row.floor, 4);
    CHECK_EQ_I64(entry.row.ttl, TN_SEC(15));
    CHECK(tn_secret_equal(&entry.row.session, &row.session));
    CHECK(tn_secret_equal(&entry.row.term, &row.term));
    CHECK_EQ_U64(entry.row.label_len, 5);
    CHECK(memcmp(entry.row.label, row.label, 5) == 0);
    CHECK_STR(entry.version, "77");
    CHECK_STR(entry.row.owner, "s-1");
}

TEST(a_label_of_any_bytes_comes_back)
{
    struct tn_row row = full_row();
    char text[TN_ROW_JSON], label[TN_LABEL_MAX];

    for (size_t i = 0; i < sizeof label; i++)
        label[i] = (char)(i + 1);
    row.label = label;
    row.label_len = sizeof label;
    write_text(&row, text);
    CHECK_EQ_I64(read_key(TN_CONSUL_FLAGS, "s-1", text), 0);
    CHECK_EQ_U64(entry.row.label_len, sizeof label);
    CHECK(memcmp(entry.row.label, label, sizeof label) == 0);
}

TEST(a_key_without_a_session_is_free_whatever_its_value_says)
{
    struct tn_row row = full_row();
    char text[TN_ROW_JSON];

    row.minted = true;
    row.revoked = true;
    write_text(&row, text);
    CHECK_EQ_I64(read_key(TN_CONSUL_FLAGS, "", text), 0);
    CHECK(!entry.row.held);
    CHECK(!entry.row.revoked);
    CHECK_EQ_U64(tn_row_token(&entry.row, entry.version), 77);
}

TEST(a_value_of_another_session_is_not_the_holders)
{
    struct tn_row row = full_row();
    char text[TN_ROW_JSON];

    write_text(&row, text);
    CHECK_EQ_I64(read_key(TN_CONSUL_FLAGS, "s-2", text), 0);
    CHECK(entry.row.held);
    CHECK(tn_secret_is_zero(&entry.row.session));
    CHECK(tn_secret_is_zero(&entry.row.term));
    CHECK_EQ_U64(entry.row.floor, 4);
    CHECK_EQ_U64(tn_row_token(&entry.row, entry.version), 77);
    CHECK_STR(entry.row.label, "consul session s-2");
}

TEST(values_of_others_are_strangers)
{
    static const char *const values[] = { NULL, "", "x", "{}", "{\"tenure\":true}", "[1]" };

    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        CHECK_EQ_I64(read_key(TN_CONSUL_FLAGS, "s-9", values[i]), 0);
        CHECK(entry.row.held);
        CHECK_EQ_U64(tn_row_token(&entry.row, entry.version), 77);
    }
}

TEST(semaphores_and_later_versions_are_refused)
{
    CHECK_EQ_I64(read_key("16210313421097356768", "", "x"), TENURE_E_UNSUPPORTED);
    CHECK_EQ_I64(read_key(TN_CONSUL_FLAGS, "", "{\"tenure\":2}"), TENURE_E_UNSUPPORTED);
}
