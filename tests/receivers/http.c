/* http.c - a server behind `tenure gate` as a receiver: each record is a POST that it logs. */
#define _GNU_SOURCE /* mkdtemp */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/number.h"
#include "base/time.h"
#include "base/token.h"
#include "receivers/http_client.h"
#include "receivers/target.h"
#include "tests/receivers/fences.h"

#define TIMEOUT TN_SEC(60)

static struct place place;
static char log_path[128];
static char fences_path[128];
static char upstream[64]; /* The server itself. */
static pid_t server = -1;
static pid_t gate = -1;

/* Start a program that prints a line with the port that it listens on. */
static pid_t start(char *const argv[], unsigned *ret_port)
{
    int out[2];
    char line[128] = "";

    if (pipe(out) != 0)
        return -1;
    pid_t child = fork();
    if (child == 0) {
        (void)dup2(out[1], STDOUT_FILENO);
        (void)close(out[0]);
        (void)close(out[1]);
        (void)execv(argv[0], argv);
        _exit(127);
    }
    (void)close(out[1]);
    FILE *in = fdopen(out[0], "r");
    const char *digits = NULL;
    if (in != NULL && fgets(line, sizeof line, in) != NULL)
        digits = strpbrk(line, "0123456789");
    if (in != NULL)
        (void)fclose(in);
    *ret_port = digits != NULL ? (unsigned)strtoul(digits, NULL, 10) : 0;
    return child;
}

static void end(pid_t *pid)
{
    if (*pid > 0) {
        (void)kill(*pid, SIGTERM);
        (void)waitpid(*pid, NULL, 0);
    }
    *pid = -1;
}

static void finish(void)
{
    end(&gate);
    end(&server);
    (void)unlink(log_path);
    (void)unlink(fences_path);
    (void)rmdir(place.folder);
}

static bool prepare(char *why, size_t size)
{
    const char *build = getenv("TENURE_BUILD");
    char programs[2][256];
    unsigned port = 0;

    if (!place_make(&place, why, size))
        return false;
    (void)snprintf(log_path, sizeof log_path, "%s/log", place.folder);
    (void)snprintf(fences_path, sizeof fences_path, "%s/gate.db", place.folder);
    (void)snprintf(programs[0], sizeof programs[0], "%s/tests/fixtures/upstream",
                   build != NULL ? build : "build");
    (void)snprintf(programs[1], sizeof programs[1], "%s/tenure", build != NULL ? build : "build");
    server = start((char *[]) { programs[0], log_path, NULL }, &port);
    (void)snprintf(upstream, sizeof upstream, "http://127.0.0.1:%u", port);
    char *const arguments[] = { programs[1], "gate",      "--upstream", upstream,
                                "--fences",  fences_path, "--listen",   "127.0.0.1:0",
                                "--timeout", "60s",       NULL };
    gate = start(arguments, &port);
    (void)snprintf(place.url, sizeof place.url, "http://127.0.0.1:%u", port);
    (void)snprintf(why, size, "the gate does not start");
    return port != 0;
}

static void *open_connection(char *error, size_t size)
{
    struct tn_http_client *client = malloc(sizeof *client);
    struct tn_text text;

    tn_text_init(&text, error, size);
    if (client == NULL ||
        tn_http_client_init(client, unguarded ? upstream : place.url, &text) < 0) {
        free(client);
        return NULL;
    }
    return client;
}

static int write_record(void *connection, uint64_t token, unsigned writer, unsigned n, char *error,
                        size_t size)
{
    char record[64];
    char head[256];
    struct tn_http_answer answer;
    struct tn_text text;

    int len = snprintf(record, sizeof record, "%u %u", writer, n);
    int head_len = snprintf(head, sizeof head,
                            "POST /log HTTP/1.1\r\nHost: gate\r\nFence-Token: %llu\r\n"
                            "Content-Length: %d\r\n\r\n",
                            (unsigned long long)token, len);
    tn_text_init(&text, error, size);
    int rc = tn_http_ask(connection, head, (size_t)head_len, record, (size_t)len, false, TIMEOUT,
                         &answer, &text);
    if (rc == 0 && answer.head->status == 412)
        return TENURE_E_STALE;
    if (rc == 0 && answer.head->status != 201) {
        tn_text_addf(&text, "status %u", answer.head->status);
        rc = TENURE_E_UNAVAILABLE;
    }
    return rc;
}

static int raise_fence(uint64_t token, char *error, size_t size)
{
    return place_raise(&place, token, error, size);
}

/* "POST /log TOKEN WRITER N" */
static bool read_records(record_each each, void *arg)
{
    char line[256];
    FILE *in = fopen(log_path, "r");
    bool good = in != NULL;

    while (good && fgets(line, sizeof line, in) != NULL) {
        char digits[TN_TOKEN_TEXT];
        uint64_t token = 0;
        unsigned writer = 0, n = 0;

        good = sscanf(line, "POST /log %20s %u %u\n", digits, &writer, &n) == 3 &&
               tn_u64_parse(digits, &token) == 0;
        each(arg, token, writer, n);
    }
    if (in != NULL)
        (void)fclose(in);
    return good;
}

static bool read_highest(uint64_t *ret_highest)
{
    return place_highest(&place, ret_highest);
}

const struct receiver http_receiver = {
    .name = "http",
    .prepare = prepare,
    .finish = finish,
    .open = open_connection,
    .write = write_record,
    .raise = raise_fence,
    .read = read_records,
    .highest = read_highest,
};
