/* web.c - HTTP requests by libcurl's multi interface on a libuv loop; web.h.
 *
 * libcurl says which sockets to wait for and until when (watch_socket, set_timer); the loop tells
 * libcurl what happened (hear_socket, hear_timer), and afterwards the requests that ended are told.
 * Whatever the caller does - start, cancel, close - only leaves a mark, and turn() carries it out:
 * libcurl must not be called from its own callbacks, where data() runs. */
#include "net/web_inside.h"

#include <curl/curl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>
#include <uv.h>

#include "base/assert.h"
#include "base/duration.h"
#include "base/time.h"

struct web_poll {
    uv_poll_t handle;
    struct tn_web *web;
    curl_socket_t socket;
};

static void turn(uv_idle_t *handle);

static void kick(struct tn_web *web)
{
    (void)uv_idle_start(&web->turn, turn);
}

/* --- Texts ------------------------------------------------------------------------------------ */

void tn_web_escape(struct tn_text *text, const char *bytes, size_t len, const char *keep)
{
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)bytes[i];
        if ((c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
            (c != '\0' && (strchr("-_.~", c) != NULL || strchr(keep, c) != NULL)))
            tn_text_add_bytes(text, &bytes[i], 1);
        else
            tn_text_addf(text, "%%%02X", c);
    }
}

void tn_web_where(struct tn_text *text, const char *url)
{
    CURLU *parsed = curl_url();
    bool good = parsed != NULL && curl_url_set(parsed, CURLUPART_URL, url, 0) == CURLUE_OK;
    char *host = good ? tn_web_url_part(parsed, CURLUPART_HOST, 0) : NULL;
    char *port = good ? tn_web_url_part(parsed, CURLUPART_PORT, CURLU_DEFAULT_PORT) : NULL;

    if (host != NULL && port != NULL) {
        tn_text_escape(text, host, strlen(host));
        tn_text_addf(text, ":%s", port);
    } else {
        tn_text_add(text, "the server");
    }
    curl_free(host);
    curl_free(port);
    curl_url_cleanup(parsed);
}

/* Why libcurl gave up, behind "host:port: ". */
static void add_reason(struct tn_text *text, const struct tn_web_work *work, CURLcode code)
{
    const char *detail = work->detail[0] != '\0' ? work->detail : curl_easy_strerror(code);
    char waited[TN_DURATION_TEXT];
    long os = 0;

    (void)curl_easy_getinfo(work->easy, CURLINFO_OS_ERRNO, &os);
    tn_duration_format(waited, sizeof waited, work->req->timeout);
    if (work->too_long) {
        tn_text_addf(text, "the answer is longer than %zu bytes; is this the right address?",
                     work->req->body_max);
    } else if (code == CURLE_COULDNT_RESOLVE_HOST) {
        tn_text_add(text, "the name cannot be resolved; check the host name and the DNS");
    } else if (code == CURLE_COULDNT_CONNECT && os != 0) {
        tn_text_addf(text, "%s; check the address, and that the server runs", strerror((int)os));
    } else if (code == CURLE_OPERATION_TIMEDOUT && work->sends == 0) {
        tn_text_add(text, "no connection in time; check the address and the network");
    } else if (code == CURLE_OPERATION_TIMEDOUT) {
        tn_text_addf(text, "no answer within %s", waited);
    } else if (code == CURLE_PEER_FAILED_VERIFICATION) {
        tn_text_add(text, "its certificate is not trusted; name its CA's file: ");
        tn_text_add_line(text, detail, strlen(detail));
    } else if (code == CURLE_SSL_CONNECT_ERROR) {
        tn_text_add(text, "no TLS connection; does the server speak TLS there? ");
        tn_text_add_line(text, detail, strlen(detail));
    } else if (code == CURLE_RECV_ERROR && strstr(detail, "alert") != NULL) {
        /* With TLS 1.3 the server looks at our certificate when we believe to be connected. */
        tn_text_add(text, "the server has ended the TLS connection; does it want another client "
                          "certificate? ");
        tn_text_add_line(text, detail, strlen(detail));
    } else if (code == CURLE_GOT_NOTHING || code == CURLE_RECV_ERROR || code == CURLE_SEND_ERROR ||
               code == CURLE_PARTIAL_FILE || code == CURLE_ABORTED_BY_CALLBACK) {
        tn_text_add(text, "the connection broke before the answer was complete");
    } else if (code == CURLE_UNSUPPORTED_PROTOCOL || code == CURLE_WEIRD_SERVER_REPLY) {
        tn_text_add(text, "the answer is not HTTP; is this the right port?");
    } else {
        tn_text_add_line(text, detail, strlen(detail));
    }
}

