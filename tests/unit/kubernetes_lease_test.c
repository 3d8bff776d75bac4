/* kubernetes_lease_test.c - Leases of ours and of client-go's, read and written. */
#include "stores/kubernetes/lease.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/harness/test.h"

#define VALUES 256

static struct tn_json_value values[VALUES];
static char text[8192], written[8192];
static const struct timespec wall = { 1795000000, 123456000 }; /* 2026-11-18T11:06:40 */

static struct tn_kube_lease take(const char *document, const char *claimant)
{
    struct tn_kube_lease lease;

    (void)snprintf(text, sizeof text, "%s", document);
    CHECK(tn_json_read(text, strlen(text), values, VALUES) > 0);
    CHECK(tn_kube_lease_read(values, 0, claimant, &lease));
    return lease;
}

static struct tn_row held_row(const char *label)
{
    struct tn_row row = { .held = true, .token = 42, .floor = 41, .ttl = TN_MS(2500), .nonce = 7 };

    row.label = label;
    row.label_len = (uint32_t)strlen(label);
    memset(&row.session, 1, sizeof row.session);
    memset(&row.term, 2, sizeof row.term);
    return row;
}

/* What the server would answer to the write of @row over @document. */
static struct tn_kube_lease write_over(const char *document, const struct tn_row *row)
{
    struct tn_kube_lease old = take(document, NULL);
    struct tn_text out;

    tn_text_init(&out, written, sizeof written);
    tn_kube_lease_write(&out, values, 0, &old, row, &wall);
    CHECK(!tn_text_truncated(&out));
    return take(written, NULL);
}

#define META "\"metadata\":{\"name\":\"job\",\"uid\":\"u-1\",\"resourceVersion\":\"41\""
static const char fresh[] = "{" META "},\"spec\":{}}";
static const char theirs[] =
    "{" META ",\"labels\":{\"app\":\"x\"},\"annotations\":{\"who\":\"me\"},\"managedFields\":[{}]},"
    "\"spec\":{\"holderIdentity\":\"pod_1\",\"leaseDurationSeconds\":15,\"acquireTime\":"
    "\"2026-11-17T10:00:00.000000Z\",\"renewTime\":\"2026-11-17T10:00:02.000000Z\","
    "\"leaseTransitions\":3,\"strategy\":\"OldestEmulationVersion\"}}";

TEST(a_lease_that_nobody_has_held_is_free)
{
    struct tn_kube_lease lease = take(fresh, NULL);

    CHECK_STR(lease.version, "u-1/41");
    CHECK(!lease.row.held);
    CHECK_EQ_U64(lease.row.token, 0);
    CHECK_EQ_U64(lease.row.floor, 41); /* The next token is above the version. */
}

TEST(client_gos_holder_is_shown_and_is_not_ours)
{
    struct tn_kube_lease lease = take(theirs, NULL);

    CHECK(lease.row.held);
    CHECK(lease.foreign);
    CHECK(tn_secret_is_zero(&lease.row.session));
    CHECK_STR(lease.label, "pod_1");
    CHECK_EQ_I64(lease.row.ttl, TN_SEC(15));
    CHECK_EQ_U64(lease.row.token, 4);
}

TEST(ours_comes_back_as_it_was_written_and_keeps_what_is_not_ours)
{
    struct tn_row row = held_row("ada");
    struct tn_kube_lease lease = write_over(theirs, &row);

    CHECK(!lease.foreign);
    CHECK(lease.row.held);
    CHECK_EQ_U64(lease.row.token, 42);
    CHECK_EQ_I64(lease.row.ttl, TN_MS(2500));
    CHECK(tn_secret_equal(&lease.row.session, &row.session));
    CHECK(tn_secret_equal(&lease.row.term, &row.term));
    CHECK_STR(lease.label, "ada");
    CHECK_EQ_U64(lease.transitions, 4);
    (void)write_over(theirs, &row);
    CHECK(strstr(written, "\"leaseDurationSeconds\":3") != NULL);
    CHECK(strstr(written, "\"labels\":{\"app\":\"x\"}") != NULL);
    CHECK(strstr(written, "\"who\":\"me\"") != NULL);
    CHECK(strstr(written, "\"strategy\":\"OldestEmulationVersion\"") != NULL);
    CHECK(strstr(written, "managedFields") == NULL);
    CHECK(strstr(written, "\"uid\":\"u-1\",\"resourceVersion\":\"41\"") != NULL);
    CHECK(strstr(written, "\"acquireTime\":\"2026-11-18T") != NULL);
}

TEST(the_first_holder_is_no_transition)
{
    struct tn_row row = held_row("ada");

    CHECK_EQ_U64(write_over(fresh, &row).transitions, 0);
    CHECK(strstr(written, "\"leaseTransitions\":0") != NULL);
}

