/* sandbox.c - `tenure sandbox`: serves the sandbox page on the loopback, and prints its address.
 *
 * The page runs in the browser alone: it is a handful of files and asks for nothing else. They are
 * compressed in the program and sent as they are, since every browser takes gzip.
 *
 * What can fail: an address that is none, or not of the loopback (64), one that is taken (69), and
 * a build without clang's WebAssembly or without libmicrohttpd (69). */
#define _GNU_SOURCE /* environ. */
#include "cli/cli.h"

static const char about[] =
    "Serves a page in which you run, break and tune a lease election: five candidates, one store,\n"
    "one resource, on the code that runs in production, compiled to WebAssembly. The page is "
    "served\n"
    "on the loopback only and loads nothing from elsewhere. Ctrl-C ends it.\n";
static const char after[] = "Examples:\n"
                            "  tenure sandbox --open\n"
                            "  tenure sandbox --listen 127.0.0.1:7480\n"
                            "\n"
                            "Exit status: 0 ended by SIGINT or SIGTERM; 64 bad input; 69 the "
                            "address is taken, or the page\n"
                            "was not built in.\n";

#if !defined(TENURE_SANDBOX) || !defined(TENURE_HTTP)

static int serve(const char *address, bool open)
{
    (void)address;
    (void)open;
    return tn_cli_fail(TN_EXIT_UNAVAILABLE, "sandbox",
                       "this build has no sandbox; install clang, lld and libmicrohttpd-dev and "
                       "build again");
}

#else

#include <arpa/inet.h>
#include <errno.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cli/http.h"
#include "cli/pages.h"

#define CONNECTIONS_MOST 64u
#define IDLE_SECONDS 30u

static const char *type_of(const char *path)
{
    static const struct {
        const char *end, *type;
    } types[] = {
        { ".html", "text/html; charset=utf-8" },
        { ".js", "text/javascript; charset=utf-8" },
        { ".css", "text/css; charset=utf-8" },
        { ".wasm", "application/wasm" },
    };
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (strcmp(path + strlen(path) - strlen(types[i].end), types[i].end) == 0)
            return types[i].type;
    return "application/octet-stream";
}

static const struct tn_page *find_page(const char *url)
{
    for (const struct tn_page *page = tn_pages; page->path != NULL; page++)
        if (strcmp(page->path, strcmp(url, "/") == 0 ? "/index.html" : url) == 0)
            return page;
    return NULL;
}

static enum MHD_Result answer(struct MHD_Connection *connection, unsigned status,
                              const struct tn_page *page)
{
    static const unsigned char text[] = "not here\n";
    static const char *const headers[][2] = {
        { "Cache-Control", "no-cache" },
        { "X-Content-Type-Options", "nosniff" },
        { "Referrer-Policy", "no-referrer" },
    };
    static const char policy[] =
        "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self'; "
        "connect-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'";
    const char *type = page != NULL ? type_of(page->path) : "text/plain";
    const unsigned char *body = page != NULL ? page->gzip : text;
    struct MHD_Response *response =
        MHD_create_response_from_buffer(page != NULL ? page->size : sizeof text - 1,
                                        (void *)(uintptr_t)body, MHD_RESPMEM_PERSISTENT);
    if (response == NULL)
        return MHD_NO;
    enum MHD_Result rc = MHD_add_response_header(response, "Content-Type", type);
    if (rc == MHD_YES && page != NULL)
        rc = MHD_add_response_header(response, "Content-Encoding", "gzip");
    for (size_t i = 0; i < sizeof headers / sizeof headers[0] && rc == MHD_YES; i++)
        rc = MHD_add_response_header(response, headers[i][0], headers[i][1]);
    /* It is the document's; with each of its parts it would only be longer. */
    if (rc == MHD_YES && strncmp(type, "text/html", 9) == 0)
        rc = MHD_add_response_header(response, "Content-Security-Policy", policy);
    if (rc == MHD_YES)
        rc = MHD_queue_response(connection, status, response);
    MHD_destroy_response(response);
    return rc;
}

static enum MHD_Result hear(void *arg, struct MHD_Connection *connection, const char *url,
                            const char *method, const char *version, const char *data, size_t *size,
                            void **request)
{
    static int seen;
    bool reads =
        strcmp(method, MHD_HTTP_METHOD_GET) == 0 || strcmp(method, MHD_HTTP_METHOD_HEAD) == 0;

    (void)arg;
    (void)version;
    (void)data;
    *size = 0;
    if (*request == NULL) { /* The headers only; the answer is due with the next call. */
        *request = &seen;
        return MHD_YES;
    }
    if (!reads)
        return answer(connection, MHD_HTTP_METHOD_NOT_ALLOWED, NULL);
    const struct tn_page *page = find_page(url);
    return answer(connection, page != NULL ? MHD_HTTP_OK : MHD_HTTP_NOT_FOUND, page);
}

