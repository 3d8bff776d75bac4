/* web_prepare.c - what libcurl is told of a request before it begins; web_inside.h.
 *
 * Headers, the signature, TLS, limits, and what libcurl asks back in the middle of the request:
 * whether it may be sent again, and where the body goes. */
#include "net/web_inside.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <time.h>

#include "base/time.h"

enum {
    CONNECT_MS = 10000, /* At most, whatever the request's own timeout is. */
    DEAD_MS = 15000,    /* A peer that acknowledges nothing for so long is gone. */
    IDLE_S = 60,        /* A connection unused for longer is not used again. */
    AUTHORIZATION = 1024,
};

/* --- What libcurl asks in the middle of a request --------------------------------------------- */

/* Just before the request is written, also when libcurl writes it again because a kept connection
 * was dead. A write that went out once may have been carried out. */
static int before_send(void *arg, char *there, char *here, int port, int here_port)
{
    struct tn_web_work *work = arg;

    (void)there;
    (void)here;
    (void)port;
    (void)here_port;
    return ++work->sends == 1 || work->idempotent ? CURL_PREREQFUNC_OK : CURL_PREREQFUNC_ABORT;
}

/* So that a cut connection is noticed, also where only the server would speak. */
static int tune_socket(void *arg, curl_socket_t socket, curlsocktype purpose)
{
    unsigned dead = DEAD_MS;

    (void)arg;
    (void)purpose;
    (void)setsockopt(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, &dead, sizeof dead);
    return CURL_SOCKOPT_OK;
}

static bool collect(struct tn_web_work *work, const char *bytes, size_t len)
{
    struct tn_web_req *req = work->req;

    if (len > req->body_max - req->body_len) {
        work->too_long = true;
        return false;
    }
    if (req->body_len + len + 1 > work->size) {
        size_t size = 2 * (req->body_len + len + 1);
        char *body = realloc(req->body != req->none ? req->body : NULL, size);
        if (body == NULL) {
            work->out_of_memory = true;
            return false;
        }
        req->body = body;
        work->size = size;
    }
    memcpy(req->body + req->body_len, bytes, len);
    req->body_len += len;
    req->body[req->body_len] = '\0';
    return true;
}

static size_t hear_body(char *bytes, size_t one, size_t len, void *arg)
{
    struct tn_web_work *work = arg;
    struct tn_web_req *req = work->req;
    long http = 0;

    (void)one;
    if (work->cancelled || work->web->closing)
        return 0;
    (void)curl_easy_getinfo(work->easy, CURLINFO_RESPONSE_CODE, &http);
    req->http = (int)http;
    if (req->data == NULL || http < 200 || http > 299)
        return collect(work, bytes, len) ? len : 0;
    if (req->data(req, bytes, len) == 0)
        return len;
    work->cancelled = true;
    return 0;
}

/* --- Headers and signature -------------------------------------------------------------------- */

static void add_header(struct tn_web_work *work, const char *line)
{
    struct curl_slist *longer = curl_slist_append(work->headers, line);

    if (longer == NULL)
        work->fault = TENURE_E_NOMEM;
    else
        work->headers = longer;
}

static void add_named(struct tn_web_work *work, const char *name, const char *value)
{
    size_t size = strlen(name) + strlen(value) + 3;
    char *line = malloc(size);

    if (line == NULL) {
        work->fault = TENURE_E_NOMEM;
        return;
    }
    (void)snprintf(line, size, "%s: %s", name, value);
    add_header(work, line);
    free(line);
}

/* As libcurl would write it. */
static void add_host(struct tn_text *text, CURLU *url)
{
    char *host = tn_web_url_part(url, CURLUPART_HOST, 0);
    char *port = tn_web_url_part(url, CURLUPART_PORT, CURLU_NO_DEFAULT_PORT);

    tn_text_add(text, host != NULL ? host : "");
    if (port != NULL)
        tn_text_addf(text, ":%s", port);
    curl_free(host);
    curl_free(port);
}

