/* link.c - one connection to the database, driven through its socket.
 *
 * Happy path: the host's name is resolved on libuv's threads, libpq connects step by step, and then
 * carries one statement at a time. What can fail is told by down(), after which the link waits a
 * moment and takes the next address, or the next host, by itself.
 *
 * While it connects, libpq may close its socket and open another with the same number. So the poll
 * handle is given up before each of its steps and made anew after it: a handle never outlives its
 * socket. */
#define _GNU_SOURCE
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "stores/postgres/private.h"

#define CONNECT_WITHIN TN_SEC(3)
#define RETRY_FIRST TN_MS(20)
#define RETRY_LAST TN_SEC(1)
#define RETRY_REFUSED TN_SEC(5)

struct tn_pg_poll {
    uv_poll_t handle;
    struct tn_pg_link *link; /* NULL: given up. */
    struct tn_pg_store *store;
};

struct tn_pg_dns {
    uv_getaddrinfo_t req;
    struct tn_pg_link *link; /* NULL: nobody waits for it any more. */
};

static void step(struct tn_pg_link *link);

/* --- The socket ----------------------------------------------------------------------------- */

static void poll_closed(uv_handle_t *handle)
{
    struct tn_pg_poll *poll = handle->data;
    struct tn_pg_store *store = poll->store;

    free(poll);
    tn_pg_poll_closed(store);
}

static void drop_poll(struct tn_pg_link *link)
{
    if (link->poll == NULL)
        return;
    link->poll->link = NULL;
    uv_close((uv_handle_t *)&link->poll->handle, poll_closed);
    link->poll = NULL;
}

/* On an error libuv has stopped the handle and tells no event: libpq finds out by itself. */
static void ready(uv_poll_t *handle, int status, int events)
{
    struct tn_pg_poll *poll = handle->data;

    (void)status;
    (void)events;
    if (poll->link != NULL)
        step(poll->link);
}

static bool make_poll(struct tn_pg_link *link)
{
    struct tn_pg_poll *poll = calloc(1, sizeof *poll);

    if (poll == NULL ||
        uv_poll_init(link->store->base.how.loop, &poll->handle, PQsocket(link->conn)) != 0) {
        free(poll);
        return false;
    }
    poll->link = link;
    poll->store = link->store;
    poll->handle.data = poll;
    link->store->polls++;
    link->poll = poll;
    return true;
}

static void await(struct tn_pg_link *link, int events)
{
    if (link->poll == NULL && !make_poll(link))
        tn_pg_link_fail(link, TENURE_E_UNAVAILABLE, "no descriptor left to reach postgres with");
    else if (uv_poll_start(&link->poll->handle, events, ready) != 0)
        tn_pg_link_fail(link, TENURE_E_UNAVAILABLE, "the connection to postgres was lost");
}

/* --- Going down ----------------------------------------------------------------------------- */

static void hang_up(struct tn_pg_link *link)
{
    if (link->dns != NULL) {
        (void)uv_cancel((uv_req_t *)&link->dns->req);
        link->dns->link = NULL;
        link->dns = NULL;
    }
    drop_poll(link);
    PQclear(link->result);
    link->result = NULL;
    PQfinish(link->conn);
    link->conn = NULL;
    link->busy = false;
}

static unsigned host_count(const struct tn_pg_link *link)
{
    bool apart = link == &link->store->bell && link->store->url.listen_apart;
    return apart ? 1 : link->store->url.host_count;
}

static const struct tn_pg_host *host_of(const struct tn_pg_link *link)
{
    const struct tn_pg_store *store = link->store;

    if (link == &store->bell && store->url.listen_apart)
        return &store->url.listen;
    /* Listen where the work is done. */
    unsigned turn = link == &store->bell ? store->work.turn : link->turn;
    return &store->url.hosts[turn % host_count(link)];
}

bool tn_pg_link_tried_all(const struct tn_pg_link *link)
{
    return link->attempts >= host_count(link);
}

void tn_pg_link_fail(struct tn_pg_link *link, int code, const char *why)
{
    tenure_ns wait = RETRY_FIRST;

    if (why != link->error)
        (void)snprintf(link->error, sizeof link->error, "%s", why);
    link->code = code;
    hang_up(link);
    for (unsigned i = host_count(link); i < link->attempts && wait < RETRY_LAST; i++)
        wait *= 2;
    wait = wait < RETRY_LAST ? wait : RETRY_LAST;
    if (tn_pg_is_final(code) && tn_pg_link_tried_all(link))
        wait = RETRY_REFUSED; /* It takes a person to change that. */
    link->attempts++;
    link->turn++;
    link->state = TN_PG_WAITING;
    link->due_at = tn_pg_now(link->store) + wait / 2 +
                   (tenure_ns)tn_prng_below(&link->store->prng, (uint64_t)wait / 2 + 1);
    link->host->down(link);
}

