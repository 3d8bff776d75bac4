/* note_test.c - what notes say, whom they make step down, whom they keep out, and until when. */
#include <string.h>

#include "core/note.h"
#include "core/plan.h"
#include "runtime/note_name.h"
#include "tests/harness/test.h"

static const struct tn_note_times times = { .settle = TN_MS(100), .back = TN_SEC(2) };

static struct tn_note parse(const char *text)
{
    return tn_note_parse(text, strlen(text), "bob", 3);
}

static struct tn_note note(const char *text, uint64_t number, tenure_ns lasts)
{
    struct tn_note it = parse(text);

    it.number = number;
    it.lasts = lasts;
    return it;
}

static void hear(struct tn_notes *notes, tenure_ns now, const char *text, uint64_t number)
{
    struct tn_note it = note(text, number, TN_SEC(10));

    tn_notes_hear(notes, now, &it);
}

TEST(labels_that_are_understood)
{
    struct tn_note it = parse("handover token=7");
    CHECK_EQ_I64(it.kind, TN_NOTE_HANDOVER);
    CHECK_EQ_I64((int64_t)it.token, 7);
    CHECK(!it.directed && !it.chosen);
    it = parse("handover token=18446744073709551615 to=bob");
    CHECK_EQ_I64(it.kind, TN_NOTE_HANDOVER);
    CHECK(it.token == UINT64_MAX && it.directed && it.chosen);
    it = parse("handover token=7 to=bob the second");
    CHECK(it.kind == TN_NOTE_HANDOVER && it.directed && !it.chosen);
    CHECK_EQ_I64(parse("stand-down").kind, TN_NOTE_STAND_DOWN);
    CHECK_EQ_I64(parse("drain").kind, TN_NOTE_DRAIN);
}

TEST(labels_that_are_not)
{
    static const char *const texts[] = {
        "",
        "handover",
        "handover token=",
        "stand-down ",
        "drains",
        "handover token=0",
        "Handover token=7",
        "handover token=7 ",
        "handover token=7 to=",
        "handover token=7 from=ada",
        "handover token=18446744073709551616",
        "handover token=-7",
    };

    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        CHECK_EQ_I64(parse(texts[i]).kind, TN_NOTE_NONE);
}

TEST(the_holder_steps_down_for_its_own_token_only)
{
    struct tn_notes notes = { 0 };

    CHECK_EQ_I64(tn_notes_ask(&notes, 0, 7, &times), TN_NOTE_NONE);
    hear(&notes, TN_SEC(1), "handover token=7", 5);
    CHECK_EQ_I64(tn_notes_ask(&notes, TN_SEC(1), 7, &times), TN_NOTE_HANDOVER);
    CHECK_EQ_I64(tn_notes_ask(&notes, TN_SEC(1), 8, &times), TN_NOTE_NONE);
    CHECK_EQ_I64(tn_notes_ask(&notes, TN_SEC(1), 6, &times), TN_NOTE_NONE);
    CHECK(!tn_notes_bar(&notes, TN_SEC(1)));
    CHECK_EQ_I64(tn_notes_ask(&notes, TN_SEC(11), 7, &times), TN_NOTE_NONE); /* It is over. */
}

TEST(a_directed_hand_over_lets_the_others_leave_the_line_first)
{
    struct tn_notes notes = { 0 };

    hear(&notes, TN_SEC(1), "handover token=7 to=eve", 5);
    CHECK_EQ_I64(tn_notes_ask(&notes, TN_SEC(1), 7, &times), TN_NOTE_NONE);
    CHECK_EQ_I64(tn_notes_wake_at(&notes, TN_SEC(1), &times), TN_SEC(1) + TN_MS(100));
    CHECK_EQ_I64(tn_notes_ask(&notes, TN_SEC(1) + TN_MS(100), 7, &times), TN_NOTE_HANDOVER);
    CHECK(tn_notes_bar(&notes, TN_SEC(1)));
    tn_notes_see(&notes, TN_SEC(2), true, 7, &times);
    CHECK(tn_notes_bar(&notes, TN_SEC(2)));
    tn_notes_see(&notes, TN_SEC(2), true, 9, &times);
    CHECK(!tn_notes_bar(&notes, TN_SEC(2))); /* A later term: the note is spent. */
}

