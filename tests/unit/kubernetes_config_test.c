/* kubernetes_config_test.c - kubeconfig files as people have them, and as they should not be. */
#include "net/kube_config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/harness/test.h"

static char path[] = "/tmp/tenure-kubeconfig.......";
static char error[TN_ERROR_TEXT];
static struct tn_kube_config config;

static int load_url(const char *content, const char *context, const char *url)
{
    char rest[300];
    struct tn_text text;

    memset(path + sizeof path - 7, 'X', 6); /* What mkstemp replaces. */
    int fd = mkstemp(path);
    CHECK(fd >= 0);
    CHECK_EQ_I64(write(fd, content, strlen(content)), (int64_t)strlen(content));
    CHECK_EQ_I64(close(fd), 0);
    (void)snprintf(rest, sizeof rest, "%s?kubeconfig=%s%s%s", url, path,
                   context[0] != '\0' ? "&context=" : "", context);
    tn_text_init(&text, error, sizeof error);
    int rc = tn_kube_config_open(&config, rest, &text);
    CHECK_EQ_I64(unlink(path), 0);
    return rc;
}

static int load(const char *content, const char *context)
{
    return load_url(content, context, "//");
}

#define CLUSTER                                                              \
    "clusters:\n- name: c\n  cluster:\n    server: https://10.0.0.1:6443/\n" \
    "    certificate-authority-data: aGVsbG8=\n"
#define CONTEXT "contexts:\n- {name: x, context: {cluster: c, user: u, namespace: jobs}}\n"

TEST(a_context_with_its_cluster_and_user_is_read)
{
    CHECK_EQ_I64(load("current-context: x\n" CLUSTER CONTEXT
                      "users:\n- name: u\n  user:\n    client-certificate-data: Y2VydA==\n"
                      "    client-key: keys/my.key\n    token: \"abc\"\n",
                      ""),
                 0);
    CHECK_STR(config.server, "https://10.0.0.1:6443");
    CHECK_STR(config.namespace, "jobs");
    CHECK_STR(config.ca_pem, "hello");
    CHECK_STR(config.cert_pem, "cert");
    CHECK_STR(config.key_file, "/tmp/keys/my.key");
    CHECK_STR(config.token, "abc");
    CHECK(strstr(config.origin, "context 'x' of /tmp/") != NULL);
    tn_kube_config_free(&config);
}

TEST(json_is_yaml_and_the_url_has_the_last_word)
{
    CHECK_EQ_I64(
        load_url("{\"clusters\":[{\"name\":\"c\",\"cluster\":{\"server\":\"https://h\"}}],"
                 "\"contexts\":[{\"name\":\"y\",\"context\":{\"cluster\":\"c\",\"user\":\"u\"}}],"
                 "\"users\":[{\"name\":\"u\",\"user\":{\"tokenFile\":\"/t\"}}]}",
                 "y", "//mine"),
        0);
    CHECK_STR(config.namespace, "mine");
    CHECK_STR(config.token_file, "/t");
    tn_kube_config_free(&config);
    CHECK_EQ_I64(load(CLUSTER "contexts: [{name: z, context: {cluster: c}}]", "z"), 0);
    CHECK_STR(config.namespace, "default");
    tn_kube_config_free(&config);
}

TEST(a_plug_in_is_a_command_and_its_words)
{
    CHECK_EQ_I64(load(CLUSTER CONTEXT
                      "users:\n- name: u\n  user:\n    exec:\n"
                      "      apiVersion: client.authentication.k8s.io/v1beta1\n"
                      "      command: ./get-token\n      args:\n      - --region\n      - 'a b'\n"
                      "      env:\n      - name: PROFILE\n        value: prod\n"
                      "      provideClusterInfo: false\n",
                      "x"),
                 0);
    CHECK_STR(config.exec_command, "/tmp/./get-token");
    CHECK_STR(config.exec_args[0], "--region");
    CHECK_STR(config.exec_args[1], "a b");
    CHECK(config.exec_args[2] == NULL);
    CHECK_STR(config.exec_env[0], "PROFILE=prod");
    tn_kube_config_free(&config);
}

TEST(what_is_wrong_is_said_in_one_line)
{
    static const struct {
        const char *content, *context, *words;
    } bad[] = {
        { "", "", "no current-context" },
        { "a: [", "x", "did not find expected node" },
        { "a: b", "x", "no context 'x'" },
        { CONTEXT, "x", "no cluster 'c'" },
        { CLUSTER CONTEXT, "x", "no user 'u'" },
        { CONTEXT "clusters: [{name: c, cluster: {server: ftp://x}}]", "x", "no server https://" },
        { CONTEXT "clusters: [{name: c, cluster: {server: https://x, certificate-authority-data: "
                  "'%'}}]",
          "x", "not base64" },
        { CONTEXT "clusters: [{name: c, cluster: {server: https://x, insecure-skip-tls-verify: "
                  "true}}]",
          "x", "'insecure-skip-tls-verify' is not supported" },
        { CLUSTER CONTEXT "users: [{name: u, user: {as: root}}]", "x", "'as' is not supported" },
        { CLUSTER CONTEXT "users: [{name: u, user: {exec: {command: a}}}]", "x", "apiVersion" },
        { CLUSTER CONTEXT "users: [{name: u, user: {exec: {command: a, interactiveMode: Always, "
                          "apiVersion: client.authentication.k8s.io/v1}}}]",
          "x", "ask a person" },
        { CLUSTER CONTEXT "users: [{name: u, user: {token: [a]}}]", "x", "'token' is not a text" },
    };

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        CHECK_EQ_I64(load(bad[i].content, bad[i].context), TENURE_E_INVALID);
        if (strstr(error, bad[i].words) == NULL || strchr(error, '\n') != NULL)
            tn_test_fail(__FILE__, __LINE__, "%s: %s", bad[i].words, error);
    }
}

TEST(urls_are_read_strictly)
{
    static const char *const bad[] = { "jobs",   "//Jobs",     "//a/b",           "//-a",
                                       "//?x=y", "//?context", "//a?context=%zz", "//a_b" };
    struct tn_text text;

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        tn_text_init(&text, error, sizeof error);
        if (tn_kube_config_open(&config, bad[i], &text) != TENURE_E_INVALID ||
            strstr(error, "kubernetes://[NAMESPACE]") == NULL)
            tn_test_fail(__FILE__, __LINE__, "%s: %s", bad[i], error);
    }
}
