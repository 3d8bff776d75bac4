/* etcd_keys_test.c - which keys below a name are candidates, and what is made of strange ones. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/prng.h"
#include "stores/etcd/store.h"
#include "tests/harness/test.h"

static struct tn_etcd_store store = { .client.config.prefix = "t/" };

static Etcd__KeyValue key_of(const void *bytes, size_t len)
{
    Etcd__KeyValue kv = ETCD__KEY_VALUE__INIT;

    kv.key.data = (uint8_t *)(uintptr_t)bytes;
    kv.key.len = len;
    return kv;
}

static bool is_candidate(const char *key)
{
    struct tn_etcd_keys keys;
    Etcd__KeyValue kv = key_of(key, strlen(key));

    tn_etcd_keys(&keys, &store, "job", 0);
    return tn_etcd_is_candidate(&keys, &kv);
}

TEST(a_candidate_is_named_by_a_lease)
{
    struct tn_etcd_keys keys;

    CHECK(is_candidate("t/job/1"));
    CHECK(is_candidate("t/job/694d7a5c3b2e1f08"));
    CHECK(is_candidate("t/job/7fffffffffffffff"));
    tn_etcd_keys(&keys, &store, "job", 0x1234567890abcdef);
    CHECK(is_candidate(keys.own));
    /* Go writes a negative one so. */
    CHECK(is_candidate("t/job/-7a"));
}

TEST(other_keys_below_a_name_are_no_candidates)
{
    static const char *const keys[] = {
        "",
        "t/job",
        "t/job/",
        "t/job/leader",
        "t/job/ABC",
        "t/job/0x1",
        "t/job/1/2",
        "t/job/1/",
        "t/job/-",
        "t/job/--1",
        "t/job/ 1",
        "t/job/1 ",
        "t/job/1-",
        "t/jobs/1",
        "u/job/1",
        "t/job0/1",
        "t/job//1",
        "t/job/%token",
        "t/job/1g",
        "t/job/members/1",
        "t/job/\xff",
        "t/job/1\x01a",
        "t/job/11111111111111111",
    };

    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        CHECK(!is_candidate(keys[i]));
}

TEST(a_key_with_a_zero_byte_is_no_candidate)
{
    struct tn_etcd_keys keys;
    Etcd__KeyValue kv = key_of("t/job/1\0002", 9);

    tn_etcd_keys(&keys, &store, "job", 0);
    CHECK(!tn_etcd_is_candidate(&keys, &kv));
}

/* Whatever the bytes, a key that is taken for a candidate's fits where keys are kept. */
TEST(random_keys_are_refused_or_fit)
{
    static const char letters[] = "0123456789abcdef-/tjob";
    struct tn_prng prng;
    struct tn_etcd_keys keys;
    unsigned bids = 0;

    tn_prng_seed(&prng, 20);
    tn_etcd_keys(&keys, &store, "job", 0);
    for (unsigned round = 0; round < 50000; round++) {
        size_t len = (size_t)tn_prng_below(&prng, round % 10 == 0 ? 3000 : 20);
        uint8_t *bytes = malloc(len + 6);
        char kept[TN_ETCD_KEY];
        CHECK(bytes != NULL);
        memcpy(bytes, "t/job/", 6);
        for (size_t i = 0; i < len; i++)
            bytes[6 + i] = round % 3 == 0
                               ? (uint8_t)tn_prng_below(&prng, 256)
                               : (uint8_t)letters[tn_prng_below(&prng, sizeof letters - 1)];
        Etcd__KeyValue kv = key_of(bytes, len + 6);
        if (tn_etcd_is_candidate(&keys, &kv)) {
            bids++;
            tn_etcd_candidate_key(&kv, kept);
            CHECK(tn_etcd_key_is(&kv, kept));
        }
        free(bytes);
    }
    CHECK(bids > 100);
}

