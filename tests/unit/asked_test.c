/* asked_test.c - which note concerns a lease. */
#include <string.h>

#include "cli/asked.h"
#include "tests/harness/test.h"

static struct tn_store_lease make(const char *name, const char *label, uint64_t token)
{
    struct tn_store_lease lease = { .record = { .held = label != NULL, .token = token } };

    (void)snprintf(lease.name, sizeof lease.name, "%s", name);
    if (label != NULL) {
        (void)snprintf(lease.record.label, sizeof lease.record.label, "%s", label);
        lease.record.label_len = (uint32_t)strlen(label);
    }
    return lease;
}

static struct tn_asked find_one(struct tn_store_lease note, struct tn_store_lease lease)
{
    static struct tn_store_lease kept; /* The result lies in it. */

    kept = note;
    return tn_asked_find(&kept, 1, &lease);
}

TEST(a_hand_over_concerns_the_term_of_its_token_only)
{
    struct tn_store_lease note = make("~tenure/ask/job", "handover token=7 to=bob", 9);
    struct tn_asked asked = find_one(note, make("job", "ada", 7));

    CHECK_EQ_I64(asked.kind, TN_NOTE_HANDOVER);
    CHECK_STR(asked.to, "bob");
    CHECK_EQ_I64(find_one(note, make("job", "ada", 8)).kind, TN_NOTE_NONE);
    CHECK_EQ_I64(find_one(note, make("job", NULL, 7)).kind, TN_NOTE_NONE);
    CHECK_EQ_I64(find_one(note, make("jo", "ada", 7)).kind, TN_NOTE_NONE);
    note = make("~tenure/ask/job", "handover token=7", 9);
    asked = find_one(note, make("job", "ada", 7));
    CHECK_EQ_I64(asked.kind, TN_NOTE_HANDOVER);
    CHECK(asked.to == NULL);
}

TEST(a_stand_down_concerns_a_free_name_too)
{
    struct tn_store_lease note = make("~tenure/ask/job", "stand-down", 9);

    CHECK_EQ_I64(find_one(note, make("job", NULL, 7)).kind, TN_NOTE_STAND_DOWN);
    CHECK_STR(tn_asked_word(TN_NOTE_STAND_DOWN), "stand-down");
    note.record.held = false;
    CHECK_EQ_I64(find_one(note, make("job", NULL, 7)).kind, TN_NOTE_NONE);
    note = make("~tenure/ask/job", "something a later version asks for", 9);
    CHECK_EQ_I64(find_one(note, make("job", NULL, 7)).kind, TN_NOTE_NONE);
}

TEST(a_drain_concerns_what_the_node_holds)
{
    struct tn_store_lease host = make("~tenure/drain/host/web1", "drain", 9);
    struct tn_store_lease id = make("~tenure/drain/id/web1-4711", "drain", 9);

    CHECK_EQ_I64(find_one(host, make("job", "web1-4711", 7)).kind, TN_NOTE_DRAIN);
    CHECK_EQ_I64(find_one(host, make("job", "web1", 7)).kind, TN_NOTE_DRAIN);
    CHECK_EQ_I64(find_one(host, make("job", "web12", 7)).kind, TN_NOTE_NONE);
    CHECK_EQ_I64(find_one(host, make("job", "web1-a", 7)).kind, TN_NOTE_NONE);
    CHECK_EQ_I64(find_one(host, make("job", NULL, 7)).kind, TN_NOTE_NONE);
    CHECK_EQ_I64(find_one(id, make("job", "web1-4711", 7)).kind, TN_NOTE_DRAIN);
    CHECK_EQ_I64(find_one(id, make("job", "web1-4712", 7)).kind, TN_NOTE_NONE);
}

TEST(a_wish_about_the_name_comes_before_one_about_the_node)
{
    struct tn_store_lease notes[] = { make("~tenure/ask/job", "stand-down", 9),
                                      make("~tenure/drain/id/ada", "drain", 8) };
    struct tn_store_lease lease = make("job", "ada", 7);

    CHECK_EQ_I64(tn_asked_find(notes, 2, &lease).kind, TN_NOTE_STAND_DOWN);
    struct tn_store_lease other = make("other", "ada", 7);
    CHECK_EQ_I64(tn_asked_find(notes, 2, &other).kind, TN_NOTE_DRAIN);
}
