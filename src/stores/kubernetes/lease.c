/* lease.c - names and Leases, there and back; lease.h has the layout. */
#include "stores/kubernetes/lease.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/hex.h"
#include "base/number.h"
#include "base/sha256.h"
#include "stores/rows/json.h"

/* --- Reading ---------------------------------------------------------------------------------- */

static uint32_t index_of(const struct tn_json_value *values, const struct tn_json_value *value)
{
    return (uint32_t)(value - values);
}

/* What a client of Kubernetes sees of a holder. */
struct kube_spec {
    char holder[4 * TN_LABEL_MAX + 8];
    uint32_t duration, transitions;
    const char *acquired, *renewed;
};

static void hash_spec(const struct kube_spec *spec, char ret_digits[33])
{
    char line[sizeof spec->holder + 160];
    uint8_t digest[TN_SHA256_SIZE];
    struct tn_text text;

    tn_text_init(&text, line, sizeof line);
    tn_text_addf(&text, "%s\n%" PRIu32 "\n%s\n%s\n%" PRIu32, spec->holder, spec->duration,
                 spec->acquired, spec->renewed, spec->transitions);
    tn_sha256(line, text.len, digest);
    tn_hex(ret_digits, digest, 16);
    ret_digits[32] = '\0';
}

static void read_spec(const struct tn_json_value *values, const struct tn_json_value *in,
                      struct tn_kube_lease *lease, struct kube_spec *ret_spec)
{
    uint64_t number = 0;

    *ret_spec = (struct kube_spec) { .acquired = lease->acquired, .renewed = lease->renewed };
    if (!tn_json_text(values, in, "holderIdentity", ret_spec->holder, sizeof ret_spec->holder) &&
        in != NULL && tn_json_get(values, index_of(values, in), "holderIdentity") != NULL)
        (void)snprintf(ret_spec->holder, sizeof ret_spec->holder, "(a very long identity)");
    (void)tn_json_text(values, in, "acquireTime", lease->acquired, sizeof lease->acquired);
    (void)tn_json_text(values, in, "renewTime", lease->renewed, sizeof lease->renewed);
    if (tn_json_u64(values, in, "leaseDurationSeconds", &number) && number <= INT32_MAX)
        ret_spec->duration = (uint32_t)number;
    lease->has_transitions =
        tn_json_u64(values, in, "leaseTransitions", &number) && number <= INT32_MAX;
    lease->transitions = ret_spec->transitions = lease->has_transitions ? (uint32_t)number : 0;
}

/* What the annotations say of a spec that we wrote. False: they are damaged, or not all there. */
static bool read_ours(const struct tn_json_value *values, const struct tn_json_value *notes,
                      const struct kube_spec *spec, struct tn_kube_lease *lease)
{
    struct tn_row *row = &lease->row;
    char written[40], expected[33], revoked[8], label[2 * TN_LABEL_MAX + 1];
    uint64_t millis;

    hash_spec(spec, expected);
    if (!tn_json_text(values, notes, "tenure/spec", written, sizeof written) ||
        strcmp(written, expected) != 0 || !tn_json_u64(values, notes, "tenure/token", &row->token))
        return false;
    row->held = spec->holder[0] != '\0';
    if (!tn_json_secret(values, notes, "tenure/term", &row->term) && row->held)
        return false;
    if (!row->held)
        return true;
    if (!tn_json_secret(values, notes, "tenure/session", &row->session) ||
        !tn_json_u64(values, notes, "tenure/ttl", &millis) || millis > TN_SEC(86400) / TN_MS(1) ||
        millis == 0)
        return false;
    row->ttl = TN_MS((tenure_ns)millis);
    row->revoked = tn_json_text(values, notes, "tenure/revoked", revoked, sizeof revoked);
    if (tn_json_text(values, notes, "tenure/label", label, sizeof label)) {
        row->label_len = (uint32_t)strlen(label) / 2;
        if (label[2 * row->label_len] != '\0' || !tn_unhex(lease->label, label, row->label_len))
            return false;
    } else {
        (void)snprintf(lease->label, sizeof lease->label, "%.*s", TN_LABEL_MAX, spec->holder);
        row->label_len = (uint32_t)strlen(lease->label);
    }
    return true;
}

/* Another client's, or nobody's. It has no token; ours are below that of our next acquire, and rise
 * with its hand-overs, so that each term is told from the one before. */
static void read_foreign(const struct tn_json_value *values, const struct tn_json_value *notes,
                         const struct kube_spec *spec, struct tn_kube_lease *lease)
{
    struct tn_row *row = &lease->row;
    uint64_t last = 0, then = 0;
    bool known = tn_json_u64(values, notes, "tenure/token", &last) &&
                 tn_json_u64(values, notes, "tenure/transitions", &then);
    uint64_t terms = lease->transitions > then ? lease->transitions - then : 1;

    *row = (struct tn_row) { .held = spec->holder[0] != '\0' };
    lease->foreign = lease->has_transitions || row->held;
    if (!known)
        terms = lease->foreign ? (uint64_t)lease->transitions + 1 : 0;
    row->token = last < UINT64_MAX - terms ? last + terms : last;
    row->ttl = TN_SEC((tenure_ns)(spec->duration > 0 ? spec->duration : 1));
    (void)snprintf(lease->label, sizeof lease->label, "%.*s", TN_LABEL_MAX, spec->holder);
    row->label_len = (uint32_t)strlen(lease->label);
}

