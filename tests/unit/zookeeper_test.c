/* zookeeper_test.c - what the ZooKeeper store makes of URLs, names and nodes; no server needed. */
#include "tests/harness/test.h"

#ifdef TENURE_ZOOKEEPER

#include <stdlib.h>
#include <string.h>

#include "base/prng.h"
#include "stores/zookeeper/private.h"

static char why[256];

static int parse(const char *rest, struct tn_zk_url *url)
{
    struct tn_text text;

    tn_text_init(&text, why, sizeof why);
    return tn_zk_url_parse(rest, url, &text);
}

TEST(a_url_has_hosts_user_and_chroot)
{
    struct tn_zk_url url;

    CHECK_EQ_I64(parse("//zk1,zk2:2182,[::1]:2183/app/prod", &url), 0);
    CHECK_EQ_U64(url.net.count, 3);
    CHECK_STR(url.net.endpoints[0].host, "zk1");
    CHECK_STR(url.net.endpoints[0].port, "2181");
    CHECK_STR(url.net.endpoints[1].host, "zk2");
    CHECK_STR(url.net.endpoints[1].port, "2182");
    CHECK_STR(url.net.endpoints[2].host, "::1");
    CHECK_STR(url.net.endpoints[2].port, "2183");
    CHECK_STR(url.chroot, "/app/prod");
    CHECK_STR(url.auth, "");
    CHECK_EQ_I64(parse("//ada:p%40ss%2Fword@zk1", &url), 0);
    CHECK_STR(url.auth, "ada:p@ss/word");
    CHECK_STR(url.chroot, "");
    CHECK_EQ_I64(parse("//zk1/", &url), 0);
    CHECK_STR(url.chroot, "");
    CHECK_EQ_I64(parse("//zk1/a/", &url), 0);
    CHECK_STR(url.chroot, "/a");
}

TEST(a_malformed_url_is_refused_without_its_password)
{
    static const char *const bad[] = {
        "",
        "zk1",
        "//",
        "///a",
        "//zk1:0",
        "//zk1:x",
        "//zk1:65536",
        "//zk1,",
        "//,zk1",
        "//[::1",
        "//zk 1",
        "//zk1/a//b",
        "//zk1/../b",
        "//zk1?x=1",
        "//secret@zk1",
        "//a:%4@zk1",
        "//a:%zz@zk1",
        "//zk1/zookeeper",
        "//zk1/zookeeper/x",
        "//a:secret@zk1:x",
    };
    struct tn_zk_url url;

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        CHECK_EQ_I64(parse(bad[i], &url), TENURE_E_INVALID);
        CHECK(why[0] != '\0');
        CHECK(strstr(why, "secret") == NULL);
    }
    CHECK_EQ_I64(parse("//zk1/zookeepers", &url), 0);
}

TEST(more_hosts_than_fit_are_refused)
{
    struct tn_zk_url url;
    char rest[128] = "//a";

    for (int i = 1; i < TN_ENDPOINTS_MAX; i++)
        memcpy(rest + strlen(rest), ",a", 3);
    CHECK_EQ_I64(parse(rest, &url), 0);
    memcpy(rest + strlen(rest), ",a", 3);
    CHECK_EQ_I64(parse(rest, &url), TENURE_E_INVALID);
}

TEST(a_candidates_node_is_told_by_what_stands_behind_the_last_marker)
{
    int64_t seq = 0;

    CHECK(tn_zk_node_parse("_c_0f2b-latch-0000000042", &seq));
    CHECK_EQ_I64(seq, 42);
    CHECK(tn_zk_node_parse("latch-latch-2147483647", &seq));
    CHECK_EQ_I64(seq, 2147483647);
    CHECK(!tn_zk_node_parse("_c_0f2b-lock-0000000042", &seq));
    CHECK(!tn_zk_node_parse("my-latch-7", &seq));
    CHECK(!tn_zk_node_parse("x-latch-000000004x", &seq));
    CHECK(!tn_zk_node_parse("x-latch--000000004", &seq));
    CHECK(!tn_zk_node_parse("x-latch-0000000000000000000", &seq));
    CHECK(!tn_zk_node_parse("", &seq));
}

