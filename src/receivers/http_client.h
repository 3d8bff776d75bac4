/* http_client.h - a small HTTP/1.1 client: one connection that is used again, a deadline.
 *
 * Threads: one at a time per client. Errors as in target.h. */
#ifndef TN_RECEIVERS_HTTP_CLIENT_H
#define TN_RECEIVERS_HTTP_CLIENT_H

#include "receivers/socket.h"
#include "wire/http.h"

/* Of an answer's body. */
enum { TN_HTTP_BODY_MAX = 64 << 20 };

struct tn_http_client {
    struct tn_place place;
    struct tn_wire wire;
    char *in;
    size_t in_size;
    struct tn_http_head head; /* Of the last answer, pointing into @in. */
};

/* An answer; it lies in the client's memory until the next question. */
struct tn_http_answer {
    const struct tn_http_head *head;
    const char *body;
    size_t len;
};

/* http://HOST[:PORT][/]; false: it is something else. */
TENURE_MUST_USE bool tn_http_url_parse(const char *url, struct tn_place *ret_place);

/* http://HOST[:PORT][/], or https: with the options of TLS. Connects when it is first asked. On an
 * error nothing is left of it. */
TENURE_MUST_USE int tn_http_client_init(struct tn_http_client *client, const char *url,
                                        struct tn_text *reterr);

void tn_http_client_done(struct tn_http_client *client);

/* Send @head, complete with its blank line, and @len bytes of @body, and wait for the answer, all
 * by @timeout. TENURE_E_UNAVAILABLE: nothing was sent; TENURE_E_TIMEOUT: it may have happened. */
TENURE_MUST_USE int tn_http_ask(struct tn_http_client *client, const char *head, size_t head_len,
                                const void *body, size_t len, bool to_head, tenure_ns timeout,
                                struct tn_http_answer *ret_answer, struct tn_text *reterr);

#endif
