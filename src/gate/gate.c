/* gate.c - the gate's loop: it listens, and ends what takes too long; gate.h has the rules.
 *
 * What can fail: the options, the fences' file, the address, the server's name. */
#define _GNU_SOURCE
#include "gate/gate.h"

#include <errno.h>
#include <netdb.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/assert.h"
#include "gate/inner.h"
#include "receivers/http_client.h"

enum { SWEEP_MS = 20 };

/* --- The loop ------------------------------------------------------------------------------- */

static struct tn_client *find_late(const struct tn_gate *gate)
{
    uint64_t now = uv_now(&gate->loop);

    for (struct tn_http_peer *it = NULL; (it = tn_http_server_next(&gate->server, it)) != NULL;) {
        struct tn_client *client = (struct tn_client *)it;
        if (client->state != TN_CLIENT_IDLE && now >= client->deadline)
            return client;
    }
    return NULL;
}

/* What is late is told so; nothing needs a timer of its own. The answer to one may end another, so
 * each is looked for from the start. */
static void sweep(uv_timer_t *timer)
{
    struct tn_gate *gate = timer->data;
    struct tn_client *client;

    while ((client = find_late(gate)) != NULL)
        tn_client_late(client);
}

static void stop(uv_signal_t *handle, int number)
{
    (void)number;
    uv_stop(handle->loop);
}

void tn_gate_run(struct tn_gate *gate)
{
    (void)uv_timer_start(&gate->sweep, sweep, SWEEP_MS, SWEEP_MS);
    (void)uv_run(&gate->loop, UV_RUN_DEFAULT);
}

/* --- Opening -------------------------------------------------------------------------------- */

static int port_of(int fd)
{
    struct sockaddr_storage address;
    socklen_t len = sizeof address;

    if (getsockname(fd, (struct sockaddr *)&address, &len) != 0)
        return 0;
    if (address.ss_family == AF_INET6)
        return ntohs(((const struct sockaddr_in6 *)&address)->sin6_port);
    return ntohs(((const struct sockaddr_in *)&address)->sin_port);
}

static int listen_on(struct tn_gate *gate, const struct tn_place *place, struct tn_text *reterr)
{
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE };
    struct tn_http_server_options options = tn_client_options();
    struct addrinfo *found = NULL;
    int one = 1;

    int rc = getaddrinfo(place->host, place->port, &hints, &found);
    if (rc != 0)
        return tn_fence_refuse(TENURE_E_INVALID, place->host, gai_strerror(rc), reterr);
    int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0)
        (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    rc = fd < 0 || bind(fd, found->ai_addr, found->ai_addrlen) != 0 ? -errno : 0;
    freeaddrinfo(found);
    if (rc == 0)
        gate->port = port_of(fd);
    if (rc == 0) {
        gate->server.arg = gate;
        rc = tn_http_server_open(&gate->server, &gate->loop, fd, &options);
    } else if (fd >= 0) {
        (void)close(fd);
    }
    return rc != 0 ? tn_fence_refuse_errno(place->host, -rc, reterr) : 0;
}

static int make_loop(struct tn_gate *gate, struct tn_text *reterr)
{
    static const int numbers[] = { SIGTERM, SIGINT };
    int rc = uv_loop_init(&gate->loop);

    if (rc != 0) {
        tn_text_addf(reterr, "no loop: %s", uv_strerror(rc));
        return TENURE_E_UNAVAILABLE;
    }
    gate->loop.data = gate;
    rc = uv_timer_init(&gate->loop, &gate->sweep);
    TN_ASSERT(rc == 0);
    gate->sweep.data = gate;
    (void)signal(SIGPIPE, SIG_IGN);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        if (uv_signal_init(&gate->loop, &gate->signals[i]) != 0 ||
            uv_signal_start(&gate->signals[i], stop, numbers[i]) != 0)
            rc = TENURE_E_UNAVAILABLE;
    }
    if (rc < 0)
        tn_text_add(reterr, "out of descriptors");
    return rc;
}

int tn_gate_open(const struct tn_gate_options *options, struct tn_gate **ret_gate,
                 struct tn_text *reterr)
{
    struct tn_place place;
    struct tn_gate *gate = calloc(1, sizeof *gate);
    int rc = TENURE_E_INVALID;

    if (gate == NULL) {
        tn_text_add(reterr, "out of memory");
        return TENURE_E_NOMEM;
    }
    gate->options = *options;
    if (options->upstream != NULL && !tn_http_url_parse(options->upstream, &gate->place))
        tn_text_add(reterr, "--upstream: write http://HOST[:PORT]");
    else if (!tn_place_parse(options->listen, strlen(options->listen), "7423", &place))
        tn_text_add(reterr, "--listen: write HOST:PORT, as in 127.0.0.1:7423");
    else
        rc = tn_gate_fences_open(options->fences, &gate->fences, reterr);
    if (rc == 0)
        rc = make_loop(gate, reterr);
    if (rc == 0)
        rc = listen_on(gate, &place, reterr);
    if (rc == 0 && options->upstream != NULL)
        rc = tn_upstream_resolve(gate, reterr);
    if (rc < 0) {
        tn_gate_close(gate);
        return rc;
    }
    *ret_gate = gate;
    return 0;
}

int tn_gate_port(const struct tn_gate *gate)
{
    return gate->port;
}

/* --- Closing -------------------------------------------------------------------------------- */

static void close_handle(uv_handle_t *handle, void *arg)
{
    (void)arg;
    if (!uv_is_closing(handle))
        uv_close(handle, NULL);
}

void tn_gate_close(struct tn_gate *gate)
{
    if (gate == NULL)
        return;
    if (gate->loop.data != NULL) {
        if (gate->server.arg != NULL)
            tn_http_server_close(&gate->server);
        tn_upstream_end_idle(gate);
        uv_walk(&gate->loop, close_handle, NULL); /* What is left is the gate's own. */
        (void)uv_run(&gate->loop, UV_RUN_DEFAULT);
        (void)uv_loop_close(&gate->loop);
    }
    uv_freeaddrinfo(gate->addresses);
    tn_gate_fences_close(gate->fences);
    free(gate);
}