/* Whatever the value, the label is part of it, and none that is not ours has a term. */
TEST(random_values_are_labels)
{
    const struct tn_secret none = { { 0 } };
    struct tn_prng prng;

    tn_prng_seed(&prng, 21);
    for (unsigned round = 0; round < 5000; round++) {
        size_t len = (size_t)tn_prng_below(&prng, round % 10 == 0 ? 3000 : 60);
        uint8_t *bytes = malloc(len + 1);
        struct tn_store_record record;
        Etcd__KeyValue kv = key_of("t/job/1", 7);
        CHECK(bytes != NULL);
        for (size_t i = 0; i < len; i++)
            bytes[i] = (uint8_t)tn_prng_below(&prng, 256);
        if (len >= 8 && round % 2 == 0)
            memcpy(bytes + tn_prng_below(&prng, len - 7), " tenure:", 8);
        kv.value.data = bytes;
        kv.value.len = len;
        tn_etcd_record(&kv, &record);
        CHECK(record.held);
        CHECK(record.label_len <= TN_LABEL_MAX && record.label_len <= len);
        CHECK(memcmp(record.label, bytes, record.label_len) == 0);
        CHECK(tn_secret_equal(&record.term, &none));
        free(bytes);
    }
}

TEST(a_time_to_live_of_any_size_is_a_time)
{
    CHECK_EQ_I64(tn_etcd_seconds(15), TN_SEC(15));
    CHECK_EQ_I64(tn_etcd_seconds(0), 0);
    CHECK_EQ_I64(tn_etcd_seconds(-1), 0);
    CHECK_EQ_I64(tn_etcd_seconds(INT64_MIN), 0);
    CHECK(tn_etcd_seconds(INT64_MAX) > TN_SEC(1000000));
}

/* The name that another program's leader at @key has, with the prefix; "": it is none. */
static const char *foreign_name(const char *key, int64_t lease)
{
    static char name[100];
    Etcd__KeyValue kv = key_of(key, strlen(key));

    kv.lease = lease;
    (void)snprintf(name, sizeof name, "%.*s", (int)tn_etcd_foreign_name(&kv), key);
    return name;
}

TEST(leaders_of_patroni_and_vitess)
{
    CHECK_STR(foreign_name("/service/demo/leader", 7), "/service/demo/leader");
    CHECK_STR(foreign_name("leader", 7), "leader");
    CHECK_STR(foreign_name("v/elections/orc/locks/4660", 0x1234), "v/elections/orc");
    CHECK_STR(foreign_name("elections/orc/locks/4660", 0x1234), "elections/orc");
    static const char *const others[] = {
        "",
        "/service/demo/members/one",
        "/service/demo/cheerleader",
        "/service/demo/leader/",
        "v/elections/orc/locks/1234",
        "v/elections/orc/locks/",
        "v/elections/locks/4660",
        "v/elections/a/b/locks/4660",
        "v/reelections/orc/locks/4660",
        "v/keyspaces/orc/locks/4660",
        "locks/4660",
        "4660",
    };
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        CHECK_STR(foreign_name(others[i], 0x1234), "");
    CHECK_STR(foreign_name("/service/demo/leader", 0), "");
}

TEST(names_that_another_program_could_have)
{
    struct tn_etcd_foreign foreign;

    CHECK(tn_etcd_foreign_make(&foreign, &store, "demo/leader"));
    CHECK_STR(foreign.key, "t/demo/leader");
    CHECK_STR(foreign.mark, "t/demo/initialize");
    CHECK(tn_etcd_foreign_make(&foreign, &store, "leader"));
    CHECK_STR(foreign.mark, "t/initialize");
    CHECK(tn_etcd_foreign_make(&foreign, &store, "root/elections/orc"));
    CHECK_STR(foreign.key, "t/root/elections/orc/locks/");
    CHECK_STR(foreign.mark, "t/root/cells/");
    CHECK(!tn_etcd_foreign_make(&foreign, &store, "job"));
    CHECK(!tn_etcd_foreign_make(&foreign, &store, "elections/a/b"));
    CHECK(!tn_etcd_foreign_make(&foreign, &store, "ringleader"));
}
