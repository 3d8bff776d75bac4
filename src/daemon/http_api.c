/* http_api.c - which request is which command.
 *
 * The table below is the whole of it: where the words of a command come from, and the shape of its
 * reply, which http_reply.c makes. docs/openapi.yaml says the same to the world, and a test holds
 * the two together. */
#define _GNU_SOURCE
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/assert.h"
#include "daemon/http.h"

/* --- Routes ----------------------------------------------------------------------------------- */

enum argument_kind {
    STRING = 1,
    NUMBER,
    STRINGS, /* A list. */
    LEASES,  /* A list of objects with name and token. */
    NAMES,   /* Several in one argument, with commas between them. */
};

struct field {
    const char *key; /* With a capital: a field of the head. */
    enum argument_kind kind;
    const char *option;  /* NULL: it is needed. A word that comes before it; "": none. */
    const char *missing; /* Stands for it when it is not there; such an option is left out. */
};

typedef void page_fn(struct tn_http_request *request);

struct tn_route {
    const char *method;
    const char *path; /* With a slash at its end: a name follows, the first word. */
    const char *words[2];
    struct field fields[6];
    tn_shape_fn *shape;
    bool many;     /* The reply is a list of them. */
    bool stream;   /* Or events follow it. */
    page_fn *page; /* Or an answer without a command, */
    bool open;     /* for everybody. */
};

static page_fn health, readiness, metrics;

#define SESSION                       \
    {                                 \
        "session", STRING, NULL, NULL \
    }
#define TERM                       \
    {                              \
        "term", STRING, NULL, NULL \
    }
#define ANY_TERM                \
    {                           \
        "term", STRING, "", "*" \
    }
#define NAME                       \
    {                              \
        "name", STRING, NULL, NULL \
    }
#define TOKEN                       \
    {                               \
        "token", NUMBER, NULL, NULL \
    }

