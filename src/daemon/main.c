/* main.c - tenured, from its options to its end.
 *
 * A usage error is one line on stderr and exit status 64, before anything is created. */
#define _GNU_SOURCE
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "daemon/settings.h"
#include "runtime/notify.h"

static int status_of(int rc)
{
    switch (rc) {
    case TENURE_E_INVALID:
        return TN_STATUS_USAGE;
    case TENURE_E_DENIED:
        return TN_STATUS_DENIED;
    default:
        return TN_STATUS_UNAVAILABLE;
    }
}

static void say_ready(const struct tn_server *server)
{
    char line[1024];
    struct tn_text text;

    tn_text_init(&text, line, sizeof line);
    tn_text_add(&text, "tenured ready on");
    for (uint32_t i = 0; i < server->listener_count; i++) {
        if (server->listeners[i].http)
            continue;
        tn_text_add(&text, i > 0 ? ", " : " ");
        tn_listener_name(&server->listeners[i], &text);
    }
    if (tn_http_port(server) != 0)
        tn_text_addf(&text, ", http:%d", tn_http_port(server));
    (void)tn_notify("READY=1");
    struct pollfd room = { .fd = STDOUT_FILENO, .events = POLLOUT };
    if (poll(&room, 1, 0) == 0) {
        tn_log("stdout is not read, so the line that begins \"tenured ready\" is left out");
        return; /* Holders wait for their renewals. */
    }
    (void)puts(line);
    (void)fflush(stdout);
}

static int serve(const struct tn_server_config *config)
{
    struct tn_server *server = calloc(1, sizeof *server);
    char line[450];
    struct tn_text err;
    int status;

    if (server == NULL)
        return TN_STATUS_UNAVAILABLE;
    tn_text_init(&err, line, sizeof line);
    tn_log_open(config->log_json);
    int rc = tn_server_open(server, config, &err);
    if (rc == 0) {
        say_ready(server);
        status = tn_server_run(server);
        tn_server_close(server);
    } else {
        tn_log_error("%s", line[0] != 0 ? line : tenure_strerror(rc));
        status = status_of(rc);
    }
    if (tn_agent_left_open(server)) { /* No cleaning up under a thread that runs. */
        tn_log_finish();
        _exit(status);
    }
    free(server);
    tn_log_finish();
    return status;
}

int main(int argc, char **argv)
{
    static struct tn_settings settings;

    tn_settings_init(&settings);
    int status = tn_settings_take(&settings, argc, argv);
    if (status < 0)
        status = tn_settings_complete(&settings);
    return status < 0 ? serve(&settings.config) : status;
}
