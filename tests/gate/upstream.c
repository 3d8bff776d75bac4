/* upstream.c - a small HTTP server behind the gate, for tests: it writes down what reached it.
 *
 * usage: upstream LOG      prints the port it listens on
 *
 * Each request becomes a line "METHOD PATH TOKEN BODY" in LOG, written when the work is done. The
 * last segment of the path says how: hold (not before the file LOG.go is there), chunked, close
 * (the end of the answer is the end of the connection), broken (no answer), garbage (none that is
 * HTTP), switch (another protocol, which nobody asked for).
 * A GET has no body here, as in many small servers: whatever follows its head is the next request.
 * Requests are read as the gate writes them; this is no server for anybody else. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/time.h"
#include "runtime/clock.h"

enum { INPUT = 1 << 20 };

static const char *log_path;

static bool ends_with(const char *text, const char *end)
{
    size_t len = strlen(text);

    return len >= strlen(end) && strcmp(text + len - strlen(end), end) == 0;
}

static void write_down(const char *method, const char *path, const char *token, const char *body,
                       size_t len)
{
    char line[4096];
    int fd = open(log_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    int size = snprintf(line, sizeof line, "%s %s %s %.*s\n", method, path, token,
                        len < 3000 ? (int)len : 3000, body);

    if (fd < 0 || write(fd, line, (size_t)size) != size)
        abort();
    (void)close(fd);
}

static void wait_for_go(void)
{
    char go[512];

    (void)snprintf(go, sizeof go, "%s.go", log_path);
    while (access(go, F_OK) != 0)
        tn_clock_pause(TN_MS(5));
}

/* False: the connection is over. */
static bool reply(int fd, const char *path, const char *method)
{
    const char *text = "HTTP/1.1 201 Created\r\nContent-Length: 5\r\nX-Server: up\r\n\r\ndone\n";

    if (strcmp(method, "HEAD") == 0)
        text = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n";
    else if (ends_with(path, "/chunked"))
        text = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
               "3;x=y\r\ndon\r\n2\r\ne\n\r\n0\r\nTrailer: t\r\n\r\n";
    else if (ends_with(path, "/close"))
        text = "HTTP/1.0 200 OK\r\n\r\ndone\n";
    else if (ends_with(path, "/switch"))
        text = "HTTP/1.1 101 Switching Protocols\r\n\r\n"
               "HTTP/1.1 201 Created\r\nContent-Length: 5\r\n\r\ndone\n";
    else if (ends_with(path, "/garbage"))
        text = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\ndone\n";
    else if (ends_with(path, "/broken"))
        return false;
    return write(fd, text, strlen(text)) == (ssize_t)strlen(text) && !ends_with(path, "/close");
}

/* One request at the front of @in; returns whether the connection goes on. */
static bool serve_one(int fd, char *in, size_t *len)
{
    char method[16], path[512], token[32] = "-";
    char *end;
    size_t body = 0;

    while ((end = memmem(in, *len, "\r\n\r\n", 4)) == NULL) {
        ssize_t got = *len < INPUT - 1 ? read(fd, in + *len, INPUT - 1 - *len) : 0;
        if (got <= 0)
            return false;
        *len += (size_t)got;
    }
    size_t head = (size_t)(end - in) + 4;
    end[2] = '\0';
    char *field = strcasestr(in, "\r\nContent-Length: ");
    if (field != NULL)
        body = strtoul(field + 18, NULL, 10);
    field = strcasestr(in, "\r\nFence-Token: ");
    if (field != NULL && sscanf(field + 15, "%31s", token) != 1)
        return false;
    if (sscanf(in, "%15s %511s", method, path) != 2 || head + body >= INPUT)
        return false;
    if (strcmp(method, "GET") == 0)
        body = 0;
    while (*len < head + body) {
        ssize_t got = read(fd, in + *len, INPUT - 1 - *len);
        if (got <= 0)
            return false;
        *len += (size_t)got;
    }
    if (ends_with(path, "/hold"))
        wait_for_go();
    write_down(method, path, token, in + head, body);
    *len -= head + body;
    memmove(in, in + head + body, *len);
    return reply(fd, path, method);
}

static void *serve(void *arg)
{
    int fd = (int)(intptr_t)arg;
    char *in = malloc(INPUT);
    size_t len = 0;

    while (in != NULL && serve_one(fd, in, &len))
        continue;
    free(in);
    (void)close(fd);
    return NULL;
}

int main(int argc, char **argv)
{
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t len = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (argc != 2)
        return 64;
    log_path = argv[1];
    (void)signal(SIGPIPE, SIG_IGN);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, len) != 0 || listen(fd, 128) != 0 ||
        getsockname(fd, (struct sockaddr *)&address, &len) != 0)
        return 1;
    printf("%d\n", ntohs(address.sin_port));
    (void)fflush(stdout);
    for (;;) {
        pthread_t thread;
        int client = accept4(fd, NULL, NULL, SOCK_CLOEXEC);

        if (client >= 0 && pthread_create(&thread, NULL, serve, (void *)(intptr_t)client) == 0)
            (void)pthread_detach(thread);
    }
}
