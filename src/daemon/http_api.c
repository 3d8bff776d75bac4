/* http_api.c - which request is which command, and what its reply is as JSON.
 *
 * The table below is the whole of it: where the words of a command come from, and the shape of its
 * reply. docs/openapi.yaml says the same to the world, and a test holds the two together. */
#define _GNU_SOURCE
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "daemon/http.h"

/* --- Routes ----------------------------------------------------------------------------------- */

enum kind {
    STRING = 1,
    NUMBER,
    STRINGS, /* A list. */
    LEASES,  /* A list of objects with name and token. */
};

struct field {
    const char *key; /* With a capital: a field of the head. */
    enum kind kind;
    const char *option;  /* NULL: it is needed. A word that comes before it; "": none. */
    const char *missing; /* Stands for it when it is not there; such an option is left out. */
};

typedef void shape_fn(struct tn_text *text, struct tn_reply *reply, struct tn_resp_value value,
                      unsigned *status);
typedef void page_fn(struct tn_http_request *request);

struct tn_route {
    const char *method;
    const char *path; /* With a slash at its end: a name follows, the first word. */
    const char *words[2];
    struct field fields[6];
    shape_fn *shape;
    bool many;     /* The reply is a list of them. */
    bool stream;   /* Or events follow it. */
    page_fn *page; /* Or an answer without a command, */
    bool open;     /* for everybody. */
};

static shape_fn opened, renewed, done, acquired, released, lease, leases, highest, token, told;
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
      .shape = opened },
    { "POST",
      "/v1/sessions/renew",
      { "SESSION", "RENEW" },
      { SESSION, { "seq", NUMBER, "SEQ", NULL }, { "seen", NUMBER, "SEEN", NULL } },
      .shape = renewed },
    { "POST",
      "/v1/sessions/renew",
      { "SESSION", "MRENEW" },
      { { "sessions", STRINGS, NULL, NULL } },
      .shape = renewed,
      .many = true },
    { "POST", "/v1/sessions/close", { "SESSION", "CLOSE" }, { SESSION }, .shape = done },
    { "POST",
      "/v1/leases/acquire",
      { "LEASE", "ACQUIRE" },
      { SESSION, ANY_TERM, NAME, { "wait_ms", NUMBER, "WAIT", "0" } },
      .shape = acquired },
    { "POST",
      "/v1/leases/acquire",
      { "LEASE", "MACQUIRE" },
      { SESSION, ANY_TERM, { "names", STRINGS, NULL, NULL } },
      .shape = acquired,
      .many = true },
    { "POST",
      "/v1/leases/release",
      { "LEASE", "RELEASE" },
      { SESSION, TERM, NAME, TOKEN },
      .shape = released },
    { "POST",
      "/v1/leases/release",
      { "LEASE", "MRELEASE" },
      { SESSION, TERM, { "leases", LEASES, NULL, NULL } },
      .shape = released,
      .many = true },
    { "POST",
      "/v1/leases/revoke",
      { "REVOKE" },
      { NAME, { "token", NUMBER, "", NULL } },
      .shape = done },
    { "GET",
      "/v1/leases",
      { "LEASE", "LIST" },
      { { "cursor", NUMBER, "", "0" },
        { "prefix", STRING, "PREFIX", NULL },
        { "count", NUMBER, "COUNT", NULL } },
      .shape = leases },
    { "GET", "/v1/leases/", { "LEASE", "GET" }, { { 0 } }, .shape = lease },
    { "GET", "/v1/events", .words = { "WATCH" }, .stream = true },
    { "POST",
      "/v1/fences/admit",
      { "FENCE", "ADMIT" },
      { { "resource", STRING, NULL, NULL }, TOKEN },
      .shape = done },
    { "POST",
      "/v1/fences/raise",
      { "FENCE", "RAISE" },
      { { "resource", STRING, NULL, NULL }, TOKEN },
      .shape = done },
    { "POST",
      "/v1/fences/remove",
      { "FENCE", "REMOVE" },
      { { "resource", STRING, NULL, NULL } },
      .shape = highest },
    { "GET", "/v1/fences/", { "FENCE", "SHOW" }, { { 0 } }, .shape = highest },
    { "GET",
      "/v1/auth/",
      { "FENCE", "ADMIT" },
      { { "Fence-Token", NUMBER, NULL, NULL } },
      .shape = done },
    { "GET", "/v1/token", { "TOKEN" }, { { 0 } }, .shape = token },
    { "POST", "/v1/token/raise", { "TOKEN", "RAISE" }, { TOKEN }, .shape = token },
    { "GET", "/v1/info", { "INFO" }, { { 0 } }, .shape = told },
    { "GET", "/metrics", .page = metrics },
    { "GET", "/healthz", .page = health, .open = true },
    { "GET", "/readyz", .page = readiness, .open = true },
};