/* --- The end of a request --------------------------------------------------------------------- */

static void unlink_work(struct tn_web_work *work)
{
    struct tn_web_work **link = &work->web->works;

    while (*link != work)
        link = &(*link)->next;
    *link = work->next;
}

static int status_of(const struct tn_web_work *work, CURLcode code)
{
    if (work->cancelled || work->web->closing)
        return TENURE_E_CLOSED;
    if (work->fault != 0)
        return work->fault;
    if (code == CURLE_OK)
        return 0;
    return work->sends == 0 ? TENURE_E_UNAVAILABLE : TENURE_E_TIMEOUT;
}

/* What went wrong, for people; nothing if nothing did. */
static void explain(struct tn_web_work *work, CURLcode code)
{
    struct tn_web_req *req = work->req;
    struct tn_text text;

    if (work->hushed && req->status == work->fault)
        return; /* The error is there. */
    tn_text_init(&text, req->error, sizeof req->error);
    if (req->status == 0)
        return;
    if (req->status == TENURE_E_NOMEM || work->out_of_memory || code == CURLE_OUT_OF_MEMORY) {
        tn_text_add(&text, "out of memory");
        return;
    }
    tn_text_addf(&text, "%s: ", work->where);
    if (req->status == TENURE_E_CLOSED)
        tn_text_add(&text, "the request was cancelled");
    else if (work->fault != 0)
        tn_text_add(&text, "the request cannot be signed, or its address is malformed");
    else
        add_reason(&text, work, code);
    tn_text_cut(&text);
}

static void finish_work(struct tn_web_work *work, CURLcode code)
{
    struct tn_web *web = work->web;
    struct tn_web_req *req = work->req;
    long http = 0;

    unlink_work(work);
    if (work->added)
        (void)curl_multi_remove_handle(web->multi, work->easy);
    if (work->easy != NULL)
        (void)curl_easy_getinfo(work->easy, CURLINFO_RESPONSE_CODE, &http);
    req->http = (int)http;
    req->status = status_of(work, code);
    if (req->status == 0 && http >= 200 && http < 300)
        tn_web_end_quiet(web, work->where);
    if (req->status == 0 || req->status == TENURE_E_TIMEOUT)
        web->doubtful = req->status != 0;
    explain(work, code);
    char *body = req->body;
    req->done(req);
    if (body != req->none)
        free(body);
    curl_easy_cleanup(work->easy);
    curl_slist_free_all(work->headers);
    free(work);
}

/* After every call that lets libcurl work. */
static void tell_ended(struct tn_web *web)
{
    CURLMsg *message;
    int left = 0;

    while ((message = curl_multi_info_read(web->multi, &left)) != NULL) {
        struct tn_web_work *work = NULL;
        if (message->msg != CURLMSG_DONE)
            continue;
        CURLcode code = message->data.result; /* Gone with the next call. */
        (void)curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, (char **)&work);
        finish_work(work, code);
    }
}

/* --- libcurl and the loop --------------------------------------------------------------------- */

static void hear_timer(uv_timer_t *handle)
{
    struct tn_web *web = handle->data;
    int running;

    (void)curl_multi_socket_action(web->multi, CURL_SOCKET_TIMEOUT, 0, &running);
    tell_ended(web);
}

static int set_timer(CURLM *multi, long ms, void *arg)
{
    struct tn_web *web = arg;

    (void)multi;
    if (ms < 0)
        (void)uv_timer_stop(&web->timer);
    else
        (void)uv_timer_start(&web->timer, hear_timer, (uint64_t)ms, 0);
    return 0;
}

static void hear_socket(uv_poll_t *handle, int status, int events)
{
    const struct web_poll *poll = handle->data;
    struct tn_web *web = poll->web;
    int what = status < 0 ? CURL_CSELECT_ERR : 0;
    int running;

    if ((events & UV_READABLE) != 0)
        what |= CURL_CSELECT_IN;
    if ((events & UV_WRITABLE) != 0)
        what |= CURL_CSELECT_OUT;
    (void)curl_multi_socket_action(web->multi, poll->socket, what, &running);
    tell_ended(web);
}

