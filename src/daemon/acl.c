/* acl.c - the rules of acl.h. A file has tens of lines, so they are looked through one by one. */
#define _GNU_SOURCE /* getline */
#include "daemon/acl.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/name.h"
#include "base/number.h"
#include "base/pattern.h"
#include "base/secret.h"
#include "base/sha256.h"
#include "core/note.h"
#include "runtime/random.h"

enum { SALT_BYTES = 16, WORDS = 5, LINES_MAX = 10000 };

struct user {
    char name[TN_USER_MAX + 1];
    uint8_t salt[SALT_BYTES];
    uint8_t hash[TN_SHA256_SIZE];
};

struct rule {
    char user[TN_USER_MAX + 1];
    enum tn_right right;
    char pattern[TN_PATTERN_SIZE];
};

struct limit {
    char user[TN_USER_MAX + 1]; /* Or a star. */
    enum tn_limit what;
    uint32_t most;
};

struct tn_acl {
    struct user *users;
    size_t user_count;
    struct rule *rules;
    size_t rule_count;
    struct limit *limits;
    size_t limit_count;
};

void tn_acl_free(struct tn_acl *acl)
{
    if (acl == NULL)
        return;
    free(acl->users);
    free(acl->rules);
    free(acl->limits);
    free(acl);
}

/* --- Reading ---------------------------------------------------------------------------------- */

static bool parse_hex(const char *text, size_t bytes, uint8_t *ret_bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        unsigned byte;
        if (strspn(text + 2 * i, "0123456789abcdef") < 2 || sscanf(text + 2 * i, "%2x", &byte) != 1)
            return false;
        ret_bytes[i] = (uint8_t)byte;
    }
    return true;
}

static bool is_user(const char *name)
{
    size_t len = strlen(name);
    return len >= 1 && len <= TN_USER_MAX && tn_name_check(name, len, NULL) == 0;
}

/* Returns what is wrong, or NULL. */
static const char *add_user(struct tn_acl *acl, char *const *words, size_t count)
{
    struct user user = { 0 };

    if (count != 3 || !is_user(words[1]))
        return "expected: user NAME sha256:SALT:HASH";
    if (strlen(words[2]) != 7 + 32 + 1 + 64 || strncmp(words[2], "sha256:", 7) != 0 ||
        words[2][39] != ':' || !parse_hex(words[2] + 7, SALT_BYTES, user.salt) ||
        !parse_hex(words[2] + 40, TN_SHA256_SIZE, user.hash))
        return "not a line that tenured --new-secret prints";
    for (size_t i = 0; i < acl->user_count; i++)
        if (strcmp(acl->users[i].name, words[1]) == 0)
            return "the user is there already";
    (void)snprintf(user.name, sizeof user.name, "%s", words[1]);
    struct user *larger = realloc(acl->users, (acl->user_count + 1) * sizeof *larger);
    if (larger == NULL)
        return "no memory";
    acl->users = larger;
    acl->users[acl->user_count++] = user;
    return NULL;
}

static const char *add_rule(struct tn_acl *acl, char *const *words, size_t count)
{
    static const char *const rights[] = { "observe", "acquire", "admin" };
    struct rule rule = { .right = TN_OBSERVE };
    size_t right = 0;

    if (count != 4 || !is_user(words[1]))
        return "expected: allow NAME observe|acquire|admin PATTERN";
    while (right < 3 && strcmp(words[2], rights[right]) != 0)
        right++;
    if (right == 3)
        return "a right is observe, acquire or admin";
    if (!tn_pattern_check(words[3], NULL))
        return "a pattern is a name, PREFIX/* or *";
    rule.right = (enum tn_right)right;
    (void)snprintf(rule.user, sizeof rule.user, "%s", words[1]);
    (void)snprintf(rule.pattern, sizeof rule.pattern, "%s", words[3]);
    struct rule *larger = realloc(acl->rules, (acl->rule_count + 1) * sizeof *larger);
    if (larger == NULL)
        return "no memory";
    acl->rules = larger;
    acl->rules[acl->rule_count++] = rule;
    return NULL;
}

static const char *add_limit(struct tn_acl *acl, char *const *words, size_t count)
{
    struct limit limit = { .what = TN_LIMIT_SESSIONS };
    uint64_t most = 0;

    if (count != 4 || (strcmp(words[1], "*") != 0 && !is_user(words[1])))
        return "expected: limit NAME|* sessions|leases|fences N";
    if (strcmp(words[2], "leases") == 0)
        limit.what = TN_LIMIT_LEASES;
    else if (strcmp(words[2], "fences") == 0)
        limit.what = TN_LIMIT_FENCES;
    else if (strcmp(words[2], "sessions") != 0)
        return "a limit is of sessions, leases or fences";
    if (tn_u64_parse(words[3], &most) < 0 || most < 1 || most > UINT32_MAX)
        return "a limit is a number from 1";
    limit.most = (uint32_t)most;
    (void)snprintf(limit.user, sizeof limit.user, "%s", words[1]);
    for (size_t i = 0; i < acl->limit_count; i++)
        if (acl->limits[i].what == limit.what && strcmp(acl->limits[i].user, limit.user) == 0)
            return "the limit is there already";
    struct limit *larger = realloc(acl->limits, (acl->limit_count + 1) * sizeof *larger);
    if (larger == NULL)
        return "no memory";
    acl->limits = larger;
    acl->limits[acl->limit_count++] = limit;
    return NULL;
}