#define ROUTES (sizeof routes / sizeof routes[0])

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

const struct tn_route *tn_route_find(struct tn_http_request *request, const char *method,
                                     const char *url)
{
    bool gets = false;
    bool posts = false;

    if (strcmp(method, "HEAD") == 0)
        method = "GET";
    for (size_t i = 0; i < ROUTES; i++) {
        if (!leads_to(&routes[i], url, &request->rest))
            continue;
        if (strcmp(routes[i].method, method) == 0)
            return &routes[i];
        gets = gets || strcmp(routes[i].method, "GET") == 0;
        posts = posts || strcmp(routes[i].method, "POST") == 0;
    }
    if (!gets && !posts) {
        tn_http_refuse(request, MHD_HTTP_NOT_FOUND, "ERR", "no such page; see docs/openapi.yaml");
        return NULL;
    }
    tn_http_refuse(request, MHD_HTTP_METHOD_NOT_ALLOWED, "ERR", "not by this method");
    if (request->response != NULL)
        (void)MHD_add_response_header(request->response, "Allow",
                                      !gets    ? "POST"
                                      : !posts ? "GET, HEAD"
                                               : "GET, HEAD, POST");
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

struct wanted {
    const char *key;
    unsigned count;
};

static enum MHD_Result count_key(void *arg, enum MHD_ValueKind kind, const char *key,
                                 const char *value)
{
    struct wanted *wanted = arg;

    (void)kind;
    (void)value;
    wanted->count += strcasecmp(key, wanted->key) == 0;
    return MHD_YES;
}

/* A field of the head that the route needs is there once; else the request is refused. */
static bool has_head(struct tn_http_request *request)
{
    struct wanted wanted = { request->route->fields[0].key, 0 };

    if (!is_head(wanted.key))
        return true;
    (void)MHD_get_connection_values(request->mhd, MHD_HEADER_KIND, count_key, &wanted);
    if (wanted.count == 0)
        tn_http_refuse(request, MHD_HTTP_PRECONDITION_REQUIRED, "ERR", "Fence-Token is missing");
    else if (wanted.count > 1)
        tn_http_refuse(request, MHD_HTTP_BAD_REQUEST, "ERR", "Fence-Token is there twice");
    return wanted.count == 1;
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
    argument = MHD_lookup_connection_value(
        request->mhd, is_head(key) ? MHD_HEADER_KIND : MHD_GET_ARGUMENT_KIND, key);
    if (argument != NULL)
        *ret_value = (struct tn_json_value) { .type = TN_JSON_STRING,
                                              .bytes = argument,
                                              .len = (uint32_t)strlen(argument) };
    return argument != NULL;
}

static bool is_of(const struct tn_http_request *request, const struct tn_json_value *value,
                  enum kind kind)
{
    switch (kind) {
    case NUMBER:
        return value->type == TN_JSON_NUMBER || request->route->method[0] == 'G';
    case STRING:
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

static void add_list(struct words *words, const struct tn_json_value *list, enum kind kind)
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
    tn_http_refuse(request, MHD_HTTP_BAD_REQUEST, "ERR", buf);
}

uint32_t tn_route_words(struct tn_http_request *request, struct tn_resp_word list[TN_WORDS_MAX])
{
    struct words words = { .list = list };
    const struct tn_route *route = request->route;
    const struct tn_route *end = routes + ROUTES;

    if (route->page != NULL) {
        route->page(request);
        return 0;
    }
    if (route->stream)
        return tn_events_words(request, list);
    if (route->method[0] == 'P' &&
        (tn_json_read(request->body.bytes, request->body.len, values, VALUES_MAX) < 1 ||
         values[0].type != TN_JSON_OBJECT)) {
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

/* --- Replies ---------------------------------------------------------------------------------- */

struct tn_resp_value tn_reply_next(struct tn_reply *reply)
{
    struct tn_resp_value value = { .type = TN_RESP_NULL };

    if (tn_resp_next(reply->bytes, reply->len, &reply->at, &value) != 0)
        value.type = TN_RESP_NULL;
    return value;
}

/* A number; tokens beyond 2^63 are digits in a string. */
static void put_number(struct tn_text *text, struct tn_resp_value value)
{
    if (value.type == TN_RESP_STRING)
        tn_text_add_bytes(text, value.bytes, value.len);
    else
        tn_text_addf(text, "%" PRId64, value.integer);
}

static void put_field(struct tn_text *text, const char *key, struct tn_reply *reply)
{
    tn_text_addf(text, "\"%s\":", key);
    put_number(text, tn_reply_next(reply));
}

static unsigned status_of(const char *word, size_t len)
{
    static const struct {
        const char *word;
        unsigned status;
    } list[] = {
        { "ERR", MHD_HTTP_BAD_REQUEST },
        { "GONE", MHD_HTTP_GONE },
        { "STALE", MHD_HTTP_PRECONDITION_FAILED },
        { "DENIED", MHD_HTTP_FORBIDDEN },
        { "NOAUTH", MHD_HTTP_UNAUTHORIZED },
        { "FULL", MHD_HTTP_INSUFFICIENT_STORAGE },
        { "OLDER", MHD_HTTP_CONFLICT },
        { "UNAVAILABLE", MHD_HTTP_SERVICE_UNAVAILABLE },
    };

    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++)
        if (strlen(list[i].word) == len && memcmp(list[i].word, word, len) == 0)
            return list[i].status;
    return MHD_HTTP_INTERNAL_SERVER_ERROR;
}

static void put_error(struct tn_text *text, struct tn_resp_value value, unsigned *status)
{
    const char *blank = memchr(value.bytes, ' ', value.len);
    size_t word = blank != NULL ? (size_t)(blank - value.bytes) : value.len;
    size_t rest = blank != NULL ? word + 1 : word;

    *status = status_of(value.bytes, word);
    tn_text_addf(text, "{\"error\":\"%.*s\",\"message\":", (int)word, value.bytes);
    tn_json_string(text, value.bytes + rest, value.len - rest);
    tn_text_add(text, "}");
}

static void opened(struct tn_text *text, struct tn_reply *reply, struct tn_resp_value value,
                   unsigned *status)
{
    const char *comma = "{";

    (void)status;
    for (uint32_t i = 0; i + 1 < value.count; i += 2) {
        struct tn_resp_value key = tn_reply_next(reply);
        struct tn_resp_value content = tn_reply_next(reply);
        tn_text_addf(text, "%s\"%.*s\":", comma, (int)key.len, key.bytes);
        if (key.len == 7 && memcmp(key.bytes, "session", 7) == 0)
            tn_json_string(text, content.bytes, content.len);
        else
            put_number(text, content);
        comma = ",";
    }
    tn_text_add(text, "}");
}

static void renewed(struct tn_text *text, struct tn_reply *reply, struct tn_resp_value value,
                    unsigned *status)
{
    static const char *const keys[] = { "ttl_ms", "held", "seen" };

    (void)status;
    (void)value;
    for (size_t i = 0; i < 3; i++) {
        tn_text_add(text, i == 0 ? "{" : ",");
        put_field(text, keys[i], reply);
    }
    tn_text_addf(text, ",\"more\":%s,\"revoked\":[",
                 tn_reply_next(reply).integer != 0 ? "true" : "false");
    uint32_t count = tn_reply_next(reply).count;
    for (uint32_t i = 0; i + 1 < count; i += 2) {
        struct tn_resp_value name = tn_reply_next(reply);
        tn_text_add(text, i == 0 ? "{\"name\":" : ",{\"name\":");
        tn_json_string(text, name.bytes, name.len);
        tn_text_add(text, ",");
        put_field(text, "token", reply);
        tn_text_add(text, "}");
    }
    tn_text_add(text, "]}");
}

static void acquired(struct tn_text *text, struct tn_reply *reply, struct tn_resp_value value,
                     unsigned *status)
{
    bool granted = value.type == TN_RESP_ARRAY && value.count == 3;

    if (!granted)
        *status = MHD_HTTP_CONFLICT;
    tn_text_addf(text, "{\"granted\":%s", granted ? "true" : "false");
    if (value.type == TN_RESP_NULL) { /* Its time in line is over. */
        tn_text_add(text, "}");
        return;
    }
    (void)tn_reply_next(reply); /* granted, held */
    tn_text_add(text, ",");
    put_field(text, "token", reply);
    struct tn_resp_value who = tn_reply_next(reply);
    tn_text_add(text, granted ? ",\"term\":" : ",\"holder\":");
    tn_json_string(text, who.bytes, who.len);
    if (!granted) {
        tn_text_add(text, ",");
        put_field(text, "remaining_ms", reply);
    }
    tn_text_add(text, "}");
}

static void released(struct tn_text *text, struct tn_reply *reply, struct tn_resp_value value,
                     unsigned *status)
{
    (void)reply;
    (void)value;
    (void)status;
    tn_text_add(text, "{\"released\":true}");
}

static void done(struct tn_text *text, struct tn_reply *reply, struct tn_resp_value value,
                 unsigned *status)
{
    (void)reply;
    (void)value;
    (void)status;
    tn_text_add(text, "{\"ok\":true}");
}

static void highest(struct tn_text *text, struct tn_reply *reply, struct tn_resp_value value,
                    unsigned *status)
{
    (void)reply;
    (void)status;
    tn_text_add(text, "{\"highest\":");
    put_number(text, value);
    tn_text_add(text, "}");
}

static void token(struct tn_text *text, struct tn_reply *reply, struct tn_resp_value value,
                  unsigned *status)
{
    (void)reply;
    (void)status;
    tn_text_add(text, "{\"token\":");
    put_number(text, value);
    tn_text_add(text, "}");
}

/* Lines "key:value", and headings that are not needed here. */
static void told(struct tn_text *text, struct tn_reply *reply, struct tn_resp_value value,
                 unsigned *status)
{
    const char *at = value.bytes;
    const char *end = value.bytes + value.len;
    const char *comma = "{";

    (void)reply;
    (void)status;
    while (at < end) {
        const char *line_end = memchr(at, '\r', (size_t)(end - at));
        const char *colon = memchr(at, ':', (size_t)(end - at));
        if (line_end == NULL)
            break;
        if (colon != NULL && colon < line_end) {
            size_t len = (size_t)(line_end - colon - 1);
            tn_text_addf(text, "%s\"%.*s\":", comma, (int)(colon - at), at);
            if (strspn(colon + 1, "0123456789") == len)
                tn_text_add_bytes(text, colon + 1, len);
            else
                tn_json_string(text, colon + 1, len);
            comma = ",";
        }
        at = line_end + 2;
    }
    tn_text_add(text, "}");
}

/* The fields of `tenure status --json`. */
void tn_json_lease(struct tn_text *text, struct tn_reply *reply, uint32_t count)
{
    static const char *const keys[] = {
        "name", "state", "token", "holder", "ttl_ms", "remaining_ms"
    };
    struct tn_resp_value found[6] = { 0 };

    for (uint32_t i = 0; i + 1 < count; i += 2) {
        struct tn_resp_value key = tn_reply_next(reply);
        struct tn_resp_value value = tn_reply_next(reply);
        for (size_t k = 0; k < 6; k++)
            if (strlen(keys[k]) == key.len && memcmp(keys[k], key.bytes, key.len) == 0)
                found[k] = value;
    }
    bool held = found[3].bytes != NULL;
    tn_text_add(text, "{\"name\":");
    tn_json_string(text, found[0].bytes, found[0].len);
    tn_text_addf(text, ",\"state\":\"%s\",\"holder\":", held ? "held" : "free");
    if (held)
        tn_json_string(text, found[3].bytes, found[3].len);
    else
        tn_text_add(text, "null");
    tn_text_add(text, ",\"token\":");
    put_number(text, found[2]);
    tn_text_addf(text, ",\"ttl_ms\":%" PRId64 ",\"remaining_ms\":%" PRId64, found[4].integer,
                 found[5].integer);
    tn_text_add(text, held && found[1].bytes[0] == 'r' ? ",\"revoked\":true}" : "}");
}

static void lease(struct tn_text *text, struct tn_reply *reply, struct tn_resp_value value,
                  unsigned *status)
{
    (void)status;
    tn_json_lease(text, reply, value.count);
}

static void leases(struct tn_text *text, struct tn_reply *reply, struct tn_resp_value value,
                   unsigned *status)
{
    (void)value;
    (void)status;
    tn_text_add(text, "{");
    put_field(text, "cursor", reply);
    tn_text_add(text, ",\"leases\":[");
    uint32_t count = tn_reply_next(reply).count;
    for (uint32_t i = 0; i < count; i++) {
        if (i > 0)
            tn_text_add(text, ",");
        tn_json_lease(text, reply, tn_reply_next(reply).count);
    }
    tn_text_add(text, "]}");
}

static void put_result(struct tn_text *text, struct tn_reply *reply, shape_fn *shape,
                       unsigned *status)
{
    struct tn_resp_value value = tn_reply_next(reply);

    if (value.type == TN_RESP_ERROR)
        put_error(text, value, status);
    else
        shape(text, reply, value, status);
}

void tn_route_replied(struct tn_http_request *request, const char *bytes, size_t len)
{
    struct tn_reply reply = { .bytes = bytes, .len = len };
    const struct tn_route *route = request->route;
    size_t size = 6 * len + 1024; /* A byte of text becomes six at worst; the rest grows less. */
    char *buf = malloc(size);
    unsigned status = MHD_HTTP_OK;
    struct tn_text text;

    if (buf == NULL) {
        tn_conn_close(request->conn);
        return;
    }
    tn_text_init(&text, buf, size);
    if (route->stream && bytes[0] != '-') {
        tn_events_begin(request);
    } else if (!route->many || bytes[0] == '-') {
        put_result(&text, &reply, route->shape, &status);
    } else {
        unsigned ignored;
        uint32_t count = tn_reply_next(&reply).count;
        for (uint32_t i = 0; i < count; i++) {
            tn_text_add(&text, i == 0 ? "{\"results\":[" : ",");
            put_result(&text, &reply, route->shape, &ignored);
        }
        tn_text_add(&text, "]}");
    }
    if (!request->answered) {
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
    say(request, MHD_HTTP_OK, "ok\n");
}

static void readiness(struct tn_http_request *request)
{
    struct tn_server *server = request->server;

    if (server->draining)
        say(request, MHD_HTTP_SERVICE_UNAVAILABLE, "the daemon is ending\n");
    else if (tn_journal_is_short(&server->journal))
        say(request, MHD_HTTP_SERVICE_UNAVAILABLE, "the disk is full\n");
    else
        say(request, MHD_HTTP_OK, "ok\n");
}

static void metrics(struct tn_http_request *request)
{
    struct tn_call call = { .server = request->server, .conn = request->conn };
    static char buf[32 * 1024];
    struct tn_text text;

    if (!tn_may_quietly(&call, TN_OBSERVE, NULL, 0)) {
        tn_metrics_refused(request->server, "DENIED");
        tn_http_refuse(request, MHD_HTTP_FORBIDDEN, "DENIED", "the user may not observe anything");
        return;
    }
    tn_text_init(&text, buf, sizeof buf);
    tn_metrics_write(request->server, &text);
    tn_http_answer(request, MHD_HTTP_OK, "text/plain; version=0.0.4; charset=utf-8", buf, text.len);
}