static void gone_if_closed(struct tn_web *web)
{
    void (*closed)(void *arg) = web->closed;
    void *arg = web->closed_arg;
    const struct tn_web_options *options = &web->options;
    const char *texts[] = { options->ca_file,   options->cert_file, options->key_file,
                            options->ca_pem,    options->cert_pem,  options->key_pem,
                            options->user_agent };

    if (--web->handles > 0)
        return;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        free((char *)(uintptr_t)texts[i]);
    free(web);
    if (closed != NULL)
        closed(arg);
}

static void poll_closed(uv_handle_t *handle)
{
    struct web_poll *poll = handle->data;
    struct tn_web *web = poll->web;

    free(poll);
    gone_if_closed(web);
}

static struct web_poll *new_poll(struct tn_web *web, curl_socket_t socket)
{
    struct web_poll *poll = calloc(1, sizeof *poll);

    if (poll == NULL || uv_poll_init_socket(web->loop, &poll->handle, socket) < 0) {
        free(poll);
        return NULL;
    }
    poll->handle.data = poll;
    poll->web = web;
    poll->socket = socket;
    web->handles++;
    (void)curl_multi_assign(web->multi, socket, poll);
    return poll;
}

static int watch_socket(CURL *easy, curl_socket_t socket, int what, void *arg, void *of_socket)
{
    struct tn_web *web = arg;
    struct web_poll *poll = of_socket;
    int events = 0;

    (void)easy;
    if (what == CURL_POLL_REMOVE) {
        if (poll != NULL) {
            (void)uv_poll_stop(&poll->handle);
            uv_close((uv_handle_t *)&poll->handle, poll_closed);
            (void)curl_multi_assign(web->multi, socket, NULL);
        }
        return 0;
    }
    if (poll == NULL && (poll = new_poll(web, socket)) == NULL)
        return 0; /* Out of memory: the request times out. */
    if (what == CURL_POLL_IN || what == CURL_POLL_INOUT)
        events |= UV_READABLE;
    if (what == CURL_POLL_OUT || what == CURL_POLL_INOUT)
        events |= UV_WRITABLE;
    (void)uv_poll_start(&poll->handle, events, hear_socket);
    return 0;
}

/* --- Starting --------------------------------------------------------------------------------- */

static struct tn_web_work *new_work(struct tn_web *web, struct tn_web_req *req)
{
    struct tn_web_work *work = calloc(1, sizeof *work);
    struct tn_text where;

    if (work == NULL)
        return NULL;
    tn_text_init(&where, work->where, sizeof work->where);
    tn_web_where(&where, req->url);
    work->web = web;
    work->req = req;
    work->next = web->works;
    web->works = work;
    return work;
}

void tn_web_start(struct tn_web *web, struct tn_web_req *req)
{
    const char *why;

    TN_ASSERT(req->timeout > 0 && req->done != NULL);
    req->work = new_work(web, req);
    req->status = 0;
    req->http = 0;
    req->none[0] = '\0';
    req->body = req->none;
    req->body_len = 0;
    req->error[0] = '\0';
    if (req->work == NULL) {
        req->status = TENURE_E_NOMEM;
        (void)snprintf(req->error, sizeof req->error, "out of memory");
        req->next = web->failed;
        web->failed = req;
    } else if ((why = tn_web_hush(web, req, req->work->where)) != NULL) {
        (void)snprintf(req->error, sizeof req->error, "%s", why);
        req->work->hushed = true;
        req->work->fault = TENURE_E_UNAVAILABLE;
    } else if ((req->work->easy = curl_easy_init()) != NULL) {
        tn_web_prepare(req->work);
    } else {
        req->work->fault = TENURE_E_NOMEM;
    }
    kick(web);
}

void tn_web_cancel(struct tn_web *web, struct tn_web_req *req)
{
    if (req->work != NULL)
        req->work->cancelled = true;
    else
        req->status = TENURE_E_CLOSED;
    kick(web);
}

const char *tn_web_header(const struct tn_web_req *req, const char *name)
{
    struct curl_header *header = NULL;

    if (req->work == NULL || req->work->easy == NULL ||
        curl_easy_header(req->work->easy, name, 0, CURLH_HEADER, -1, &header) != CURLHE_OK)
        return NULL;
    return header->value;
}

/* --- The turn of the loop --------------------------------------------------------------------- */

static struct tn_web_work *find_over(const struct tn_web *web)
{
    struct tn_web_work *work = web->works;

    while (work != NULL && !work->cancelled && work->fault == 0 && !web->closing)
        work = work->next;
    return work;
}