TEST(a_nodes_prefix_is_curators_and_leads_back_to_the_term)
{
    struct tn_secret term;
    struct tn_secret back;
    char prefix[TN_ZK_NODE_MAX];

    for (unsigned i = 0; i < sizeof term.bytes; i++)
        term.bytes[i] = (uint8_t)(i * 17);
    tn_zk_node_prefix(&term, prefix);
    CHECK_STR(prefix, "_c_00112233-4455-6677-8899-aabbccddeeff-latch-");
    CHECK(tn_zk_node_term(prefix, &back));
    CHECK_MEM(&back, &term, sizeof term);
    CHECK(!tn_zk_node_term("_c_00112233-4455", &back));
    CHECK(!tn_zk_node_term("n_0000000001", &back));
}

TEST(the_lowest_number_is_first_whatever_stands_before_it)
{
    static char a[] = "_c_a-latch-0000000012";
    static char b[] = "_c_z-latch-0000000009";
    static char stranger[] = "000-config";
    char *nodes[] = { stranger, a, b };
    struct String_vector children = { 3, nodes };

    CHECK_STR(tn_zk_first_node(&children), b);
    children.count = 1;
    CHECK(tn_zk_first_node(&children) == NULL);
}

TEST(a_note_is_read_exactly_or_not_at_all)
{
    uint64_t token = 0;

    CHECK(tn_zk_note_parse("token=4294967296", 16, &token));
    CHECK_EQ_U64(token, 4294967296);
    CHECK(!tn_zk_note_parse("token=", 6, &token));
    CHECK(!tn_zk_note_parse("token=12x", 9, &token));
    CHECK(!tn_zk_note_parse("10.0.0.1", 8, &token));
    CHECK(!tn_zk_note_parse("token=99999999999999999999", 26, &token));
    CHECK(!tn_zk_note_parse(NULL, 0, &token));
}

TEST(paths_lead_to_names_and_back)
{
    struct tn_zk_store *store = calloc(1, sizeof *store);
    char path[TN_ZK_PATH_MAX];
    char name[TN_NAME_MAX + 1];
    char node[TN_ZK_PATH_MAX];

    CHECK(store != NULL);
    tn_zk_path_of(store, "", NULL, path);
    CHECK_STR(path, "/");
    memcpy(store->url.chroot, "/app", 5);
    tn_zk_path_of(store, "", NULL, path);
    CHECK_STR(path, "/app");
    tn_zk_path_of(store, "a/b", "n-latch-0000000001", path);
    CHECK_STR(path, "/app/a/b/n-latch-0000000001");
    CHECK(tn_zk_path_parse(store, path, name, node));
    CHECK_STR(name, "a/b");
    CHECK_STR(node, "n-latch-0000000001");
    CHECK(tn_zk_path_parse(store, "/app/a/b", name, node));
    CHECK_STR(name, "a/b");
    CHECK_STR(node, "");
    CHECK(!tn_zk_path_parse(store, "/apple/a", name, node));
    CHECK(!tn_zk_path_parse(store, "/app", name, node));
    free(store);
}

/* Whatever others call their znodes and write into them. */
TEST(random_nodes_are_refused_or_fit)
{
    static const char letters[] = "0123456789abcdef-latch-/_c_token=";
    static struct tn_zk_store store = { .url.chroot = "/app" };
    struct tn_prng prng;
    unsigned nodes = 0;

    tn_prng_seed(&prng, 20);
    for (unsigned round = 0; round < 50000; round++) {
        char text[1024], name[TN_NAME_MAX + 1], node[TN_ZK_PATH_MAX];
        size_t len = 5 + (size_t)tn_prng_below(&prng, round % 10 == 0 ? 780 : 60);
        struct tn_secret term;
        uint64_t token;
        int64_t seq;
        memcpy(text, "/app/", 5);
        for (size_t i = 5; i < len; i++)
            text[i] = round % 3 == 0 ? (char)(1 + tn_prng_below(&prng, 255))
                                     : letters[tn_prng_below(&prng, sizeof letters - 1)];
        if (len > 40 && round % 2 == 0)
            memcpy(text + len - 17, "-latch-0000000001", 17);
        text[len] = '\0';
        if (tn_zk_node_parse(text + 5, &seq)) {
            nodes++;
            CHECK(seq >= 0 && strlen(text + 5) < TN_ZK_NODE_MAX);
        }
        if (tn_zk_path_parse(&store, text, name, node))
            CHECK(strlen(name) > 0 && strlen(node) < TN_ZK_NODE_MAX);
        (void)tn_zk_node_term(text + 5, &term);
        (void)tn_zk_note_parse(text + 5, (int)(len - 5), &token);
    }
    CHECK(nodes > 100);
}

#endif
