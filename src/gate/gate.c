/* gate.c - the gate's loop: it listens, and ends what takes too long; gate.h has the rules.
 *
 * What can fail: the options, the fences' file, the address, the server's name. */
#define _GNU_SOURCE
#include "gate/gate.h"

#include <netdb.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "gate/inner.h"
#include "receivers/http_client.h"

enum { SWEEP_MS = 20 };

/* --- The loop ------------------------------------------------------------------------------- */

static void accept_one(uv_stream_t *listener, int status)
{
    if (status == 0)
        tn_client_begin(listener->data);
}

/* What is late is told so; nothing needs a timer of its own. */
static void sweep(uv_timer_t *timer)
{
    struct tn_gate *gate = timer->data;
    uint64_t now = uv_now(&gate->loop);

    if (gate->unaccepted)
        tn_client_begin(gate);
    for (struct tn_client *client = gate->clients, *next; client != NULL; client = next) {
        next = client->next;
        if (now >= client->deadline)
            tn_client_late(client);
    }
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

static int port_of(const uv_tcp_t *tcp)
{
    struct sockaddr_storage address;
    int len = sizeof address;

    if (uv_tcp_getsockname(tcp, (struct sockaddr *)&address, &len) != 0)
        return 0;
    if (address.ss_family == AF_INET6)
        return ntohs(((const struct sockaddr_in6 *)&address)->sin6_port);
    return ntohs(((const struct sockaddr_in *)&address)->sin_port);
}

static int listen_on(struct tn_gate *gate, const struct tn_place *place, struct tn_text *reterr)
{
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE };
    struct addrinfo *found = NULL;

    int rc = getaddrinfo(place->host, place->port, &hints, &found);
    if (rc != 0)
        return tn_fence_refuse(TENURE_E_INVALID, place->host, gai_strerror(rc), reterr);
    gate->listener.data = gate;
    rc = uv_tcp_bind(&gate->listener, found->ai_addr, 0);
    if (rc == 0)
        rc = uv_listen((uv_stream_t *)&gate->listener, TN_GATE_CLIENTS_MAX, accept_one);
    freeaddrinfo(found);
    if (rc != 0)
        return tn_fence_refuse_errno(place->host, -rc, reterr);
    gate->port = port_of(&gate->listener);
    return 0;
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
    rc = uv_tcp_init(&gate->loop, &gate->listener);
    TN_ASSERT(rc == 0);
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
        for (struct tn_client *client = gate->clients; client != NULL; client = client->next)
            tn_client_end(client);
        tn_upstream_end_idle(gate);
        uv_walk(&gate->loop, close_handle, NULL); /* What is left is the gate's own. */
        (void)uv_run(&gate->loop, UV_RUN_DEFAULT);
        (void)uv_loop_close(&gate->loop);
    }
    uv_freeaddrinfo(gate->addresses);
    tn_gate_fences_close(gate->fences);
    free(gate);
}