static const struct tn_route routes[] = {
    { "POST",
      "/v1/sessions",
      { "SESSION", "OPEN" },
      { { "session", STRING, "", "*" },
        { "ttl_ms", NUMBER, NULL, NULL },
        { "label", STRING, "LABEL", NULL },
        { "seq", NUMBER, "SEQ", NULL },
        { "saw", NUMBER, "SAW", NULL } },
      .shape = tn_shape_opened },
    { "POST",
      "/v1/sessions/renew",
      { "SESSION", "RENEW" },
      { SESSION, { "seq", NUMBER, "SEQ", NULL }, { "seen", NUMBER, "SEEN", NULL } },
      .shape = tn_shape_renewed },
    { "POST",
      "/v1/sessions/renew",
      { "SESSION", "MRENEW" },
      { { "sessions", STRINGS, NULL, NULL } },
      .shape = tn_shape_renewed,
      .many = true },
    { "POST", "/v1/sessions/close", { "SESSION", "CLOSE" }, { SESSION }, .shape = tn_shape_done },
    { "POST",
      "/v1/leases/acquire",
      { "LEASE", "ACQUIRE" },
      { SESSION, ANY_TERM, NAME, { "wait_ms", NUMBER, "WAIT", "0" } },
      .shape = tn_shape_acquired },
    { "POST",
      "/v1/leases/acquire",
      { "LEASE", "MACQUIRE" },
      { SESSION, ANY_TERM, { "names", STRINGS, NULL, NULL } },
      .shape = tn_shape_acquired,
      .many = true },
    { "POST",
      "/v1/leases/release",
      { "LEASE", "RELEASE" },
      { SESSION, TERM, NAME, TOKEN },
      .shape = tn_shape_released },
    { "POST",
      "/v1/leases/release",
      { "LEASE", "MRELEASE" },
      { SESSION, TERM, { "leases", LEASES, NULL, NULL } },
      .shape = tn_shape_released,
      .many = true },
    { "POST",
      "/v1/leases/revoke",
      { "REVOKE" },
      { NAME, { "token", NUMBER, "", NULL } },
      .shape = tn_shape_done },
    { "POST",
      "/v1/leases/handover",
      { "HANDOVER" },
      { NAME,
        { "token", NUMBER, "TOKEN", NULL },
        { "to", STRING, "TO", NULL },
        { "for_ms", NUMBER, "FOR", NULL } },
      .shape = tn_shape_token },
    { "POST",
      "/v1/leases/stand-down",
      { "STAND-DOWN" },
      { NAME, { "for_ms", NUMBER, "FOR", NULL } },
      .shape = tn_shape_held },
    { "POST", "/v1/leases/resume", { "RESUME" }, { NAME }, .shape = tn_shape_ended },
    { "POST",
      "/v1/nodes/drain",
      { "DRAIN" },
      { { "id", STRING, "ID", NULL },
        { "host", STRING, "HOST", NULL },
        { "for_ms", NUMBER, "FOR", NULL } },
      .shape = tn_shape_held },
    { "POST",
      "/v1/nodes/undrain",
      { "UNDRAIN" },
      { { "id", STRING, "ID", NULL }, { "host", STRING, "HOST", NULL } },
      .shape = tn_shape_ended },
    { "GET",
      "/v1/leases",
      { "LEASE", "MGET" },
      { { "names", NAMES, NULL, NULL } },
      .shape = tn_shape_lease_list },
    { "GET",
      "/v1/leases",
      { "LEASE", "LIST" },
      { { "cursor", NUMBER, "", "0" },
        { "prefix", STRING, "PREFIX", NULL },
        { "count", NUMBER, "COUNT", NULL } },
      .shape = tn_shape_leases },
    { "GET", "/v1/leases/", { "LEASE", "GET" }, { { 0 } }, .shape = tn_shape_lease },
    { "GET", "/v1/line/", { "LEASE", "LINE" }, { { 0 } }, .shape = tn_shape_line },
    { "GET",
      "/v1/history",
      { "HISTORY" },
      { { "names", NAMES, NULL, NULL } },
      .shape = tn_shape_histories },
    { "GET", "/v1/history/", { "HISTORY" }, { { 0 } }, .shape = tn_shape_history },
    { "GET",
      "/v1/sessions",
      { "SESSION", "LIST" },
      { { "cursor", NUMBER, "", "0" }, { "count", NUMBER, "COUNT", NULL } },
      .shape = tn_shape_sessions },
    { "GET",
      "/v1/fences",
      { "FENCE", "LIST" },
      { { "cursor", NUMBER, "", "0" }, { "count", NUMBER, "COUNT", NULL } },
      .shape = tn_shape_fences },
    { "GET", "/v1/whoami", { "WHOAMI" }, { { 0 } }, .shape = tn_shape_whoami },
    { "GET", "/v1/events", .words = { "WATCH" }, .stream = true },
    { "POST",
      "/v1/fences/admit",
      { "FENCE", "ADMIT" },
      { { "resource", STRING, NULL, NULL }, TOKEN },
      .shape = tn_shape_done },
    { "POST",
      "/v1/fences/raise",
      { "FENCE", "RAISE" },
      { { "resource", STRING, NULL, NULL }, TOKEN },
      .shape = tn_shape_done },
    { "POST",
      "/v1/fences/remove",
      { "FENCE", "REMOVE" },
      { { "resource", STRING, NULL, NULL } },
      .shape = tn_shape_highest },
    { "GET", "/v1/fences/", { "FENCE", "SHOW" }, { { 0 } }, .shape = tn_shape_highest },
    { "GET",
      "/v1/auth/",
      { "FENCE", "ADMIT" },
      { { "Fence-Token", NUMBER, NULL, NULL } },
      .shape = tn_shape_done },
    { "GET", "/v1/token", { "TOKEN" }, { { 0 } }, .shape = tn_shape_token },
    { "POST", "/v1/token/raise", { "TOKEN", "RAISE" }, { TOKEN }, .shape = tn_shape_token },
    { "GET", "/v1/info", { "INFO" }, { { 0 } }, .shape = tn_shape_told },
    { "GET", "/metrics", .page = metrics },
    { "GET", "/healthz", .page = health, .open = true },
    { "GET", "/readyz", .page = readiness, .open = true },
};

#define ROUTES (sizeof routes / sizeof routes[0])

#ifdef TENURE_CONSOLE
/* The console's page and its parts: not of the API, so not among the routes. */
static page_fn console;
static const struct tn_route console_route = { .method = "GET", .path = "/", .page = console };
#endif
#ifdef TENURE_SANDBOX
static page_fn sandbox;
static const struct tn_route sandbox_route = { .method = "GET",
                                               .path = "/sandbox",
                                               .page = sandbox };
#endif

bool tn_route_is_open(const struct tn_route *route)
{
    return route->open;
}

/* Whether @url is the route's; *@ret_rest is what follows. */
static bool leads_to(const struct tn_route *route, const char *url, const char **ret_rest)
{
    size_t len = strlen(route->path);

    if (strncmp(url, route->path, len) != 0)
        return false;
    *ret_rest = url + len;
    return route->path[len - 1] == '/' ? url[len] != 0 : url[len] == 0;
}