/* Coordinated leader election: the holder gives way to the preferred one; a vacancy is that one's
 * for as long as the spec says, which every observer counts for itself. */
static void apply_preference(const struct tn_json_value *values, const struct tn_json_value *spec,
                             const char *claimant, struct tn_kube_lease *lease)
{
    struct tn_row *row = &lease->row;
    char preferred[TN_LABEL_MAX + 1];

    if (!tn_json_text(values, spec, "preferredHolder", preferred, sizeof preferred) ||
        preferred[0] == '\0')
        return;
    if (row->held) {
        row->revoked = row->revoked || (!lease->foreign && strcmp(preferred, lease->label) != 0);
    } else if (claimant == NULL || strcmp(preferred, claimant) != 0) {
        *row = (struct tn_row) { .held = true, .token = row->token, .ttl = row->ttl };
        row->ttl = row->ttl > TN_SEC(1) ? row->ttl : TN_SEC(1);
        (void)snprintf(lease->label, sizeof lease->label, "%s", preferred);
        row->label_len = (uint32_t)strlen(preferred);
    }
}

bool tn_kube_lease_read(const struct tn_json_value *values, uint32_t at, const char *claimant,
                        struct tn_kube_lease *ret_lease)
{
    const struct tn_json_value *meta = tn_json_object(values, at, "metadata");
    const struct tn_json_value *spec = tn_json_object(values, at, "spec");
    const struct tn_json_value *notes =
        meta != NULL ? tn_json_object(values, index_of(values, meta), "annotations") : NULL;
    char object[TN_KUBE_NAME], full[TN_NAME_MAX + 1], uid[40], version[24];
    uint64_t floor = 0;
    struct kube_spec seen;

    *ret_lease = (struct tn_kube_lease) { 0 };
    if (!tn_json_text(values, meta, "name", object, sizeof object) ||
        !tn_json_text(values, meta, "uid", uid, sizeof uid) ||
        !tn_json_text(values, meta, "resourceVersion", version, sizeof version))
        return false;
    (void)snprintf(ret_lease->version, sizeof ret_lease->version, "%s/%s", uid, version);
    if (tn_u64_parse(version, &ret_lease->number) != 0)
        ret_lease->number = 0;
    bool long_name = tn_json_text(values, notes, "tenure/name", full, sizeof full);
    if (!tn_kube_name_back(object, long_name ? full : NULL, ret_lease->name))
        ret_lease->name[0] = '\0';
    read_spec(values, spec, ret_lease, &seen);
    if (!read_ours(values, notes, &seen, ret_lease))
        read_foreign(values, notes, &seen, ret_lease);
    apply_preference(values, spec, claimant, ret_lease);
    (void)tn_json_u64(values, notes, "tenure/floor", &floor);
    if (!tn_json_text(values, notes, "tenure/nonce", ret_lease->nonce, sizeof ret_lease->nonce))
        ret_lease->nonce[0] = '\0';
    ret_lease->row.floor = floor > ret_lease->number ? floor : ret_lease->number;
    ret_lease->row.label = ret_lease->label;
    return true;
}

/* --- Writing ---------------------------------------------------------------------------------- */

/* client-go sees a renewal only if its time differs in whole seconds, and counts the holder's
 * silence from the last one it saw: ours always does. */
static void renewal_time(const struct tn_kube_lease *old, const struct timespec *wall,
                         char ret_text[TN_RFC3339])
{
    int64_t before;

    if (!tn_rfc3339_parse(old->renewed, &before) || wall->tv_sec > before)
        tn_rfc3339_format(wall->tv_sec, (uint32_t)(wall->tv_nsec / 1000), ret_text);
    else
        tn_rfc3339_format(before + 1, 0, ret_text);
}

/* The label as Kubernetes can take it. False: it is another text. */
static bool make_identity(const struct tn_row *row, char *ret_text, size_t size)
{
    struct tn_text text;
    char line[4 * TN_LABEL_MAX + 8];

    tn_text_init(&text, line, sizeof line);
    tn_text_add_line(&text, row->label_len > 0 ? row->label : "", row->label_len);
    bool same =
        row->label_len > 0 && text.len == row->label_len && memcmp(line, row->label, text.len) == 0;
    (void)snprintf(ret_text, size, "%s", row->label_len > 0 ? line : "tenure");
    return same;
}

static void add_member(struct tn_text *text, const char *key, const char *value)
{
    tn_text_addf(text, ",\"%s\":", key);
    tn_json_string(text, value, strlen(value));
}

void tn_kube_nonce(const struct tn_row *row, char ret_nonce[TN_KUBE_NONCE])
{
    (void)snprintf(ret_nonce, TN_KUBE_NONCE, "%016" PRIx64, row->nonce);
}