static void handle_closed(uv_handle_t *handle)
{
    gone_if_closed(handle->data);
}

static void turn(uv_idle_t *handle)
{
    struct tn_web *web = handle->data;
    struct tn_web_work *work;

    (void)uv_idle_stop(&web->turn);
    for (work = web->works; work != NULL && !web->closing; work = work->next) {
        if (work->added || work->cancelled || work->fault != 0)
            continue;
        work->added = curl_multi_add_handle(web->multi, work->easy) == CURLM_OK;
        if (!work->added)
            work->fault = TENURE_E_NOMEM;
    }
    while ((work = find_over(web)) != NULL)
        finish_work(work, CURLE_OK);
    while (web->failed != NULL) {
        struct tn_web_req *req = web->failed;
        web->failed = req->next;
        req->done(req);
    }
    if (!web->closing || web->works != NULL || web->failed != NULL || web->multi == NULL)
        return;
    (void)curl_multi_cleanup(web->multi);
    web->multi = NULL;
    uv_close((uv_handle_t *)&web->timer, handle_closed);
    uv_close((uv_handle_t *)&web->turn, handle_closed);
}

/* --- Opening and closing ---------------------------------------------------------------------- */

static int copy_text(const char **text, bool is_file, struct tn_text *reterr)
{
    if (*text == NULL || (*text)[0] == '\0') {
        *text = NULL;
        return 0;
    }
    if (is_file && access(*text, R_OK) < 0) {
        tn_text_add(reterr, "cannot read '");
        tn_text_escape(reterr, *text, strlen(*text));
        tn_text_add(reterr, "', which is to have a certificate or its key");
        *text = NULL;
        return TENURE_E_INVALID;
    }
    *text = strdup(*text);
    if (*text == NULL)
        tn_text_add(reterr, "out of memory");
    return *text != NULL ? 0 : TENURE_E_NOMEM;
}

static int copy_options(struct tn_web_options *options, struct tn_text *reterr)
{
    const char **texts[] = { &options->ca_file,   &options->cert_file, &options->key_file,
                             &options->ca_pem,    &options->cert_pem,  &options->key_pem,
                             &options->user_agent };
    int rc = 0;

    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        if (rc == 0)
            rc = copy_text(texts[i], i < 3, reterr);
        else
            *texts[i] = NULL;
    }
    return rc;
}

static void init_curl(void)
{
    (void)curl_global_init(CURL_GLOBAL_DEFAULT);
}

int tn_web_open(struct uv_loop_s *loop, const struct tn_web_options *options,
                struct tn_web **ret_web, struct tn_text *reterr)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct tn_web *web = calloc(1, sizeof *web);
    int rc = TENURE_E_NOMEM;

    (void)pthread_once(&once, init_curl);
    if (web == NULL || (web->multi = curl_multi_init()) == NULL) {
        tn_text_add(reterr, "out of memory");
        free(web);
        return rc;
    }
    web->loop = loop;
    web->options = *options;
    web->handles = 1;
    rc = copy_options(&web->options, reterr);
    if (rc < 0) {
        (void)curl_multi_cleanup(web->multi);
        gone_if_closed(web);
        return rc;
    }
    (void)curl_multi_setopt(web->multi, CURLMOPT_SOCKETFUNCTION, watch_socket);
    (void)curl_multi_setopt(web->multi, CURLMOPT_SOCKETDATA, web);
    (void)curl_multi_setopt(web->multi, CURLMOPT_TIMERFUNCTION, set_timer);
    (void)curl_multi_setopt(web->multi, CURLMOPT_TIMERDATA, web);
    if (options->connections > 0) {
        /* By default only four stay open for each request under way: none, between two batches. */
        (void)curl_multi_setopt(web->multi, CURLMOPT_MAXCONNECTS, (long)options->connections);
        (void)curl_multi_setopt(web->multi, CURLMOPT_MAX_HOST_CONNECTIONS,
                                (long)options->connections);
    }
    (void)uv_timer_init(loop, &web->timer);
    (void)uv_idle_init(loop, &web->turn);
    web->timer.data = web;
    web->turn.data = web;
    web->handles = 2;
    *ret_web = web;
    return 0;
}

void tn_web_close(struct tn_web *web, void (*closed)(void *arg), void *arg)
{
    TN_ASSERT(!web->closing);
    web->closing = true;
    web->closed = closed;
    web->closed_arg = arg;
    kick(web);
}