static bool is_method(const struct tn_http_request *request, const char *method)
{
    const struct tn_http_slice *given = &request->head->method;

    if (request->web->http.to_head)
        return strcmp(method, "GET") == 0;
    return given->len == strlen(method) && memcmp(given->bytes, method, given->len) == 0;
}

const struct tn_route *tn_route_find(struct tn_http_request *request)
{
    const char *url = request->target.text;
    bool gets = false;
    bool posts = false;

#ifdef TENURE_CONSOLE
    if (is_method(request, "GET") &&
        (request->file = tn_page_find(tn_console_pages, url, "/console.html")) != NULL)
        return &console_route;
#endif
#ifdef TENURE_SANDBOX
    if (is_method(request, "GET") && strncmp(url, "/sandbox", 8) == 0 &&
        (request->file = tn_page_find(tn_pages, url[8] != '\0' ? url + 8 : "/", "/index.html")) !=
            NULL) {
        request->rest = url + 8;
        return &sandbox_route;
    }
#endif
    for (size_t i = 0; i < ROUTES; i++) {
        if (!leads_to(&routes[i], url, &request->rest))
            continue;
        if (is_method(request, routes[i].method))
            return &routes[i];
        gets = gets || strcmp(routes[i].method, "GET") == 0;
        posts = posts || strcmp(routes[i].method, "POST") == 0;
    }
    if (!gets && !posts) {
        tn_http_refuse(request, TN_STATUS_NOT_FOUND, "ERR", "no such page; see docs/openapi.yaml");
        return NULL;
    }
    request->fields = !gets    ? "Allow: POST\r\n"
                      : !posts ? "Allow: GET, HEAD\r\n"
                               : "Allow: GET, HEAD, POST\r\n";
    tn_http_refuse(request, TN_STATUS_METHOD_NOT_ALLOWED, "ERR", "not by this method");
    return NULL;
}

/* --- Words ------------------------------------------------------------------------------------ */

enum { VALUES_MAX = 4096 };

/* The body of the request at hand; there is one thread. */
static struct tn_json_value values[VALUES_MAX];

static bool is_head(const char *key)
{
    return key != NULL && key[0] >= 'A' && key[0] <= 'Z';
}

static const struct tn_http_slice *find_in_head(const struct tn_http_request *request,
                                                const char *key, unsigned *ret_count)
{
    char small[32];
    size_t len = strlen(key);

    TN_ASSERT(len < sizeof small);
    for (size_t i = 0; i <= len; i++)
        small[i] = (char)(key[i] >= 'A' && key[i] <= 'Z' ? key[i] + ('a' - 'A') : key[i]);
    return tn_http_field(request->head, small, ret_count);
}

/* A field of the head that the route needs is there once; else the request is refused. */
static bool has_head(struct tn_http_request *request)
{
    unsigned count;

    if (!is_head(request->route->fields[0].key))
        return true;
    (void)find_in_head(request, request->route->fields[0].key, &count);
    if (count == 0)
        tn_http_refuse(request, TN_STATUS_PRECONDITION_REQUIRED, "ERR", "Fence-Token is missing");
    else if (count > 1)
        tn_http_refuse(request, TN_STATUS_BAD_REQUEST, "ERR", "Fence-Token is there twice");
    return count == 1;
}

static bool look_up(const struct tn_http_request *request, const char *key,
                    struct tn_json_value *ret_value, const struct tn_json_value **ret_place)
{
    const struct tn_json_value *found;
    const char *argument;

    if (request->route->method[0] == 'P') {
        found = tn_json_get(values, 0, key);
        if (found != NULL)
            *ret_value = *found;
        *ret_place = found;
        return found != NULL;
    }
    if (is_head(key)) {
        const struct tn_http_slice *field = find_in_head(request, key, NULL);
        if (field != NULL)
            *ret_value = (struct tn_json_value) { .type = TN_JSON_STRING,
                                                  .bytes = field->bytes,
                                                  .len = (uint32_t)field->len };
        return field != NULL;
    }
    argument = tn_http_target_argument(&request->target, key);
    if (argument != NULL)
        *ret_value = (struct tn_json_value) { .type = TN_JSON_STRING,
                                              .bytes = argument,
                                              .len = (uint32_t)strlen(argument) };
    return argument != NULL;
}

