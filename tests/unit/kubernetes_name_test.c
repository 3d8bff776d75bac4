/* kubernetes_name_test.c - lease names as names of Kubernetes objects, and back. */
#include "net/kube_name.h"

#include <string.h>

#include "tests/harness/test.h"

static char object[TN_KUBE_NAME];
static char name[TN_NAME_MAX + 1];

static const char *spell(const char *of)
{
    tn_kube_name(of, strlen(of), object);
    return object;
}

static bool is_rfc1123(const char *text)
{
    size_t len = strlen(text);

    for (size_t i = 0; i < len; i++) {
        bool inner = i > 0 && i + 1 < len && text[i - 1] != '.' && text[i + 1] != '.';
        bool plain = (text[i] >= 'a' && text[i] <= 'z') || (text[i] >= '0' && text[i] <= '9');
        if (!plain && !(inner && (text[i] == '-' || text[i] == '.')))
            return false;
    }
    return len > 0 && len <= 253;
}

TEST(names_that_kubernetes_takes_stay_as_they_are)
{
    static const char *const plain[] = { "a", "kube-scheduler", "my.app.example", "0-1.x", "a--b" };

    for (size_t i = 0; i < sizeof plain / sizeof plain[0]; i++)
        CHECK_STR(spell(plain[i]), plain[i]);
}

TEST(other_names_are_spelled_out)
{
    CHECK_STR(spell("jobs/nightly-report"), "tenure-jobs-2fnightly-2dreport");
    CHECK_STR(spell("A"), "tenure--41");
    CHECK_STR(spell("tenure-x"), "tenure-tenure-2dx");
    CHECK_STR(spell("-a"), "tenure--2da");
    CHECK_STR(spell("a."), "tenure-a-2e");
    CHECK_STR(spell("a.-b"), "tenure-a-2e-2db");
}

TEST(every_name_comes_back_and_no_two_are_one)
{
    static const char *const odd[] = { "A",   "a/b",  "a-2fb",   "tenure-a-2fb", "tenure--41",
                                       "~",   "x_y",  "tenure-", "a@b:c",        "Z/.../y",
                                       "a.b", "a-.b", ".a" };
    char all[sizeof odd / sizeof odd[0]][TN_KUBE_NAME];

    for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++) {
        memcpy(all[i], spell(odd[i]), TN_KUBE_NAME);
        CHECK(is_rfc1123(object));
        CHECK(tn_kube_name_back(object, NULL, name));
        CHECK_STR(name, odd[i]);
        for (size_t j = 0; j < i; j++)
            CHECK(strcmp(all[i], all[j]) != 0);
    }
}

TEST(long_names_become_a_hash_and_come_back_with_the_full_name)
{
    char full[TN_NAME_MAX + 1] = "";
    char other[TN_KUBE_NAME];

    memset(full, 'a', TN_NAME_MAX); /* Two more than Kubernetes takes. */
    memcpy(other, spell(full), sizeof other);
    CHECK(is_rfc1123(object));
    CHECK(tn_kube_name_is_hash(object));
    CHECK(!tn_kube_name_back(object, NULL, name));
    CHECK(tn_kube_name_back(object, full, name));
    CHECK_STR(name, full);
    full[0] = 'b';
    CHECK(!tn_kube_name_back(object, full, name));
    CHECK(strcmp(spell(full), other) != 0);
}

TEST(names_of_other_objects_are_nobodys)
{
    CHECK(!tn_kube_name_back("tenure-", NULL, name));
    CHECK(!tn_kube_name_back("tenure-a-2", NULL, name));
    CHECK(!tn_kube_name_back("tenure-a-zz", NULL, name));
    CHECK(!tn_kube_name_back("tenure-abc", NULL, name)); /* It would be spelled "abc". */
    CHECK(!tn_kube_name_back("tenure-a-00b", NULL, name));
}