/* client-go keeps our annotations when it takes over: they must not count for its holder. */
TEST(annotations_of_an_earlier_holder_do_not_count)
{
    static const char *const changes[][2] = {
        { "\"holderIdentity\":\"ada\"", "\"holderIdentity\":\"bob\"" },
        { "\"holderIdentity\":\"ada\"", "\"holderIdentity\":\"\"   " },
        { "\"renewTime\":\"2026", "\"renewTime\":\"2027" },
        { "\"leaseTransitions\":4", "\"leaseTransitions\":5" },
        { "\"leaseDurationSeconds\":3", "\"leaseDurationSeconds\":9" },
    };
    struct tn_row row = held_row("ada");

    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        struct tn_kube_lease old = take(theirs, NULL);
        struct tn_text out;
        tn_text_init(&out, written, sizeof written);
        tn_kube_lease_write(&out, values, 0, &old, &row, &wall);
        char *at = strstr(written, changes[i][0]);
        CHECK(at != NULL);
        memcpy(at, changes[i][1], strlen(changes[i][1]));
        struct tn_kube_lease lease = take(written, NULL);
        CHECK(lease.foreign);
        CHECK(tn_secret_is_zero(&lease.row.session));
        CHECK(lease.row.token > 42); /* A later term, and told from ours. */
        CHECK_EQ_I64(lease.row.held, i != 1);
    }
}

TEST(every_renewal_is_another_second_to_client_go)
{
    struct tn_row row = held_row("ada");
    struct tn_kube_lease first = write_over(theirs, &row);
    char again[sizeof written];

    (void)snprintf(again, sizeof again, "%s", written);
    struct tn_kube_lease second = write_over(again, &row);
    CHECK_STR(second.acquired, first.acquired);
    CHECK_EQ_U64(second.transitions, first.transitions);
    CHECK(strncmp(first.renewed, second.renewed, 19) < 0);
    CHECK(!second.foreign);
}

TEST(a_release_is_as_client_go_writes_it_and_keeps_the_token)
{
    struct tn_row row = held_row("ada");
    struct tn_row none = { .token = 42, .floor = 41, .term = row.term };
    char again[sizeof written];

    (void)write_over(theirs, &row);
    (void)snprintf(again, sizeof again, "%s", written);
    struct tn_kube_lease lease = write_over(again, &none);
    CHECK(!lease.row.held);
    CHECK_EQ_U64(lease.row.token, 42);
    CHECK(tn_secret_equal(&lease.row.term, &row.term));
    CHECK_EQ_U64(lease.transitions, 4);
    CHECK(strstr(written, "\"holderIdentity\":\"\"") != NULL);
    CHECK(strstr(written, "\"leaseDurationSeconds\":1,") != NULL);
    CHECK_STR(lease.acquired, lease.renewed);
}

TEST(labels_that_json_cannot_hold_come_back)
{
    static const char *const labels[] = { "",           "\xff\xfe",   "a\nb", "caf\xc3\xa9",
                                          "\"quoted\"", "back\\slash" };

    for (size_t i = 0; i < sizeof labels / sizeof labels[0]; i++) {
        struct tn_row row = held_row(labels[i]);
        struct tn_kube_lease lease = write_over(fresh, &row);
        CHECK(!lease.foreign);
        CHECK(lease.row.held);
        CHECK_EQ_U64(lease.row.label_len, row.label_len);
        CHECK_MEM(lease.label, labels[i], row.label_len);
    }
}

TEST(a_preferred_holder_comes_first)
{
    static const char vacant[] = "{" META "},\"spec\":{\"holderIdentity\":\"\",\"leaseDuration"
                                 "Seconds\":1,\"leaseTransitions\":3,\"strategy\":\"s\","
                                 "\"preferredHolder\":\"bob\"}}";
    struct tn_row row = held_row("ada");

    CHECK(take(vacant, "ada").row.held);
    CHECK(!take(vacant, "bob").row.held);
    struct tn_kube_lease lease = write_over(vacant, &row);
    CHECK(!lease.row.revoked);
    CHECK(strstr(written, "preferredHolder") == NULL);
    char *at = strstr(written, "\"strategy\":\"s\"");
    CHECK(at != NULL);
    char marked[sizeof written + 64];
    (void)snprintf(marked, sizeof marked, "%.*s\"preferredHolder\":\"bob\",%s", (int)(at - written),
                   written, at);
    CHECK(take(marked, NULL).row.revoked);
}

TEST(what_is_no_lease_is_refused)
{
    static const char *const bad[] = { "{}", "[]", "{\"metadata\":{}}",
                                       "{\"metadata\":[],\"spec\":1}",
                                       "{\"metadata\":{\"name\":\"a\",\"uid\":\"b\"}}" };
    struct tn_kube_lease lease;

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        (void)snprintf(text, sizeof text, "%s", bad[i]);
        CHECK(tn_json_read(text, strlen(text), values, VALUES) > 0);
        CHECK(!tn_kube_lease_read(values, 0, NULL, &lease));
    }
}