static void add_notes(struct tn_text *text, const struct tn_kube_lease *old,
                      const struct tn_row *row, const struct kube_spec *spec, bool plain_label)
{
    char digits[TN_SECRET_DIGITS + 1] = "", object[TN_KUBE_NAME], nonce[TN_KUBE_NONCE];
    char label[2 * TN_LABEL_MAX + 1] = "";

    hash_spec(spec, digits);
    tn_text_addf(text, "\"tenure/spec\":\"%s\"", digits);
    tn_text_addf(text, ",\"tenure/token\":\"%" PRIu64 "\"", row->token);
    tn_text_addf(text, ",\"tenure/floor\":\"%" PRIu64 "\"", row->floor);
    tn_kube_nonce(row, nonce);
    add_member(text, "tenure/nonce", nonce);
    tn_text_addf(text, ",\"tenure/transitions\":\"%" PRIu32 "\"", spec->transitions);
    if (!tn_secret_is_zero(&row->term)) {
        tn_secret_text(&row->term, digits);
        add_member(text, "tenure/term", digits);
    }
    tn_kube_name(old->name, strlen(old->name), object);
    if (tn_kube_name_is_hash(object))
        add_member(text, "tenure/name", old->name);
    if (!row->held)
        return;
    tn_secret_text(&row->session, digits);
    add_member(text, "tenure/session", digits);
    tn_text_addf(text, ",\"tenure/ttl\":\"%" PRId64 "\"", (row->ttl + TN_MS(1) - 1) / TN_MS(1));
    if (row->revoked)
        tn_text_add(text, ",\"tenure/revoked\":\"true\"");
    if (!plain_label) {
        tn_hex(label, row->label, row->label_len);
        add_member(text, "tenure/label", label);
    }
}

void tn_kube_lease_write(struct tn_text *text, const struct tn_json_value *values, uint32_t at,
                         const struct tn_kube_lease *old, const struct tn_row *row,
                         const struct timespec *wall)
{
    static const char *const meta_ours[] = { "annotations", "managedFields", NULL };
    static const char *const notes_ours[] = { NULL };
    const struct tn_json_value *meta = tn_json_object(values, at, "metadata");
    const struct tn_json_value *notes =
        tn_json_object(values, index_of(values, meta), "annotations");
    bool same = !old->foreign && old->row.held && tn_secret_equal(&old->row.term, &row->term);
    bool taken = row->held && !same;
    char acquired[TN_RFC3339], renewed[TN_RFC3339];
    struct kube_spec spec = { .acquired = acquired, .renewed = renewed, .duration = 1 };
    /* A preferredHolder was waited for long enough, or it is this one. */
    const char *const spec_ours[] = { "holderIdentity",
                                      "acquireTime",
                                      "leaseDurationSeconds",
                                      "renewTime",
                                      "leaseTransitions",
                                      taken ? "preferredHolder" : NULL,
                                      NULL };
    bool plain_label = true;

    tn_rfc3339_format(wall->tv_sec, (uint32_t)(wall->tv_nsec / 1000), acquired);
    memcpy(renewed, acquired, sizeof renewed);
    spec.transitions = old->transitions;
    if (taken && old->has_transitions && spec.transitions < INT32_MAX)
        spec.transitions++;
    if (row->held) {
        plain_label = make_identity(row, spec.holder, sizeof spec.holder);
        spec.duration = (uint32_t)((row->ttl + TN_SEC(1) - 1) / TN_SEC(1));
    }
    if (row->held && same) {
        (void)snprintf(acquired, sizeof acquired, "%s", old->acquired);
        renewal_time(old, wall, renewed);
    }
    tn_text_add(text, "{\"apiVersion\":\"coordination.k8s.io/v1\",\"kind\":\"Lease\","
                      "\"metadata\":{");
    tn_json_write_others(text, values, meta, meta_ours, "tenure/");
    tn_text_add(text, "\"annotations\":{");
    tn_json_write_others(text, values, notes, notes_ours, "tenure/");
    add_notes(text, old, row, &spec, plain_label);
    tn_text_add(text, "}},\"spec\":{");
    tn_json_write_others(text, values, tn_json_object(values, at, "spec"), spec_ours, "tenure/");
    tn_text_addf(text, "\"leaseDurationSeconds\":%" PRIu32 ",\"leaseTransitions\":%" PRIu32,
                 spec.duration, spec.transitions);
    add_member(text, "holderIdentity", spec.holder);
    add_member(text, "acquireTime", acquired);
    add_member(text, "renewTime", renewed);
    tn_text_add(text, "}}");
}

void tn_kube_lease_create(struct tn_text *text, const char *name)
{
    char object[TN_KUBE_NAME];

    tn_kube_name(name, strlen(name), object);
    tn_text_addf(text,
                 "{\"apiVersion\":\"coordination.k8s.io/v1\",\"kind\":\"Lease\","
                 "\"metadata\":{\"name\":\"%s\"",
                 object);
    if (tn_kube_name_is_hash(object))
        tn_text_addf(text, ",\"annotations\":{\"tenure/name\":\"%s\"}", name);
    tn_text_add(text, "},\"spec\":{}}");
}
