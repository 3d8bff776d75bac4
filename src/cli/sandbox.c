/* sandbox.c - `tenure sandbox`: serves the sandbox page on the loopback, and prints its address.
 *
 * The page runs in the browser alone: it is a handful of files and asks for nothing else. They are
 * compressed in the program and sent as they are, since every browser takes gzip.
 *
 * What can fail: an address that is none, or not of the loopback (64), one that is taken (69), and
 * a build without the page, which says why (69). */
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

#ifndef TENURE_SANDBOX

static int serve(const char *address, bool open)
{
    (void)address;
    (void)open;
    return tn_cli_fail(TN_EXIT_UNAVAILABLE, "sandbox",
                       "this build has no sandbox page: " TENURE_NO_SANDBOX);
}

#else

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "cli/browse.h"
#include "cli/http.h"
#include "http/server.h"
#include "http/target.h"
#include "runtime/pages.h"

#define CONNECTIONS_MOST 64u
#define IDLE_MS 30000u

#define HEADERS                                                      \
    "Cache-Control: no-cache\r\nX-Content-Type-Options: nosniff\r\n" \
    "Referrer-Policy: no-referrer\r\n"

static void refuse_request(struct tn_http_conn *conn, unsigned status, const char *why)
{
    char line[200];
    int len = snprintf(line, sizeof line, "%s\n", why);

    tn_http_conn_answer(conn, &(struct tn_http_response) { .status = status,
                                                           .type = "text/plain",
                                                           .fields = HEADERS,
                                                           .body = line,
                                                           .len = (size_t)len });
}

static void serve_page(struct tn_http_conn *conn, const struct tn_http_head *head)
{
    struct tn_http_target target = { 0 };
    bool reads = tn_http_is(&head->method, "get") || conn->to_head;
    const struct tn_page *page = NULL;

    if (tn_http_target_read(&target, &head->target) == 0)
        page = tn_page_find(tn_pages, target.text, "/index.html");
    tn_http_target_free(&target);
    if (!reads || page == NULL) {
        refuse_request(conn, reads ? TN_STATUS_NOT_FOUND : TN_STATUS_METHOD_NOT_ALLOWED,
                       "not here");
        return;
    }
    /* The policy is the document's; with each of its parts it would only be longer. */
    const char *type = tn_page_type(page);
    bool html = strncmp(type, "text/html", 9) == 0;
    tn_http_conn_answer(conn, &(struct tn_http_response) {
                                  .status = TN_STATUS_OK,
                                  .type = type,
                                  .fields = html ? HEADERS
                                                "Content-Encoding: gzip\r\n"
                                                "Content-Security-Policy: " TN_SANDBOX_POLICY "\r\n"
                                                 : HEADERS "Content-Encoding: gzip\r\n",
                                  .body = (const char *)page->gzip,
                                  .len = page->size });
}

/* --- Serving ---------------------------------------------------------------------------------- */

static void stop_loop(uv_signal_t *handle, int number)
{
    (void)number;
    uv_stop(handle->loop);
}

static void close_handle(uv_handle_t *handle, void *arg)
{
    (void)arg;
    if (!uv_is_closing(handle))
        uv_close(handle, NULL);
}

/* Until SIGINT or SIGTERM. */
static int serve_pages(int fd, const char *url, bool open)
{
    static struct tn_http_server server;
    const struct tn_http_server_options options = {
        .service = { .body_max = 4096, .request = serve_page, .refuse = refuse_request },
        .peers_max = CONNECTIONS_MOST,
        .idle_ms = IDLE_MS,
    };
    uv_loop_t loop;
    uv_signal_t ends[2];

    if (uv_loop_init(&loop) != 0) {
        (void)close(fd);
        return tn_cli_fail(TN_EXIT_UNAVAILABLE, "sandbox", "out of memory or descriptors");
    }
    (void)uv_signal_init(&loop, &ends[0]);
    (void)uv_signal_init(&loop, &ends[1]);
    int rc = tn_http_server_open(&server, &loop, fd, &options);
    if (rc == 0)
        rc = uv_signal_start(&ends[0], stop_loop, SIGINT);
    if (rc == 0)
        rc = uv_signal_start(&ends[1], stop_loop, SIGTERM);
    if (rc == 0) {
        printf("%s\n", url);
        if (fflush(stdout) == 0 && open)
            tn_browse_open("sandbox", url);
        (void)uv_run(&loop, UV_RUN_DEFAULT);
    }
    tn_http_server_close(&server);
    uv_walk(&loop, close_handle, NULL);
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    (void)uv_loop_close(&loop);
    return rc == 0
               ? TN_EXIT_OK
               : tn_cli_fail(TN_EXIT_UNAVAILABLE, "sandbox", "cannot serve: %s", uv_strerror(rc));
}

static int serve(const char *address, bool open)
{
    char url[100];
    int fd = -1;

    int status = tn_http_listen("sandbox", "--listen", address, 0, &fd);
    if (status >= 0)
        return status;
    if (!tn_browse_url(fd, url, sizeof url)) {
        (void)close(fd);
        return tn_cli_fail(TN_EXIT_USAGE, "sandbox",
                           "--listen: only addresses of the loopback, such as 127.0.0.1:7480; the "
                           "files in build/web are for any web server");
    }
    (void)signal(SIGCHLD, SIG_IGN); /* The browser's end is nothing to us. */
    return serve_pages(fd, url, open);
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
    struct tn_command command = TN_COMMAND("sandbox", NULL, 0, options);
    int status = tn_cli_options(&command, argc, argv);
    return status >= 0 ? status : serve(address, open);
}