TEST(the_chosen_one_is_not_kept_out_and_not_asked)
{
    struct tn_notes notes = { 0 };

    tn_notes_stand_back(&notes, TN_SEC(1), 6, &times);
    CHECK(tn_notes_bar(&notes, TN_SEC(1)));
    hear(&notes, TN_SEC(1), "handover token=7 to=bob", 5);
    CHECK(!tn_notes_bar(&notes, TN_SEC(1)));
    CHECK_EQ_I64(tn_notes_ask(&notes, TN_SEC(5), 7, &times), TN_NOTE_NONE);
}

TEST(who_is_chosen_and_does_not_come_is_not_waited_for_for_ever)
{
    struct tn_notes notes = { 0 };

    hear(&notes, TN_SEC(1), "handover token=7 to=eve", 5);
    tn_notes_see(&notes, TN_SEC(2), false, 7, &times);
    CHECK(tn_notes_bar(&notes, TN_SEC(3)));
    CHECK_EQ_I64(tn_notes_wake_at(&notes, TN_SEC(3), &times), TN_SEC(4));
    tn_notes_see(&notes, TN_SEC(3), false, 7, &times); /* The same vacancy. */
    CHECK(!tn_notes_bar(&notes, TN_SEC(4)));
}

TEST(who_stepped_down_stands_back_until_another_leads)
{
    struct tn_notes notes = { 0 };

    tn_notes_stand_back(&notes, TN_SEC(1), 7, &times);
    CHECK(tn_notes_bar(&notes, TN_SEC(2)));
    CHECK_EQ_I64(tn_notes_wake_at(&notes, TN_SEC(2), &times), TN_SEC(3));
    CHECK(!tn_notes_bar(&notes, TN_SEC(3)));
    tn_notes_stand_back(&notes, TN_SEC(4), 9, &times);
    tn_notes_see(&notes, TN_SEC(4), true, 9, &times);
    CHECK(tn_notes_bar(&notes, TN_SEC(4)));
    tn_notes_see(&notes, TN_SEC(4), true, 10, &times);
    CHECK(!tn_notes_bar(&notes, TN_SEC(4)));
    tn_notes_stand_back(&notes, TN_SEC(5), 9, &times); /* Another one leads already. */
    CHECK(!tn_notes_bar(&notes, TN_SEC(5)));
}

TEST(stand_down_and_drain_end_any_term_and_keep_out_while_they_last)
{
    for (int slot = 0; slot < TN_NOTE_SLOTS; slot++) {
        struct tn_node_notes node = { 0 };
        struct tn_notes notes = { .node = &node };
        struct tn_note it = note(slot == TN_NOTE_OF_NAME ? "stand-down" : "drain", 5, TN_SEC(10));
        if (slot == TN_NOTE_OF_NAME)
            tn_notes_hear(&notes, TN_SEC(1), &it);
        else
            tn_node_notes_hear(&node, TN_SEC(1), (enum tn_note_slot)slot, &it);
        CHECK_EQ_I64(tn_notes_ask(&notes, TN_SEC(2), 99, &times), it.kind);
        CHECK(tn_notes_bar(&notes, TN_SEC(2)));
        CHECK_EQ_I64(tn_notes_wake_at(&notes, TN_SEC(2), &times), TN_SEC(11));
        CHECK(!tn_notes_bar(&notes, TN_SEC(11)));
        CHECK_EQ_I64(tn_notes_wake_at(&notes, TN_SEC(11), &times), TN_NEVER);
    }
}

TEST(nobody_campaigns_before_the_notes_about_its_process_were_read)
{
    struct tn_node_notes node = { 0 };
    struct tn_notes notes = { .node = &node };
    struct tn_note none = { .kind = TN_NOTE_NONE };
    struct tn_note drain = note("drain", 5, TN_SEC(10));

    tn_node_notes_await(&node, TN_NOTE_OF_ID, TN_SEC(2));
    tn_node_notes_await(&node, TN_NOTE_OF_HOST, TN_SEC(2));
    CHECK(tn_notes_bar(&notes, TN_SEC(1)));
    CHECK_EQ_I64(tn_notes_wake_at(&notes, TN_SEC(1), &times), TN_SEC(2));
    tn_node_notes_hear(&node, TN_SEC(1), TN_NOTE_OF_ID, &none);
    CHECK(tn_notes_bar(&notes, TN_SEC(1)));
    CHECK(!tn_notes_bar(&notes, TN_SEC(2))); /* No word: not for ever. */
    tn_node_notes_hear(&node, TN_SEC(1), TN_NOTE_OF_HOST, &none);
    CHECK(!tn_notes_bar(&notes, TN_SEC(1)));
    CHECK_EQ_I64(tn_notes_wake_at(&notes, TN_SEC(1), &times), TN_NEVER);
    tn_node_notes_hear(&node, TN_SEC(1), TN_NOTE_OF_HOST, &drain);
    CHECK(tn_notes_bar(&notes, TN_SEC(9)));
}