static const char *add_line(struct tn_acl *acl, char *line)
{
    static const char blanks[] = " \t\r\n";
    char *words[WORDS] = { NULL };
    size_t count = 0;

    line[strcspn(line, "#")] = 0;
    for (char *at = line + strspn(line, blanks); *at != 0; at += strspn(at, blanks)) {
        size_t len = strcspn(at, blanks);
        if (count == WORDS)
            return "too many words";
        words[count++] = at;
        at += len;
        if (*at != 0)
            *at++ = 0;
    }
    if (count == 0)
        return NULL;
    if (strcmp(words[0], "user") == 0)
        return add_user(acl, words, count);
    if (strcmp(words[0], "allow") == 0)
        return add_rule(acl, words, count);
    if (strcmp(words[0], "limit") == 0)
        return add_limit(acl, words, count);
    return "a line begins with user, allow, limit or #";
}

static int check_file(int fd, const char *path, struct tn_text *reterr)
{
    struct stat st;

    if (fd < 0 || fstat(fd, &st) != 0) {
        tn_text_addf(reterr, "%s: %s", path, strerror(errno));
        return errno == EACCES ? TENURE_E_DENIED : TENURE_E_UNAVAILABLE;
    }
    if ((st.st_uid != geteuid() && st.st_uid != 0) || (st.st_mode & 022) != 0) {
        tn_text_addf(reterr, "%s: must belong to this user or root, and be writable by no other",
                     path);
        return TENURE_E_DENIED;
    }
    return 0;
}

static int read_lines(struct tn_acl *acl, FILE *file, const char *path, struct tn_text *reterr)
{
    char *line = NULL;
    size_t size = 0;
    unsigned number = 0;
    int rc = 0;

    while (rc == 0 && getline(&line, &size, file) >= 0) {
        const char *why = ++number > LINES_MAX ? "too many lines" : add_line(acl, line);
        if (why != NULL) {
            tn_text_addf(reterr, "%s:%u: %s", path, number, why);
            rc = TENURE_E_INVALID;
        }
    }
    if (rc == 0 && ferror(file)) { /* A directory, or a disk that fails: these are not all rules. */
        tn_text_addf(reterr, "%s: %s", path, strerror(errno));
        rc = TENURE_E_INVALID;
    }
    free(line);
    return rc;
}

int tn_acl_load(const char *path, struct tn_acl **ret_acl, struct tn_text *reterr)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    int rc = check_file(fd, path, reterr);
    FILE *file = rc == 0 ? fdopen(fd, "r") : NULL;
    struct tn_acl *acl = calloc(1, sizeof *acl);

    if (rc == 0 && (file == NULL || acl == NULL))
        rc = TENURE_E_NOMEM;
    if (rc == 0)
        rc = read_lines(acl, file, path, reterr);
    if (file != NULL)
        (void)fclose(file);
    else if (fd >= 0)
        (void)close(fd);
    if (rc != 0) {
        tn_acl_free(acl);
        return rc;
    }
    *ret_acl = acl;
    return 0;
}

/* --- Asking ----------------------------------------------------------------------------------- */

static void hash_secret(const uint8_t salt[SALT_BYTES], const char *secret, size_t len,
                        uint8_t ret_hash[TN_SHA256_SIZE])
{
    uint8_t both[SALT_BYTES + 128] = { 0 };

    len = len <= 128 ? len : 128;
    memcpy(both, salt, SALT_BYTES);
    memcpy(both + SALT_BYTES, secret, len);
    tn_sha256(both, SALT_BYTES + len, ret_hash);
}

static const struct user *find_user(const struct tn_acl *acl, const char *name)
{
    for (size_t i = 0; i < acl->user_count; i++)
        if (strcmp(acl->users[i].name, name) == 0)
            return &acl->users[i];
    return NULL;
}

bool tn_acl_knows(const struct tn_acl *acl, const char *user, const char *secret, size_t len)
{
    static const struct user nobody;
    const struct user *found = find_user(acl, user);
    uint8_t hash[TN_SHA256_SIZE];
    unsigned difference = len > 128;

    if (found == NULL)
        found = &nobody;
    hash_secret(found->salt, secret, len, hash);
    for (size_t i = 0; i < sizeof hash; i++)
        difference |= (unsigned)(hash[i] ^ found->hash[i]);
    return difference == 0 && found != &nobody;
}

