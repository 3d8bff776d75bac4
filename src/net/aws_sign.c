/* aws_sign.c - AWS Signature Version 4; aws_sign.h.
 *
 *   canonical request:  method \n path \n sorted query \n sorted headers \n names \n hash of body
 *   string to sign:     algorithm \n date \n scope \n hash of the canonical request
 *   key:                HMAC over date, region, service and "aws4_request", one after the other */
#include "net/aws_sign.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/sha256.h"

enum { ITEMS = 32, BLOCK = 64, SHORT = 512 };

struct digest {
    uint8_t bytes[TN_SHA256_SIZE];
};

/* A header or a part of the query: a name and a value, pointing into the caller's texts. */
struct item {
    const char *name, *value;
    size_t name_len, value_len;
};

struct items {
    struct item at[ITEMS];
    size_t count;
};

/* HMAC (RFC 2104) of a message that is shorter than SHORT; keys are at most a block long. */
static void hmac(const void *key, size_t key_len, const char *message, struct digest *ret_mac)
{
    uint8_t inner[BLOCK + SHORT], outer[BLOCK + TN_SHA256_SIZE];
    size_t len = strlen(message);

    memset(inner, 0, BLOCK);
    if (key_len > BLOCK)
        tn_sha256(key, key_len, inner);
    else
        memcpy(inner, key, key_len);
    for (size_t i = 0; i < BLOCK; i++) {
        outer[i] = inner[i] ^ 0x5c;
        inner[i] ^= 0x36;
    }
    memcpy(inner + BLOCK, message, len);
    tn_sha256(inner, BLOCK + len, outer + BLOCK);
    tn_sha256(outer, sizeof outer, ret_mac->bytes);
}

static void hex(const struct digest *digest, char ret_text[TN_AWS_DIGEST])
{
    static const char digits[] = "0123456789abcdef";

    for (size_t i = 0; i < TN_SHA256_SIZE; i++) {
        ret_text[2 * i] = digits[digest->bytes[i] >> 4];
        ret_text[2 * i + 1] = digits[digest->bytes[i] & 15];
    }
    ret_text[TN_AWS_DIGEST - 1] = '\0';
}

static void hash_hex(const void *data, size_t len, char ret_text[TN_AWS_DIGEST])
{
    struct digest digest;

    tn_sha256(data, len, digest.bytes);
    hex(&digest, ret_text);
}

static int add_item(struct items *items, const char *name, size_t name_len, const char *value,
                    size_t value_len)
{
    if (items->count == ITEMS)
        return TENURE_E_INVALID;
    items->at[items->count++] = (struct item) {
        .name = name, .name_len = name_len, .value = value, .value_len = value_len
    };
    return 0;
}

static int add_header(struct items *items, const char *name, const char *value)
{
    return add_item(items, name, strlen(name), value, strlen(value));
}

static int compare(const char *a, size_t a_len, const char *b, size_t b_len, bool fold)
{
    size_t len = a_len < b_len ? a_len : b_len;
    int order = fold ? strncasecmp(a, b, len) : memcmp(a, b, len);

    return order != 0 ? order : (a_len > b_len) - (a_len < b_len);
}

static int by_header(const void *left, const void *right)
{
    const struct item *a = left, *b = right;

    return compare(a->name, a->name_len, b->name, b->name_len, true);
}

static int by_part(const void *left, const void *right)
{
    const struct item *a = left, *b = right;
    int order = compare(a->name, a->name_len, b->name, b->name_len, false);

    return order != 0 ? order : compare(a->value, a->value_len, b->value, b->value_len, false);
}

/* --- The query -------------------------------------------------------------------------------- */

static int read_query(struct items *items, const char *query)
{
    while (query != NULL && *query != '\0') {
        size_t len = strcspn(query, "&");
        size_t name = strcspn(query, "=&");
        size_t value = name < len ? name + 1 : len;
        if (len > 0 && add_item(items, query, name, query + value, len - value) < 0)
            return TENURE_E_INVALID;
        query += len + (query[len] == '&');
    }
    return 0;
}

static int add_query(struct tn_text *text, const char *query)
{
    struct items parts = { .count = 0 };

    if (read_query(&parts, query) < 0)
        return TENURE_E_INVALID;
    qsort(parts.at, parts.count, sizeof parts.at[0], by_part);
    for (size_t i = 0; i < parts.count; i++) {
        tn_text_add(text, i > 0 ? "&" : "");
        tn_text_add_bytes(text, parts.at[i].name, parts.at[i].name_len);
        tn_text_add(text, "=");
        tn_text_add_bytes(text, parts.at[i].value, parts.at[i].value_len);
    }
    tn_text_add(text, "\n");
    return 0;
}

/* --- The headers ------------------------------------------------------------------------------ */

static int read_headers(struct items *items, const struct tn_aws_sign *how,
                        const struct tn_aws_request *request, const char *body_hash)
{
    int rc = add_header(items, "host", request->host);

    for (const char *const *each = request->headers; each != NULL && *each != NULL; each++) {
        const char *colon = strchr(*each, ':');
        if (colon == NULL ||
            add_item(items, *each, (size_t)(colon - *each), colon + 1, strlen(colon + 1)) < 0)
            return TENURE_E_INVALID;
    }
    if (rc == 0)
        rc = add_header(items, "x-amz-content-sha256", body_hash);
    if (rc == 0)
        rc = add_header(items, "x-amz-date", request->date);
    if (rc == 0 && how->session_token != NULL && how->session_token[0] != '\0')
        rc = add_header(items, "x-amz-security-token", how->session_token);
    qsort(items->at, items->count, sizeof items->at[0], by_header);
    return rc;
}