TEST(an_older_note_and_the_same_again_change_nothing)
{
    struct tn_notes notes = { 0 };
    struct tn_note end = { .kind = TN_NOTE_NONE, .number = 5 };

    hear(&notes, TN_SEC(1), "stand-down", 5);
    hear(&notes, TN_SEC(2), "handover token=7", 4);
    hear(&notes, TN_SEC(9), "stand-down", 5); /* Does not last longer for being told again. */
    CHECK(tn_notes_bar(&notes, TN_SEC(10)));
    CHECK(!tn_notes_bar(&notes, TN_SEC(11)));
    hear(&notes, TN_SEC(12), "stand-down", 6);
    tn_notes_hear(&notes, TN_SEC(13), &end); /* The end of an older one. */
    CHECK(tn_notes_bar(&notes, TN_SEC(13)));
    end.number = 6;
    tn_notes_hear(&notes, TN_SEC(13), &end);
    CHECK(!tn_notes_bar(&notes, TN_SEC(13)));
    hear(&notes, TN_SEC(13), "stand-down", 6); /* Late word of what has ended. */
    CHECK(!tn_notes_bar(&notes, TN_SEC(13)));
}

TEST(names_of_notes)
{
    char name[TN_NAME_MAX + 1], longest[TN_NAME_MAX + 1];
    enum tn_note_slot slot;

    CHECK(tn_note_name_ask("jobs/a", name));
    CHECK_STR(name, "~tenure/ask/jobs/a");
    CHECK_STR(tn_note_name_about(name, &slot), "jobs/a");
    CHECK_EQ_I64(slot, TN_NOTE_OF_NAME);
    CHECK(tn_note_name_id("web 1:/x", name));
    CHECK_STR(name, "~tenure/drain/id/web:201:3a:2fx");
    CHECK(tn_note_name_host("..", name));
    CHECK_STR(name, "~tenure/drain/host/:2e.");
    CHECK(!tn_note_name_id("", name));
    memset(longest, 'x', TN_NAME_MAX);
    longest[TN_NAME_MAX] = '\0';
    CHECK(!tn_note_name_ask(longest, name));
    CHECK(!tn_note_name_host(longest, name));
    CHECK(tn_name_is_reserved("~tenure/x"));
    CHECK(!tn_name_is_reserved("~tenure"));
    CHECK(tn_note_name_about("~tenure/other/x", &slot) == NULL);
}

TEST(a_note_lasts_for_a_day_at_most_whatever_the_store_says)
{
    struct tn_notes notes = { 0 };
    struct tn_note it = note("stand-down", 1, TN_NEVER);

    tn_notes_hear(&notes, TN_SEC(5), &it);
    CHECK(tn_notes_bar(&notes, TN_SEC(5)));
    CHECK_EQ_I64(tn_notes_wake_at(&notes, TN_SEC(5), &times), TN_SEC(5) + TN_TTL_MAX);
    CHECK(!tn_notes_bar(&notes, TN_SEC(5) + TN_TTL_MAX));
}

TEST(a_note_about_a_process_can_only_drain_it)
{
    struct tn_node_notes node = { 0 };
    struct tn_notes notes = { .node = &node };
    struct tn_note it = note("handover token=7", 1, TN_SEC(10));

    tn_node_notes_hear(&node, TN_SEC(5), TN_NOTE_OF_ID, &it);
    CHECK(!tn_notes_bar(&notes, TN_SEC(5)));
    CHECK(tn_notes_ask(&notes, TN_SEC(5), 8, &times) == TN_NOTE_NONE);
    it = note("drain", 2, TN_SEC(10));
    tn_node_notes_hear(&node, TN_SEC(6), TN_NOTE_OF_ID, &it);
    CHECK(tn_notes_ask(&notes, TN_SEC(6), 8, &times) == TN_NOTE_DRAIN);
}