static void fail_connection(struct tn_pg_link *link)
{
    struct tn_text text;

    tn_text_init(&text, link->error, sizeof link->error);
    int code = tn_pg_blame_connection(host_of(link), link->conn, &text);
    tn_pg_link_fail(link, code, link->error);
}

/* --- Coming up ------------------------------------------------------------------------------ */

/* libpq would print them. */
static void ignore_notice(void *arg, const PGresult *result)
{
    (void)arg;
    (void)result;
}

static void connect_to(struct tn_pg_link *link, const char *addr)
{
    const char *keywords[64];
    const char *values[64];
    int count = 0;
    const struct tn_pg_host *host = host_of(link);

    for (const PQconninfoOption *option = link->store->url.options;
         option->keyword != NULL && count < 60; option++) {
        if (option->val == NULL || strcmp(option->keyword, "host") == 0 ||
            strcmp(option->keyword, "hostaddr") == 0 || strcmp(option->keyword, "port") == 0)
            continue;
        keywords[count] = option->keyword;
        values[count++] = option->val;
    }
    const char *place[3][2] = { { "host", host->name },
                                { "hostaddr", addr },
                                { "port", host->port } };
    for (int i = 0; i < 3; i++) {
        if (place[i][1][0] == '\0')
            continue;
        keywords[count] = place[i][0];
        values[count++] = place[i][1];
    }
    keywords[count] = NULL;
    values[count] = NULL;
    link->conn = PQconnectStartParams(keywords, values, 0);
    link->state = TN_PG_CONNECTING;
    if (link->conn != NULL)
        (void)PQsetNoticeReceiver(link->conn, ignore_notice, NULL);
    if (link->conn == NULL)
        tn_pg_link_fail(link, TENURE_E_NOMEM, "out of memory");
    else if (PQstatus(link->conn) == CONNECTION_BAD)
        fail_connection(link);
    else
        await(link, UV_WRITABLE);
}

/* The addresses of a host take turns with the hosts. */
static void resolved(uv_getaddrinfo_t *req, int status, struct addrinfo *list)
{
    struct tn_pg_dns *dns = req->data;
    struct tn_pg_link *link = dns->link;
    char addr[NI_MAXHOST] = "";
    unsigned count = 0;

    free(dns);
    if (link == NULL) {
        uv_freeaddrinfo(list);
        return;
    }
    link->dns = NULL;
    for (struct addrinfo *item = list; status == 0 && item != NULL; item = item->ai_next)
        count++;
    unsigned skip = count > 0 ? link->turn / host_count(link) % count : 0;
    for (struct addrinfo *item = list; count > 0; item = item->ai_next, skip--) {
        if (skip > 0)
            continue;
        (void)getnameinfo(item->ai_addr, item->ai_addrlen, addr, sizeof addr, NULL, 0,
                          NI_NUMERICHOST);
        break;
    }
    uv_freeaddrinfo(list);
    if (addr[0] != '\0') {
        connect_to(link, addr);
        return;
    }
    struct tn_text text;
    tn_text_init(&text, link->error, sizeof link->error);
    tn_text_add(&text, "postgres: the host name ");
    tn_text_escape(&text, host_of(link)->name, strlen(host_of(link)->name));
    tn_text_addf(&text, " cannot be resolved (%s); check it in the URL", uv_strerror(status));
    tn_pg_link_fail(link, TENURE_E_UNAVAILABLE, link->error);
}

static void resolve(struct tn_pg_link *link)
{
    struct addrinfo hints = { .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM };
    struct tn_pg_dns *dns = calloc(1, sizeof *dns);

    link->state = TN_PG_RESOLVING;
    if (dns == NULL) {
        tn_pg_link_fail(link, TENURE_E_NOMEM, "out of memory");
        return;
    }
    dns->link = link;
    dns->req.data = dns;
    if (uv_getaddrinfo(link->store->base.how.loop, &dns->req, resolved, host_of(link)->name, NULL,
                       &hints) != 0) {
        free(dns);
        tn_pg_link_fail(link, TENURE_E_UNAVAILABLE, "postgres: the host name is malformed");
        return;
    }
    link->dns = dns;
}

void tn_pg_link_start(struct tn_pg_link *link, tenure_ns now)
{
    if (link->state != TN_PG_OFF)
        return;
    link->state = TN_PG_WAITING;
    link->due_at = now;
}