/* Whether *@name lies below @prefix; then what follows it is left. */
static bool take_prefix(const char **name, size_t *len, const char *prefix)
{
    size_t prefix_len = strlen(prefix);

    if (*len <= prefix_len || memcmp(*name, prefix, prefix_len) != 0)
        return false;
    *name += prefix_len;
    *len -= prefix_len;
    return true;
}

void tn_acl_resolve(enum tn_right *right, const char **name, size_t *len)
{
    const char *rest = *name;
    size_t rest_len = *len;

    if (rest == NULL || !take_prefix(&rest, &rest_len, TN_NOTE_PREFIX))
        return;
    if (take_prefix(name, len, TN_NOTE_EVERY))
        return;
    /* To wait at a priority is to wait: "LEVEL/NAME" needs what NAME needs. */
    if (take_prefix(&rest, &rest_len, "priority/") && rest_len > 2 && rest[1] == '/') {
        *name = rest + 2;
        *len = rest_len - 2;
        return;
    }
    if (*right != TN_OBSERVE)
        *right = TN_ADMIN;
    if (take_prefix(name, len, TN_NOTE_ASK))
        return;
    bool of_node = take_prefix(&rest, &rest_len, "drain/");
    bool open = of_node && *right == TN_OBSERVE;
    *name = open ? NULL : "*";
    *len = open ? 0 : 1;
}

bool tn_acl_allows(const struct tn_acl *acl, const char *user, enum tn_right right,
                   const char *name, size_t len)
{
    tn_acl_resolve(&right, &name, &len);
    if (name == NULL)
        return tn_acl_allows_some(acl, user, right);
    for (size_t i = 0; i < acl->rule_count; i++) {
        const struct rule *rule = &acl->rules[i];
        if (rule->right >= right && strcmp(rule->user, user) == 0 &&
            tn_pattern_covers(rule->pattern, name, len))
            return true;
    }
    return false;
}

bool tn_acl_allows_some(const struct tn_acl *acl, const char *user, enum tn_right right)
{
    for (size_t i = 0; i < acl->rule_count; i++)
        if (acl->rules[i].right >= right && strcmp(acl->rules[i].user, user) == 0)
            return true;
    return false;
}

bool tn_acl_rule(const struct tn_acl *acl, const char *user, size_t number,
                 enum tn_right *ret_right, const char **ret_pattern)
{
    for (size_t i = 0; i < acl->rule_count; i++) {
        if (strcmp(acl->rules[i].user, user) != 0 || number-- > 0)
            continue;
        *ret_right = acl->rules[i].right;
        *ret_pattern = acl->rules[i].pattern;
        return true;
    }
    return false;
}

bool tn_acl_keeps(const struct tn_acl *before, const struct tn_acl *now, const char *user)
{
    const struct user *old = find_user(before, user);
    const struct user *new = find_user(now, user);

    return old != NULL && new != NULL &&memcmp(old->salt, new->salt, sizeof new->salt) == 0 &&
           memcmp(old->hash, new->hash, sizeof new->hash) == 0;
}

void tn_acl_limit(const struct tn_acl *acl, const char *user, enum tn_limit what,
                  uint32_t *ret_most)
{
    uint32_t own = 0;
    uint32_t all = 0;

    for (size_t i = 0; i < acl->limit_count; i++) {
        const struct limit *limit = &acl->limits[i];
        bool is_own = strcmp(limit->user, user) == 0;
        if (limit->what == what && (is_own || limit->user[0] == '*'))
            *(is_own ? &own : &all) = limit->most;
    }
    *ret_most = own != 0 ? own : all;
}

static void add_hex(struct tn_text *text, const uint8_t *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++)
        tn_text_addf(text, "%02x", bytes[i]);
}

int tn_acl_new_secret(const char *user, struct tn_text *ret_secret, struct tn_text *ret_line)
{
    struct tn_secret secret;
    struct tn_secret salt;
    uint8_t hash[TN_SHA256_SIZE];

    if (!is_user(user))
        return TENURE_E_INVALID;
    if (tn_random_secret(&secret) != 0 || tn_random_secret(&salt) != 0)
        return TENURE_E_UNSUPPORTED;
    add_hex(ret_secret, secret.bytes, sizeof secret.bytes);
    hash_secret(salt.bytes, tn_text_str(ret_secret), ret_secret->len, hash);
    tn_text_addf(ret_line, "user %s sha256:", user);
    add_hex(ret_line, salt.bytes, sizeof salt.bytes);
    tn_text_add(ret_line, ":");
    add_hex(ret_line, hash, sizeof hash);
    return 0;
}