static void add_lower(struct tn_text *text, const char *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        char c = bytes[i] >= 'A' && bytes[i] <= 'Z' ? (char)(bytes[i] + 32) : bytes[i];
        tn_text_add_bytes(text, &c, 1);
    }
}

/* Without blanks at the ends, and with one for each run between. */
static void add_value(struct tn_text *text, const char *bytes, size_t len)
{
    bool begun = false;

    for (size_t i = 0; i < len; i++) {
        if (bytes[i] == ' ' || bytes[i] == '\t')
            continue;
        if (begun && (bytes[i - 1] == ' ' || bytes[i - 1] == '\t'))
            tn_text_add(text, " ");
        tn_text_add_bytes(text, &bytes[i], 1);
        begun = true;
    }
}

static void add_names(struct tn_text *text, const struct items *headers)
{
    for (size_t i = 0; i < headers->count; i++) {
        tn_text_add(text, i > 0 ? ";" : "");
        add_lower(text, headers->at[i].name, headers->at[i].name_len);
    }
}

/* --- Signing ---------------------------------------------------------------------------------- */

static size_t room_for(const struct tn_aws_request *request, const struct items *headers)
{
    size_t size = strlen(request->method) + strlen(request->path) + 256;

    if (request->query != NULL)
        size += strlen(request->query) + ITEMS;
    for (size_t i = 0; i < headers->count; i++)
        size += 2 * headers->at[i].name_len + headers->at[i].value_len + 4;
    return size;
}

static int hash_request(const struct tn_aws_request *request, const struct items *headers,
                        const char *body_hash, char ret_text[TN_AWS_DIGEST])
{
    size_t size = room_for(request, headers);
    char *buf = malloc(size);
    struct tn_text text;
    int rc;

    if (buf == NULL)
        return TENURE_E_NOMEM;
    tn_text_init(&text, buf, size);
    tn_text_addf(&text, "%s\n%s\n", request->method, request->path);
    rc = add_query(&text, request->query);
    for (size_t i = 0; i < headers->count; i++) {
        add_lower(&text, headers->at[i].name, headers->at[i].name_len);
        tn_text_add(&text, ":");
        add_value(&text, headers->at[i].value, headers->at[i].value_len);
        tn_text_add(&text, "\n");
    }
    tn_text_add(&text, "\n");
    add_names(&text, headers);
    tn_text_addf(&text, "\n%s", body_hash);
    if (rc == 0 && tn_text_truncated(&text))
        rc = TENURE_E_INVALID;
    hash_hex(buf, text.len, ret_text);
    free(buf);
    return rc;
}

static void sign_text(const struct tn_aws_sign *how, const char *date, const char *text,
                      char ret_signature[TN_AWS_DIGEST])
{
    char key[4 + BLOCK * 4], day[9];
    struct tn_text key_text;
    struct digest mac;

    tn_text_init(&key_text, key, sizeof key);
    tn_text_addf(&key_text, "AWS4%s", how->secret);
    (void)memcpy(day, date, 8);
    day[8] = '\0';
    hmac(key, key_text.len, day, &mac);
    hmac(mac.bytes, sizeof mac.bytes, how->region, &mac);
    hmac(mac.bytes, sizeof mac.bytes, how->service, &mac);
    hmac(mac.bytes, sizeof mac.bytes, "aws4_request", &mac);
    hmac(mac.bytes, sizeof mac.bytes, text, &mac);
    hex(&mac, ret_signature);
}

int tn_aws_sign(const struct tn_aws_sign *how, const struct tn_aws_request *request,
                struct tn_aws_headers *ret_headers)
{
    char hash[TN_AWS_DIGEST], signature[TN_AWS_DIGEST], scope[192], to_sign[SHORT];
    struct tn_text scope_text, text;
    struct items headers = { .count = 0 };
    int rc;

    hash_hex(request->body != NULL ? request->body : "", request->body_len, ret_headers->body_hash);
    rc = read_headers(&headers, how, request, ret_headers->body_hash);
    if (rc == 0)
        rc = hash_request(request, &headers, ret_headers->body_hash, hash);
    if (rc < 0)
        return rc;
    tn_text_init(&scope_text, scope, sizeof scope);
    tn_text_addf(&scope_text, "%.8s/%s/%s/aws4_request", request->date, how->region, how->service);
    tn_text_init(&text, to_sign, sizeof to_sign);
    tn_text_addf(&text, "AWS4-HMAC-SHA256\n%s\n%s\n%s", request->date, scope, hash);
    if (tn_text_truncated(&scope_text) || strlen(request->date) != TN_AWS_DATE - 1 ||
        strlen(how->secret) > 200)
        return TENURE_E_INVALID;
    sign_text(how, request->date, to_sign, signature);
    tn_text_addf(ret_headers->authorization,
                 "AWS4-HMAC-SHA256 Credential=%s/%s, SignedHeaders=", how->key_id, scope);
    add_names(ret_headers->authorization, &headers);
    tn_text_addf(ret_headers->authorization, ", Signature=%s", signature);
    return tn_text_truncated(ret_headers->authorization) ? TENURE_E_INVALID : 0;
}