/* The wall clock, for a server that refuses old signatures; nothing here is decided by it. */
static void write_date(char ret_date[TN_AWS_DATE])
{
    struct timespec now = { .tv_sec = 0 };
    struct tm parts;

    (void)clock_gettime(CLOCK_REALTIME, &now);
    (void)gmtime_r(&now.tv_sec, &parts);
    (void)strftime(ret_date, TN_AWS_DATE, "%Y%m%dT%H%M%SZ", &parts);
}

static void sign(struct tn_web_work *work, CURLU *url)
{
    const struct tn_web_req *req = work->req;
    char host[272], date[TN_AWS_DATE], authorization[AUTHORIZATION];
    char *path = tn_web_url_part(url, CURLUPART_PATH, 0);
    char *query = tn_web_url_part(url, CURLUPART_QUERY, 0);
    struct tn_text text, host_text;
    struct tn_aws_headers headers = { .authorization = &text };
    const struct tn_aws_request request = {
        .method = req->method,
        .host = host,
        .path = path,
        .query = query,
        .headers = req->headers,
        .body = req->send,
        .body_len = req->send_len,
        .date = date,
    };

    tn_text_init(&text, authorization, sizeof authorization);
    tn_text_init(&host_text, host, sizeof host);
    add_host(&host_text, url);
    write_date(date);
    int rc = path != NULL ? tn_aws_sign(req->aws, &request, &headers) : TENURE_E_NOMEM;
    if (rc < 0) {
        work->fault = rc;
    } else {
        add_named(work, "Host", host);
        add_named(work, "X-Amz-Date", date);
        add_named(work, "X-Amz-Content-Sha256", headers.body_hash);
        if (req->aws->session_token != NULL && req->aws->session_token[0] != '\0')
            add_named(work, "X-Amz-Security-Token", req->aws->session_token);
        add_named(work, "Authorization", authorization);
    }
    curl_free(path);
    curl_free(query);
}

char *tn_web_url_part(CURLU *url, CURLUPart part, unsigned flags)
{
    char *value = NULL;

    return curl_url_get(url, part, &value, flags) == CURLUE_OK ? value : NULL;
}

static bool is_loopback(const char *host)
{
    size_t len = strlen(host);

    return strcasecmp(host, "localhost") == 0 || strncmp(host, "127.", 4) == 0 ||
           strcmp(host, "[::1]") == 0 ||
           (len > 10 && strcasecmp(host + len - 10, ".localhost") == 0);
}

static void set_address(struct tn_web_work *work)
{
    CURLU *url = curl_url();
    char *host = NULL;

    if (url == NULL)
        work->fault = TENURE_E_NOMEM;
    else if (curl_url_set(url, CURLUPART_URL, work->req->url, CURLU_PATH_AS_IS) != CURLUE_OK)
        work->fault = TENURE_E_INVALID;
    else
        host = tn_web_url_part(url, CURLUPART_HOST, 0);
    if (host != NULL && is_loopback(host))
        (void)curl_easy_setopt(work->easy, CURLOPT_NOPROXY, "*");
    if (work->fault == 0 && work->req->aws != NULL)
        sign(work, url);
    curl_free(host);
    curl_url_cleanup(url);
}

static void set_pem(CURL *easy, CURLoption option, const char *pem)
{
    struct curl_blob blob = { .flags = CURL_BLOB_NOCOPY };

    if (pem == NULL)
        return;
    blob.data = (void *)(uintptr_t)pem;
    blob.len = strlen(pem);
    (void)curl_easy_setopt(easy, option, &blob);
}

static void set_tls(CURL *easy, const struct tn_web_options *options)
{
    if (options->ca_file != NULL)
        (void)curl_easy_setopt(easy, CURLOPT_CAINFO, options->ca_file);
    if (options->cert_file != NULL)
        (void)curl_easy_setopt(easy, CURLOPT_SSLCERT, options->cert_file);
    if (options->key_file != NULL)
        (void)curl_easy_setopt(easy, CURLOPT_SSLKEY, options->key_file);
    set_pem(easy, CURLOPT_CAINFO_BLOB, options->ca_pem);
    set_pem(easy, CURLOPT_SSLCERT_BLOB, options->cert_pem);
    set_pem(easy, CURLOPT_SSLKEY_BLOB, options->key_pem);
    (void)curl_easy_setopt(easy, CURLOPT_CA_CACHE_TIMEOUT, 60L); /* The file may be replaced. */
}