/* --- The address ------------------------------------------------------------------------------ */

/* The URL of the socket @fd; false when it is not one of the loopback. */
static bool url_of(int fd, char *buf, size_t size)
{
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } at;
    socklen_t len = sizeof at;
    char host[INET6_ADDRSTRLEN];

    if (getsockname(fd, &at.any, &len) != 0)
        return false;
    if (at.any.sa_family == AF_INET) {
        (void)inet_ntop(AF_INET, &at.v4.sin_addr, host, sizeof host);
        (void)snprintf(buf, size, "http://%s:%u/", host, ntohs(at.v4.sin_port));
        return ntohl(at.v4.sin_addr.s_addr) >> 24 == 127;
    }
    (void)inet_ntop(AF_INET6, &at.v6.sin6_addr, host, sizeof host);
    (void)snprintf(buf, size, "http://[%s]:%u/", host, ntohs(at.v6.sin6_port));
    return IN6_IS_ADDR_LOOPBACK(&at.v6.sin6_addr);
}

static void open_browser(char *url)
{
    static char program[] = "xdg-open";
    char *argv[] = { program, url, NULL };
    extern char **environ;
    posix_spawnattr_t fresh; /* What we block and ignore is not the browser's. */
    sigset_t none, changed;
    pid_t pid;

    (void)sigemptyset(&none);
    (void)sigemptyset(&changed);
    (void)sigaddset(&changed, SIGCHLD);
    (void)sigaddset(&changed, SIGPIPE);
    int rc = posix_spawnattr_init(&fresh);
    if (rc == 0) {
        (void)posix_spawnattr_setsigmask(&fresh, &none);
        (void)posix_spawnattr_setsigdefault(&fresh, &changed);
        (void)posix_spawnattr_setflags(&fresh, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
        rc = posix_spawnp(&pid, program, NULL, &fresh, argv, environ);
        (void)posix_spawnattr_destroy(&fresh);
    }
    if (rc != 0)
        (void)tn_cli_fail(0, "sandbox", "--open: xdg-open: %s; open %s by hand", strerror(rc), url);
}

static int wait_for_end(struct MHD_Daemon *daemon, const sigset_t *ends)
{
    int number;
    (void)sigwait(ends, &number);
    MHD_stop_daemon(daemon);
    return TN_EXIT_OK;
}

static int serve(const char *address, bool open)
{
    char url[100];
    sigset_t ends;
    int fd = -1;

    int status = tn_http_listen("sandbox", "--listen", address, 0, &fd);
    if (status >= 0)
        return status;
    if (!url_of(fd, url, sizeof url)) {
        (void)close(fd);
        return tn_cli_fail(TN_EXIT_USAGE, "sandbox",
                           "--listen: only addresses of the loopback, such as 127.0.0.1:7480; the "
                           "files in build/web are for any web server");
    }
    (void)signal(SIGCHLD, SIG_IGN); /* The browser's end is nothing to us. */
    (void)sigemptyset(&ends);
    (void)sigaddset(&ends, SIGINT);
    (void)sigaddset(&ends, SIGTERM);
    (void)sigprocmask(SIG_BLOCK, &ends, NULL);
    struct MHD_Daemon *daemon = MHD_start_daemon(
        MHD_USE_AUTO | MHD_USE_INTERNAL_POLLING_THREAD, 0, NULL, NULL, hear, NULL,
        MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_CONNECTION_LIMIT, CONNECTIONS_MOST,
        MHD_OPTION_CONNECTION_TIMEOUT, IDLE_SECONDS, MHD_OPTION_END);
    if (daemon == NULL) {
        (void)close(fd);
        return tn_cli_fail(TN_EXIT_UNAVAILABLE, "sandbox", "out of memory or descriptors");
    }
    printf("%s\n", url);
    if (fflush(stdout) == 0 && open)
        open_browser(url);
    return wait_for_end(daemon, &ends);
}

#endif

int tn_cli_sandbox(int argc, char **argv)
{
    const char *address = "127.0.0.1:0";
    bool open = false;
    struct tn_option options[] = {
        TN_STRING("listen", 'l', &address, "ADDR", "a free port",
                  "serve here: HOST:PORT of the loopback"),
        TN_FLAG("open", 'o', &open, "open the page in the browser"),
    };
    struct tn_command command = { .verb = "sandbox",
                                  .about = about,
                                  .after = after,
                                  .options = options,
                                  .option_count = sizeof options / sizeof options[0] };
    int status = tn_cli_options(&command, argc, argv);
    return status >= 0 ? status : serve(address, open);
}
