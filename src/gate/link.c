/* link.c - buffers around a libuv stream; link.h has the rules. */
#include "gate/link.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"

enum {
    READ_AT_ONCE = 16 << 10,
    KEPT = 64 << 10, /* Larger buffers go when they are empty. */
};

static struct tn_gate_link *link_of(void *handle)
{
    return handle;
}

bool tn_link_init(struct tn_gate_link *link, uv_loop_t *loop, const struct tn_link_user *user,
                  size_t in_max)
{
    *link = (struct tn_gate_link) { .user = user, .in_max = in_max };
    return uv_tcp_init(loop, &link->tcp) == 0;
}

/* --- In ------------------------------------------------------------------------------------- */

static void give_room(uv_handle_t *handle, size_t suggested, uv_buf_t *ret_buf)
{
    struct tn_gate_link *link = link_of(handle);

    (void)suggested;
    if (link->in_size - link->in_len < READ_AT_ONCE / 4 && link->in_size < link->in_max) {
        size_t size = link->in_size > 0 ? 2 * link->in_size : READ_AT_ONCE;
        size = size < link->in_max ? size : link->in_max;
        char *larger = realloc(link->in, size);
        if (larger != NULL) {
            link->in = larger;
            link->in_size = size;
        }
    }
    /* None left: libuv says ENOBUFS, which ends the connection. */
    *ret_buf = uv_buf_init(link->in != NULL ? link->in + link->in_len : NULL,
                           (unsigned)(link->in_size - link->in_len));
}

static void receive(uv_stream_t *stream, ssize_t got, const uv_buf_t *buf)
{
    struct tn_gate_link *link = link_of(stream);

    (void)buf;
    if (got > 0) {
        link->in_len += (size_t)got;
        link->user->heard(link);
    } else if (got < 0) {
        (void)uv_read_stop(stream);
        link->broken = link->broken || got != UV_EOF;
        link->user->ended(link);
    }
}

bool tn_link_hear(struct tn_gate_link *link)
{
    int rc = uv_read_start((uv_stream_t *)&link->tcp, give_room, receive);

    return rc == 0 || rc == UV_EALREADY;
}

void tn_link_pause(struct tn_gate_link *link)
{
    (void)uv_read_stop((uv_stream_t *)&link->tcp);
}

void tn_link_take(struct tn_gate_link *link, size_t len)
{
    TN_ASSERT(len <= link->in_len);
    link->in_len -= len;
    if (link->in_len > 0) {
        memmove(link->in, link->in + len, link->in_len);
    } else if (link->in_size > KEPT) {
        free(link->in);
        link->in = NULL;
        link->in_size = 0;
    }
}

/* --- Out ------------------------------------------------------------------------------------ */

char *tn_link_room(struct tn_gate_link *link, size_t len)
{
    if (link->out_size - link->out_len < len) {
        size_t size = link->out_size > 0 ? link->out_size : 1024;
        while (size - link->out_len < len)
            size *= 2;
        char *larger = realloc(link->out, size);
        if (larger == NULL)
            return NULL;
        link->out = larger;
        link->out_size = size;
    }
    return link->out + link->out_len;
}

static void empty(struct tn_gate_link *link)
{
    link->out_len = 0;
    if (link->out_size > KEPT) {
        free(link->out);
        link->out = NULL;
        link->out_size = 0;
    }
}

static void rest_sent(uv_write_t *rest, int status)
{
    struct tn_gate_link *link = link_of(rest->handle);

    link->sending = false;
    link->broken = link->broken || status < 0;
    empty(link);
    if (!uv_is_closing((uv_handle_t *)&link->tcp))
        link->user->sent(link);
}

bool tn_link_send(struct tn_gate_link *link)
{
    uv_stream_t *stream = (uv_stream_t *)&link->tcp;
    uv_buf_t buf = uv_buf_init(link->out, (unsigned)link->out_len);

    TN_ASSERT(!link->sending);
    int sent = link->broken ? UV_EPIPE : uv_try_write(stream, &buf, 1);
    if (sent == UV_EAGAIN)
        sent = 0;
    if (sent >= 0 && (size_t)sent < link->out_len) {
        buf = uv_buf_init(link->out + sent, (unsigned)(link->out_len - (size_t)sent));
        link->sending = uv_write(&link->rest, stream, &buf, 1, rest_sent) == 0;
        link->broken = !link->sending;
    } else if (sent < 0) {
        link->broken = true;
    }
    if (!link->sending)
        empty(link);
    return !link->sending;
}

void tn_link_hand_over(struct tn_gate_link *from, struct tn_gate_link *to)
{
    free(to->out);
    to->out = from->out;
    to->out_len = from->out_len;
    to->out_size = from->out_size;
    from->out = NULL;
    from->out_len = from->out_size = 0;
}

/* --- The end -------------------------------------------------------------------------------- */

static void finished(uv_shutdown_t *finish, int status)
{
    (void)finish;
    (void)status;
}

void tn_link_finish(struct tn_gate_link *link)
{
    (void)uv_shutdown(&link->finish, (uv_stream_t *)&link->tcp, finished);
}

static void closed(uv_handle_t *handle)
{
    struct tn_gate_link *link = link_of(handle);

    link->user->closed(link);
}

void tn_link_close(struct tn_gate_link *link)
{
    if (!uv_is_closing((uv_handle_t *)&link->tcp))
        uv_close((uv_handle_t *)&link->tcp, closed);
}

void tn_link_done(struct tn_gate_link *link)
{
    free(link->in);
    free(link->out);
}
