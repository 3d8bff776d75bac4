/* upstream.c - connections to the server behind the gate, which are used again.
 *
 * Happy path: an idle connection is taken, or one is made; the request goes out with a head of our
 * own making, so that the server reads its length as we did; the answer is read whole and handed to
 * the client; the connection is idle again. What can fail: the connection before anything was sent,
 * which is harmless (502), or after that, when nobody knows (504). */
#define _GNU_SOURCE
#include <netdb.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "gate/inner.h"

enum { IDLE_MAX = 256, SWITCHING = 101 };

struct tn_gate_upstream {
    struct tn_gate_link link; /* First. */
    struct tn_gate *gate;
    struct tn_gate_upstream *next, **back; /* Idle. */
    struct tn_client *client;              /* NULL: nobody waits. */
    size_t attempt;                        /* Which of the server's addresses. */
    uv_connect_t connect;
    struct tn_http_content body; /* Of the answer. */
};

static struct tn_gate_upstream *upstream_of(struct tn_gate_link *link)
{
    return (struct tn_gate_upstream *)link;
}

static bool connect_to(struct tn_client *client, size_t attempt, struct tn_gate_upstream *old);

/* --- Idle ----------------------------------------------------------------------------------- */

static void put_idle(struct tn_gate_upstream *upstream)
{
    struct tn_gate *gate = upstream->gate;

    upstream->client = NULL;
    upstream->body = (struct tn_http_content) { 0 };
    if (gate->idle_count == IDLE_MAX) {
        tn_link_close(&upstream->link);
        return;
    }
    gate->idle_count++;
    upstream->next = gate->idle;
    upstream->back = &gate->idle;
    if (gate->idle != NULL)
        gate->idle->back = &upstream->next;
    gate->idle = upstream;
}

static void take_idle(struct tn_gate_upstream *upstream)
{
    *upstream->back = upstream->next;
    if (upstream->next != NULL)
        upstream->next->back = upstream->back;
    upstream->back = NULL;
    upstream->gate->idle_count--;
}

void tn_upstream_end_idle(struct tn_gate *gate)
{
    while (gate->idle != NULL) {
        struct tn_gate_upstream *upstream = gate->idle;

        take_idle(upstream);
        tn_link_close(&upstream->link);
    }
}

/* --- Answers -------------------------------------------------------------------------------- */

void tn_upstream_forget(struct tn_gate_upstream *upstream)
{
    upstream->client = NULL;
    tn_link_close(&upstream->link);
}

static void lose(struct tn_gate_upstream *upstream, unsigned status, const char *why)
{
    struct tn_client *client = upstream->client;

    if (upstream->back != NULL)
        take_idle(upstream);
    tn_upstream_forget(upstream);
    if (client != NULL)
        tn_client_failed(client, status, why);
}

static void lose_answer(struct tn_gate_upstream *upstream)
{
    lose(upstream, 504, "the server gave no answer, or none that is HTTP; it may have happened");
}

/* An answer at the front, if it is whole; @over: nothing more will come. */
static void read_answer(struct tn_gate_upstream *upstream, bool over)
{
    struct tn_gate_link *link = &upstream->link;
    struct tn_client *client = upstream->client;
    struct tn_http_head *head = &upstream->gate->head;
    int64_t len;

    while ((len = tn_http_read(link->in, link->in_len, client->peer.http.to_head, head)) > 0 &&
           head->status < 200 && head->status != SWITCHING)
        tn_link_take(link, (size_t)len);
    if (len > 0 && head->status == SWITCHING)
        len = TENURE_E_INVALID; /* Nobody has asked for another protocol. */
    if (len == 0 && !over)
        return;
    int rc = len > 0 ? tn_http_gather(link->in, &link->in_len, head, (size_t)len,
                                      TN_GATE_ANSWER_MAX, &upstream->body)
                     : TENURE_E_INVALID;
    if (rc == 0 && !over)
        return;
    if (rc == 0 && head->body == TN_HTTP_UNTIL_CLOSE && !link->broken)
        rc = 1;
    /* Bytes behind the answer belong to nobody. */
    if (rc != 1 || link->in_len != (size_t)len + upstream->body.len) {
        lose_answer(upstream);
        return;
    }
    upstream->client = NULL;
    size_t built = tn_client_answered(client, head, link->in, (size_t)len, upstream->body.len);
    tn_link_take(link, link->in_len);
    if (head->keep_alive && !over && !link->sending)
        put_idle(upstream);
    else
        tn_link_close(link);
    tn_client_landed(client, built);
}

static void heard(struct tn_gate_link *link)
{
    struct tn_gate_upstream *upstream = upstream_of(link);

    if (upstream->client == NULL)
        lose(upstream, 0, NULL); /* It spoke without being asked. */
    else
        read_answer(upstream, false);
}

static void ended(struct tn_gate_link *link)
{
    struct tn_gate_upstream *upstream = upstream_of(link);

    if (upstream->client == NULL)
        lose(upstream, 0, NULL);
    else
        read_answer(upstream, true);
}

static void sent(struct tn_gate_link *link)
{
    if (link->broken)
        lose_answer(upstream_of(link));
}

static void closed(struct tn_gate_link *link)
{
    tn_link_done(link);
    free(upstream_of(link));
}

static const struct tn_link_user user = { heard, ended, sent, closed };