static bool is_of(const struct tn_http_request *request, const struct tn_json_value *value,
                  enum argument_kind kind)
{
    switch (kind) {
    case NUMBER:
        return value->type == TN_JSON_NUMBER || request->route->method[0] == 'G';
    case STRING:
    case NAMES:
        return value->type == TN_JSON_STRING;
    case STRINGS:
    case LEASES:
        break;
    }
    return value->type == TN_JSON_ARRAY && value->count > 0;
}

/* Whether the request has what the route needs, and nothing that it does not know. */
static bool fits(const struct tn_http_request *request, const struct tn_route *route)
{
    const struct tn_json_value *place;
    struct tn_json_value value;
    uint32_t known = 0;

    for (const struct field *field = route->fields; field->key != NULL; field++) {
        if (look_up(request, field->key, &value, &place)) {
            if (!is_of(request, &value, field->kind))
                return false;
            known++;
        } else if (field->option == NULL) {
            return false;
        }
    }
    return request->route->method[0] == 'G' || known == values[0].count;
}

struct words {
    struct tn_resp_word *list;
    uint32_t count;
    bool failed;
};

static void add_word(struct words *words, const char *bytes, uint32_t len)
{
    words->failed = words->failed || words->count == TN_WORDS_MAX;
    if (!words->failed)
        words->list[words->count++] = (struct tn_resp_word) { bytes, len };
}

static void add_text(struct words *words, const char *text)
{
    add_word(words, text, (uint32_t)strlen(text));
}

static void add_list(struct words *words, const struct tn_json_value *list, enum argument_kind kind)
{
    const struct tn_json_value *item = list + 1;

    for (uint32_t i = 0; i < list->count && !words->failed; i++) {
        if (kind == STRINGS && item->type == TN_JSON_STRING) {
            add_word(words, item->bytes, item->len);
        } else if (kind == LEASES && item->type == TN_JSON_OBJECT && item->count == 2) {
            uint32_t index = (uint32_t)(item - values);
            const struct tn_json_value *name = tn_json_get(values, index, "name");
            const struct tn_json_value *token_value = tn_json_get(values, index, "token");
            words->failed = name == NULL || token_value == NULL || name->type != TN_JSON_STRING ||
                            token_value->type != TN_JSON_NUMBER;
            if (words->failed)
                return;
            add_word(words, name->bytes, name->len);
            add_word(words, token_value->bytes, token_value->len);
        } else {
            words->failed = true;
        }
        item = &values[item->next];
    }
}

static void add_names(struct words *words, const char *text)
{
    for (;;) {
        size_t len = strcspn(text, ",");
        add_word(words, text, (uint32_t)len);
        if (text[len] == 0)
            return;
        text += len + 1;
    }
}

static void add_field(struct words *words, const struct tn_http_request *request,
                      const struct field *field)
{
    const struct tn_json_value *place = NULL;
    struct tn_json_value value;

    if (!look_up(request, field->key, &value, &place)) {
        if (field->missing != NULL && field->option[0] == 0)
            add_text(words, field->missing);
        return;
    }
    if (field->option != NULL && field->option[0] != 0) {
        if (field->missing != NULL && value.len == 1 && value.bytes[0] == field->missing[0])
            return;
        add_text(words, field->option);
    }
    if (field->kind == STRINGS || field->kind == LEASES)
        add_list(words, place, field->kind);
    else if (field->kind == NAMES)
        add_names(words, value.bytes);
    else
        add_word(words, value.bytes, value.len);
}

static void refuse_body(struct tn_http_request *request)
{
    char buf[400];
    struct tn_text text;
    const char *comma = "";

    tn_text_init(&text, buf, sizeof buf);
    tn_text_add(&text, "expected a JSON object of: ");
    for (size_t i = 0; i < ROUTES; i++) {
        if (strcmp(routes[i].path, request->route->path) != 0 ||
            routes[i].method[0] != request->route->method[0])
            continue;
        if (comma[0] != 0)
            comma = "; or: ";
        for (const struct field *field = routes[i].fields; field->key != NULL; field++) {
            tn_text_addf(&text, "%s%s%s", comma, field->key, field->option != NULL ? "?" : "");
            comma = ", ";
        }
    }
    tn_metrics_refused(request->server, "ERR");
    tn_http_refuse(request, TN_STATUS_BAD_REQUEST, "ERR", buf);
}