static void set_callbacks(struct tn_web_work *work)
{
    CURL *easy = work->easy;

    (void)curl_easy_setopt(easy, CURLOPT_PRIVATE, work);
    (void)curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, work->detail);
    (void)curl_easy_setopt(easy, CURLOPT_PREREQFUNCTION, before_send);
    (void)curl_easy_setopt(easy, CURLOPT_PREREQDATA, work);
    (void)curl_easy_setopt(easy, CURLOPT_SOCKOPTFUNCTION, tune_socket);
    (void)curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, hear_body);
    (void)curl_easy_setopt(easy, CURLOPT_WRITEDATA, work);
}

static void set_limits(struct tn_web_work *work)
{
    CURL *easy = work->easy;
    long ms = (long)((work->req->timeout + TN_MS(1) - 1) / TN_MS(1));

    (void)curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    (void)curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L); /* Wait for no DNS that was given up. */
    (void)curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    (void)curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    (void)curl_easy_setopt(easy, CURLOPT_DISALLOW_USERNAME_IN_URL, 1L);
    (void)curl_easy_setopt(easy, CURLOPT_PATH_AS_IS, 1L);
    (void)curl_easy_setopt(easy, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
    (void)curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, ms);
    (void)curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, ms < CONNECT_MS ? ms : CONNECT_MS);
    (void)curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
    (void)curl_easy_setopt(easy, CURLOPT_TCP_KEEPIDLE, 10L);
    (void)curl_easy_setopt(easy, CURLOPT_TCP_KEEPINTVL, 5L);
    (void)curl_easy_setopt(easy, CURLOPT_MAXAGE_CONN, (long)IDLE_S);
    if (work->web->doubtful)
        (void)curl_easy_setopt(easy, CURLOPT_FRESH_CONNECT, 1L);
}

static void set_method(struct tn_web_work *work)
{
    const struct tn_web_req *req = work->req;

    work->idempotent = strcmp(req->method, "GET") == 0 || strcmp(req->method, "HEAD") == 0;
    if (req->send != NULL) {
        (void)curl_easy_setopt(work->easy, CURLOPT_POSTFIELDS, (const char *)req->send);
        (void)curl_easy_setopt(work->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)req->send_len);
    } else if (strcmp(req->method, "HEAD") == 0) {
        (void)curl_easy_setopt(work->easy, CURLOPT_NOBODY, 1L);
    }
    (void)curl_easy_setopt(work->easy, CURLOPT_CUSTOMREQUEST, req->method);
}

void tn_web_prepare(struct tn_web_work *work)
{
    const struct tn_web_req *req = work->req;
    const struct tn_web_options *options = &work->web->options;
    bool typed = false;

    set_callbacks(work);
    set_limits(work);
    set_method(work);
    set_tls(work->easy, options);
    (void)curl_easy_setopt(work->easy, CURLOPT_USERAGENT,
                           options->user_agent != NULL ? options->user_agent : "tenure");
    for (const char *const *each = req->headers; each != NULL && *each != NULL; each++) {
        typed = typed || strncasecmp(*each, "content-type:", 13) == 0;
        add_header(work, *each);
    }
    add_header(work, "Expect:"); /* It would wait for a second before it sends the body. */
    if (!typed)
        add_header(work, "Content-Type:"); /* Not that of an HTML form. */
    set_address(work);
    if (curl_easy_setopt(work->easy, CURLOPT_URL, req->url) != CURLE_OK ||
        curl_easy_setopt(work->easy, CURLOPT_HTTPHEADER, work->headers) != CURLE_OK)
        work->fault = TENURE_E_NOMEM;
}
