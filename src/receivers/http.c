/* http.c - `http://HOST:PORT` as a fence: a gate, `tenure gate`, by its own endpoints.
 *
 *     PUT /.tenure/fence/RESOURCE  with Fence-Token: raise; 200, 412 stale
 *     GET /.tenure/fence/RESOURCE  where it stands
 *     GET /.tenure/fences          all of them, a JSON object per line
 * Each answer about one fence has its highest token in the field Fence-Highest. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/name.h"
#include "base/number.h"
#include "base/token.h"
#include "receivers/http_client.h"
#include "receivers/target.h"

struct gate {
    struct tn_http_client client;
    tenure_ns timeout;
};

static int open_gate(const char *url, const struct tn_fence_options *options, void **ret_self,
                     struct tn_text *reterr)
{
    struct gate *gate = malloc(sizeof *gate);
    if (gate == NULL) {
        tn_text_add(reterr, "out of memory");
        return TENURE_E_NOMEM;
    }
    int rc = tn_http_client_init(&gate->client, url, reterr);
    if (rc < 0) {
        free(gate);
        return rc;
    }
    gate->timeout = options->timeout;
    *ret_self = gate;
    return 0;
}

static void close_gate(void *self)
{
    struct gate *gate = self;

    tn_http_client_done(&gate->client);
    free(gate);
}

/* What a status means that is neither 200 nor 412. */
static int refuse_answer(const struct tn_http_answer *answer, struct tn_text *reterr)
{
    unsigned status = answer->head->status;
    int code = TENURE_E_UNAVAILABLE;

    if (status == 401 || status == 403)
        code = TENURE_E_DENIED;
    else if (status == 400 || status == 428)
        code = TENURE_E_INVALID;
    else if (status < 500)
        code = TENURE_E_DAMAGED;
    tn_text_addf(reterr, "http: the gate answers %u%s", status,
                 code == TENURE_E_DAMAGED ? "; is it one?" : "");
    return code;
}

/* @method PATH; @token 0: none. */
static int ask_gate(struct gate *gate, const char *method, const char *path, uint64_t token,
                    struct tn_http_answer *ret_answer, struct tn_text *reterr)
{
    char buf[1024];
    char field[64] = "";
    struct tn_text head;

    if (token > 0)
        (void)snprintf(field, sizeof field, "Fence-Token: %llu\r\nContent-Length: 0\r\n",
                       (unsigned long long)token);
    tn_text_init(&head, buf, sizeof buf);
    tn_text_addf(&head, "%s %s HTTP/1.1\r\nHost: %s\r\n%s\r\n", method, path,
                 gate->client.place.host, field);
    return tn_http_ask(&gate->client, buf, head.len, NULL, 0, false, gate->timeout, ret_answer,
                       reterr);
}

static int ask_fence(struct gate *gate, const char *method, const char *resource, uint64_t token,
                     uint64_t *ret_highest, struct tn_text *reterr)
{
    struct tn_http_answer answer;
    char path[TN_NAME_MAX + 32];
    char digits[TN_TOKEN_TEXT];
    unsigned count;

    (void)snprintf(path, sizeof path, "/.tenure/fence/%s", resource);
    int rc = ask_gate(gate, method, path, token, &answer, reterr);
    if (rc < 0)
        return rc;
    if (answer.head->status != 200 && answer.head->status != 412)
        return refuse_answer(&answer, reterr);
    const struct tn_http_slice *highest = tn_http_field(answer.head, "fence-highest", &count);
    if (count != 1 || highest->len >= sizeof digits)
        return refuse_answer(&answer, reterr);
    memcpy(digits, highest->bytes, highest->len);
    digits[highest->len] = '\0';
    if (tn_u64_parse(digits, ret_highest) < 0) {
        tn_text_add(reterr, "http: Fence-Highest is not a token");
        return TENURE_E_DAMAGED;
    }
    return answer.head->status == 412 ? TENURE_E_STALE : 0;
}

static int raise_fence(void *self, const char *resource, uint64_t token, uint64_t *ret_highest,
                       struct tn_text *reterr)
{
    return ask_fence(self, "PUT", resource, token, ret_highest, reterr);
}

static int show(void *self, const char *resource, uint64_t *ret_highest, struct tn_text *reterr)
{
    return ask_fence(self, "GET", resource, 0, ret_highest, reterr);
}

/* {"resource":"a/b","token":7}, as the gate writes it: a name needs no escapes. */
static bool read_line(const char *line, size_t len, char *ret_resource, uint64_t *ret_token)
{
    static const char first[] = "{\"resource\":\"";
    static const char second[] = "\",\"token\":";
    char digits[TN_TOKEN_TEXT];

    if (len < sizeof first || memcmp(line, first, sizeof first - 1) != 0 || line[len - 1] != '}')
        return false;
    const char *name = line + sizeof first - 1;
    const char *quote = memchr(name, '"', len - (sizeof first - 1));
    size_t name_len = quote != NULL ? (size_t)(quote - name) : 0;
    if (tn_name_check(name, name_len, NULL) < 0 || (size_t)(line + len - quote) < sizeof second ||
        memcmp(quote, second, sizeof second - 1) != 0)
        return false;
    const char *number = quote + sizeof second - 1;
    size_t number_len = (size_t)(line + len - 1 - number);
    if (number_len >= sizeof digits)
        return false;
    memcpy(digits, number, number_len);
    digits[number_len] = '\0';
    memcpy(ret_resource, name, name_len);
    ret_resource[name_len] = '\0';
    return tn_u64_parse(digits, ret_token) == 0;
}

static int list(void *self, tn_fence_each each, void *arg, struct tn_text *reterr)
{
    struct tn_http_answer answer;
    char resource[TN_NAME_MAX + 1];
    uint64_t token;

    int rc = ask_gate(self, "GET", "/.tenure/fences", 0, &answer, reterr);
    if (rc == 0 && answer.head->status != 200)
        rc = refuse_answer(&answer, reterr);
    if (rc < 0)
        return rc;
    for (size_t at = 0; at < answer.len;) {
        const char *line = answer.body + at;
        const char *newline = memchr(line, '\n', answer.len - at);

        if (newline == NULL || !read_line(line, (size_t)(newline - line), resource, &token)) {
            tn_text_add(reterr, "http: the list of fences is malformed");
            return TENURE_E_DAMAGED;
        }
        each(arg, resource, token);
        at += (size_t)(newline - line) + 1;
    }
    return 0;
}

#define HTTP_OPS(scheme_, form_)                                                      \
    {                                                                                 \
        .scheme = (scheme_), .form = (form_), .open = open_gate, .close = close_gate, \
        .raise = raise_fence, .show = show, .list = list,                             \
    }

const struct tn_fence_ops tn_fence_http_ops = HTTP_OPS("http:", "http://HOST");
const struct tn_fence_ops tn_fence_https_ops = HTTP_OPS("https:", "https://HOST");