uint32_t tn_route_words(struct tn_http_request *request, struct tn_resp_word list[TN_WORDS_MAX])
{
    struct words words = { .list = list };
    const struct tn_route *route = request->route;
    const struct tn_route *end = routes + ROUTES;
    size_t len;
    char *body = tn_http_conn_body(&request->web->http, &len);

    if (route->page != NULL) {
        route->page(request);
        return 0;
    }
    if (route->stream)
        return tn_events_words(request, list);
    if (route->method[0] == 'P' &&
        (tn_json_read(body, len, values, VALUES_MAX) < 1 || values[0].type != TN_JSON_OBJECT)) {
        refuse_body(request);
        return 0;
    }
    if (!has_head(request))
        return 0;
    while (route < end && strcmp(route->path, request->route->path) == 0 && !fits(request, route))
        route++;
    if (route == end || strcmp(route->path, request->route->path) != 0) {
        refuse_body(request);
        return 0;
    }
    request->route = route;
    for (size_t i = 0; i < 2 && route->words[i] != NULL; i++)
        add_text(&words, route->words[i]);
    if (request->rest[0] != 0)
        add_text(&words, request->rest);
    for (const struct field *field = route->fields; field->key != NULL; field++)
        add_field(&words, request, field);
    if (!words.failed)
        return words.count;
    refuse_body(request);
    return 0;
}

void tn_route_replied(struct tn_http_request *request, const char *bytes, size_t len)
{
    const struct tn_route *route = request->route;
    size_t size = 6 * len + 1024; /* A byte of text becomes six at worst; the rest grows less. */
    char *buf = malloc(size);
    unsigned status = TN_STATUS_OK;
    struct tn_text text;

    if (buf == NULL) {
        tn_conn_close(request->conn);
        return;
    }
    tn_text_init(&text, buf, size);
    if (route->stream && bytes[0] != '-')
        tn_events_begin(request);
    else
        tn_reply_write(&text, (struct tn_reply) { .bytes = bytes, .len = len }, route->shape,
                       route->many, &status);
    if (!route->stream || bytes[0] == '-') {
        tn_text_add(&text, "\n");
        tn_http_answer(request, status, "application/json", buf, text.len);
    }
    free(buf);
}

/* --- Pages ------------------------------------------------------------------------------------ */

static void say(struct tn_http_request *request, unsigned status, const char *line)
{
    tn_http_answer(request, status, "text/plain; charset=utf-8", line, strlen(line));
}

static void health(struct tn_http_request *request)
{
    say(request, TN_STATUS_OK, "ok\n");
}

static void readiness(struct tn_http_request *request)
{
    struct tn_server *server = request->server;

    if (server->draining)
        say(request, TN_STATUS_SERVICE_UNAVAILABLE, "the daemon is ending\n");
    else if (tn_journal_is_short(&server->journal))
        say(request, TN_STATUS_SERVICE_UNAVAILABLE, "the disk is full\n");
    else
        say(request, TN_STATUS_OK, "ok\n");
}

#define PAGE_FIELDS(policy)                                      \
    "Content-Encoding: gzip\r\nReferrer-Policy: no-referrer\r\n" \
    "Content-Security-Policy: " policy "\r\n"

#ifdef TENURE_CONSOLE
static void console(struct tn_http_request *request)
{
    const struct tn_page *file = request->file;

    request->fields = PAGE_FIELDS(TN_CONSOLE_POLICY);
    tn_http_answer(request, TN_STATUS_OK, tn_page_type(file), (const char *)file->gzip, file->size);
}
#endif

#ifdef TENURE_SANDBOX
/* Without the slash the page would seek its parts beside it. */
static void sandbox(struct tn_http_request *request)
{
    const struct tn_page *file = request->file;
    bool whole = *request->rest != '\0';

    request->fields = whole ? PAGE_FIELDS(TN_SANDBOX_POLICY)
                            : PAGE_FIELDS(TN_SANDBOX_POLICY) "Location: /sandbox/\r\n";
    tn_http_answer(request, whole ? TN_STATUS_OK : TN_STATUS_MOVED_PERMANENTLY, tn_page_type(file),
                   (const char *)file->gzip, file->size);
}
#endif

static void metrics(struct tn_http_request *request)
{
    struct tn_call call = { .server = request->server, .conn = request->conn };
    static char buf[TN_METRICS_SIZE];
    struct tn_text text;

    if (!tn_may_quietly(&call, TN_OBSERVE, NULL, 0)) {
        tn_metrics_refused(request->server, "DENIED");
        tn_http_refuse(request, TN_STATUS_FORBIDDEN, "DENIED", "the user may not observe anything");
        return;
    }
    tn_text_init(&text, buf, sizeof buf);
    tn_metrics_write(request->server, &text);
    tn_http_answer(request, TN_STATUS_OK, "text/plain; version=0.0.4; charset=utf-8", buf,
                   text.len);
}