/* --- Connecting ----------------------------------------------------------------------------- */

static void resolved(uv_getaddrinfo_t *resolve, int status, struct addrinfo *found)
{
    struct tn_gate *gate = resolve->data;

    gate->resolving = false;
    if (status != 0)
        return;
    uv_freeaddrinfo(gate->addresses);
    gate->addresses = found;
}

int tn_upstream_resolve(struct tn_gate *gate, struct tn_text *reterr)
{
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM };

    if (gate->resolving)
        return 0;
    gate->resolve.data = gate;
    int rc = uv_getaddrinfo(&gate->loop, &gate->resolve, reterr != NULL ? NULL : resolved,
                            gate->place.host, gate->place.port, &hints);
    if (reterr == NULL) {
        gate->resolving = rc == 0;
        return 0;
    }
    if (rc != 0)
        return tn_fence_refuse(TENURE_E_UNAVAILABLE, gate->place.host, uv_strerror(rc), reterr);
    gate->addresses = gate->resolve.addrinfo;
    return 0;
}

static void connected(uv_connect_t *connect, int status)
{
    struct tn_gate_upstream *upstream = connect->data;
    struct tn_client *client = upstream->client;

    if (client == NULL)
        return; /* It is being closed. */
    if (status != 0 && connect_to(client, upstream->attempt + 1, upstream)) {
        tn_upstream_forget(upstream);
        return;
    }
    if (status != 0) {
        /* Perhaps it has moved. */
        (void)tn_upstream_resolve(upstream->gate, NULL);
        lose(upstream, 502, uv_strerror(status));
        return;
    }
    (void)uv_tcp_nodelay(&upstream->link.tcp, 1);
    if (!tn_link_hear(&upstream->link))
        lose(upstream, 502, "out of memory or descriptors");
    else if (tn_link_send(&upstream->link) && upstream->link.broken)
        lose_answer(upstream);
}

/* The address of this number, or NULL. */
static const struct addrinfo *address_of(const struct tn_gate *gate, size_t attempt)
{
    const struct addrinfo *address = gate->addresses;

    while (address != NULL && attempt-- > 0)
        address = address->ai_next;
    return address;
}

/* A new connection for @client to the server's address of this number or, if that fails at once, to
 * a later one; it takes over what @old has to send. False: there is none. */
static bool connect_to(struct tn_client *client, size_t attempt, struct tn_gate_upstream *old)
{
    struct tn_gate *gate = client->gate;
    const struct addrinfo *address;

    for (; (address = address_of(gate, attempt)) != NULL; attempt++) {
        struct tn_gate_upstream *upstream = calloc(1, sizeof *upstream);
        if (upstream == NULL || !tn_link_init(&upstream->link, &gate->loop, &user,
                                              (size_t)TN_GATE_ANSWER_MAX + TN_HTTP_HEAD_MAX)) {
            free(upstream);
            return false;
        }
        upstream->gate = gate;
        upstream->attempt = attempt;
        upstream->connect.data = upstream;
        if (uv_tcp_connect(&upstream->connect, &upstream->link.tcp, address->ai_addr, connected) !=
            0) {
            tn_link_close(&upstream->link);
            continue;
        }
        if (old != NULL)
            tn_link_hand_over(&old->link, &upstream->link);
        upstream->client = client;
        client->upstream = upstream;
        return true;
    }
    return false;
}

/* --- Asking --------------------------------------------------------------------------------- */

static bool build(struct tn_gate_upstream *upstream, struct tn_client *client,
                  const struct tn_http_head *head)
{
    size_t len;
    const char *body = tn_http_conn_body(&client->peer.http, &len);
    size_t size = client->peer.http.head_len + head->count + len + 128;
    char *room = tn_link_room(&upstream->link, size);
    struct tn_text text;

    if (room == NULL)
        return false;
    tn_text_init(&text, room, size);
    tn_text_add_bytes(&text, head->method.bytes, head->method.len);
    tn_text_add(&text, " ");
    tn_text_add_bytes(&text, head->target.bytes, head->target.len);
    tn_text_add(&text, " HTTP/1.1\r\n");
    tn_gate_copy_fields(&text, head);
    if (!tn_gate_is_bodiless(head))
        tn_text_addf(&text, "Content-Length: %zu\r\n", len);
    tn_text_add(&text, "Via: 1.1 tenure\r\n\r\n");
    tn_text_add_bytes(&text, body, len);
    TN_ASSERT(!tn_text_truncated(&text));
    upstream->link.out_len += text.len;
    return true;
}

bool tn_upstream_ask(struct tn_client *client, const struct tn_http_head *head)
{
    struct tn_gate *gate = client->gate;

    /* One that the server has closed takes nothing, and then the next is tried. */
    while (gate->idle != NULL) {
        struct tn_gate_upstream *upstream = gate->idle;

        take_idle(upstream);
        if (!build(upstream, client, head)) {
            put_idle(upstream);
            return false;
        }
        upstream->client = client;
        client->upstream = upstream;
        if (!tn_link_send(&upstream->link) || !upstream->link.broken)
            return true;
        tn_upstream_forget(upstream);
    }
    if (!connect_to(client, 0, NULL))
        return false;
    if (build(client->upstream, client, head))
        return true;
    tn_upstream_forget(client->upstream);
    return false;
}