void tn_pg_link_stop(struct tn_pg_link *link)
{
    hang_up(link);
    link->state = TN_PG_OFF;
}

void tn_pg_link_good(struct tn_pg_link *link)
{
    link->attempts = 0;
    link->error[0] = '\0';
}

static void time_out(struct tn_pg_link *link)
{
    const struct tn_pg_host *host = host_of(link);
    struct tn_text text;

    tn_text_init(&text, link->error, sizeof link->error);
    tn_text_add(&text, "postgres ");
    tn_text_escape(&text, host->name, strlen(host->name));
    tn_text_add(&text, ":");
    tn_text_escape(&text, host->port, strlen(host->port));
    tn_text_add(&text, link->state == TN_PG_RESOLVING
                           ? ": no answer from the name service; check the resolver"
                           : ": no answer; check the host, the port and the network");
    tn_pg_link_fail(link, TENURE_E_UNAVAILABLE, link->error);
}

void tn_pg_link_tick(struct tn_pg_link *link, tenure_ns now)
{
    if (link->state == TN_PG_OFF || link->state == TN_PG_UP || now < link->due_at)
        return;
    if (link->state != TN_PG_WAITING) {
        time_out(link);
        return;
    }
    const struct tn_pg_host *host = host_of(link);
    link->due_at = now + CONNECT_WITHIN;
    if (host->addr[0] != '\0' || host->name[0] == '\0' || host->name[0] == '/' ||
        host->name[0] == '@')
        connect_to(link, host->addr);
    else
        resolve(link);
}

/* --- Statements ----------------------------------------------------------------------------- */

static void flush(struct tn_pg_link *link)
{
    int rc = PQflush(link->conn);

    if (rc < 0)
        fail_connection(link);
    else
        await(link, rc > 0 ? UV_READABLE | UV_WRITABLE : UV_READABLE);
}

void tn_pg_link_send(struct tn_pg_link *link, const char *sql, int count, const char *const *values)
{
    TN_ASSERT(link->state == TN_PG_UP && !link->busy);
    link->busy = true;
    if (PQsendQueryParams(link->conn, sql, count, NULL, values, NULL, NULL, 1) == 0)
        fail_connection(link);
    else
        flush(link);
}

void tn_pg_link_script(struct tn_pg_link *link, const char *sql)
{
    TN_ASSERT(link->state == TN_PG_UP && !link->busy);
    link->busy = true;
    if (PQsendQuery(link->conn, sql) == 0)
        fail_connection(link);
    else
        flush(link);
}

/* Keep the first failure, or else the last answer. */
static void keep(struct tn_pg_link *link, PGresult *result)
{
    if (link->result != NULL && PQresultStatus(link->result) == PGRES_FATAL_ERROR) {
        PQclear(result);
        return;
    }
    PQclear(link->result);
    link->result = result;
}

static void finish_link(struct tn_pg_link *link)
{
    PGresult *result = link->result;

    link->result = NULL;
    link->busy = false;
    link->host->result(link, result);
    PQclear(result);
}

static void hear_notifications(struct tn_pg_link *link)
{
    PGnotify *notify;

    while (link->state == TN_PG_UP && (notify = PQnotifies(link->conn)) != NULL) {
        link->host->notified(link, notify->extra);
        PQfreemem(notify);
    }
}

static void receive(struct tn_pg_link *link)
{
    if (PQconsumeInput(link->conn) == 0) {
        fail_connection(link);
        return;
    }
    while (link->busy && PQisBusy(link->conn) == 0) {
        PGresult *result = PQgetResult(link->conn);
        if (result == NULL) {
            finish_link(link);
            break;
        }
        keep(link, result);
    }
    hear_notifications(link);
    if (link->state != TN_PG_UP)
        return;
    /* It closed behind its last words. */
    if (PQstatus(link->conn) == CONNECTION_BAD)
        fail_connection(link);
    else
        flush(link);
}

static void step(struct tn_pg_link *link)
{
    if (link->state == TN_PG_UP) {
        receive(link);
        return;
    }
    drop_poll(link);
    switch (PQconnectPoll(link->conn)) {
    case PGRES_POLLING_READING:
        await(link, UV_READABLE);
        break;
    case PGRES_POLLING_WRITING:
        await(link, UV_WRITABLE);
        break;
    case PGRES_POLLING_OK:
        link->state = TN_PG_UP;
        (void)PQsetnonblocking(link->conn, 1);
        await(link, UV_READABLE);
        if (link->state == TN_PG_UP)
            link->host->up(link);
        break;
    default:
        fail_connection(link);
    }
}
