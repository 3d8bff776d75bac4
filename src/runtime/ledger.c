/* ledger.c - the file of ledger.h: a head, and places of one size behind it. */
#define _GNU_SOURCE /* O_CLOEXEC, O_NOFOLLOW */
#include "runtime/ledger.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/random.h"

#define MAGIC "tenure ledger 1"
/* Places are numbered from 1; the head is as long as one. */
#define PLACE_BYTES (off_t)sizeof(struct tn_ledger_entry)
/* A file with more was not written by this program. */
#define PLACES_MAX (16u << 20)

struct head {
    char magic[16];
    uint8_t where[TN_SHA256_SIZE]; /* Of the boot and the store. */
    struct tn_secret secret;
    uint64_t life, starts;
};

_Static_assert(sizeof(struct head) <= sizeof(struct tn_ledger_entry), "the head has one place");

/* The next process must not go on from a file that is behind. */
static void empty(struct tn_ledger *ledger)
{
    if (ledger->fd < 0)
        return;
    int rc = ftruncate(ledger->fd, 0);
    (void)rc; /* It needs no room on the disk. */
    (void)close(ledger->fd);
    ledger->fd = -1;
}

static void put(struct tn_ledger *ledger, uint32_t place, const void *bytes, size_t len)
{
    ssize_t n = -1;

    if (ledger->fd < 0)
        return;
    do
        n = pwrite(ledger->fd, bytes, len, place * PLACE_BYTES);
    while (n < 0 && errno == EINTR);
    if (n != (ssize_t)len)
        empty(ledger);
}

/* --- Opening ---------------------------------------------------------------------------------- */

static void hash_where(const char *domain, const char *url, uint8_t ret_hash[TN_SHA256_SIZE])
{
    uint8_t both[2 * TN_SHA256_SIZE];

    tn_sha256(domain, strlen(domain), both);
    tn_sha256(url, strlen(url), both + TN_SHA256_SIZE);
    tn_sha256(both, sizeof both, ret_hash);
}

static bool is_good(const struct tn_ledger_entry *entry)
{
    return entry->number != 0 && entry->gen != 0 && memchr(entry->name, 0, sizeof entry->name) &&
           entry->name[0] != 0;
}

/* What there was goes to the places from 1 on, in order, so that each has a place of its own. */
static int read_past(struct tn_ledger *ledger, uint32_t count)
{
    struct tn_ledger_entry entry;

    ledger->past = calloc(count > 0 ? count : 1, sizeof *ledger->past);
    if (ledger->past == NULL)
        return TENURE_E_NOMEM;
    for (uint32_t place = 1; place <= count; place++)
        if (pread(ledger->fd, &entry, sizeof entry, place * PLACE_BYTES) == sizeof entry &&
            is_good(&entry))
            ledger->past[ledger->past_count++] = entry;
    return 0;
}

static void write_head(struct tn_ledger *ledger)
{
    struct head head = {
        .magic = MAGIC, .secret = ledger->secret, .life = ledger->life, .starts = ledger->starts
    };

    memcpy(head.where, ledger->where, sizeof head.where);
    put(ledger, 0, &head, sizeof head);
}

static void write_past(struct tn_ledger *ledger)
{
    for (uint32_t i = 0; i < ledger->past_count; i++)
        put(ledger, i + 1, &ledger->past[i], sizeof ledger->past[i]);
    ledger->place_count = ledger->past_count;
    if (ledger->fd >= 0 && ftruncate(ledger->fd, (ledger->place_count + 1) * PLACE_BYTES) != 0)
        empty(ledger);
}

static int read_all(struct tn_ledger *ledger)
{
    struct head head;
    struct stat st;
    bool whole = pread(ledger->fd, &head, sizeof head, 0) == sizeof head;

    if (fstat(ledger->fd, &st) != 0)
        return TENURE_E_UNAVAILABLE;
    if (st.st_uid != geteuid() || (st.st_mode & 077) != 0)
        return TENURE_E_DENIED;
    uint64_t places = st.st_size > PLACE_BYTES ? (uint64_t)(st.st_size / PLACE_BYTES) - 1 : 0;
    ledger->resumed = whole && memcmp(head.magic, MAGIC, sizeof head.magic) == 0 &&
                      memcmp(head.where, ledger->where, sizeof head.where) == 0 && head.life > 0 &&
                      places <= PLACES_MAX;
    if (!ledger->resumed)
        return tn_random_secret(&ledger->secret);
    ledger->secret = head.secret;
    ledger->life = head.life;
    ledger->starts = head.starts + 1;
    return read_past(ledger, (uint32_t)places);
}

int tn_ledger_open(struct tn_ledger *ledger, const char *path, const char *domain, const char *url,
                   struct tn_text *reterr)
{
    *ledger = (struct tn_ledger) { .fd = -1 };
    hash_where(domain, url, ledger->where);
    ledger->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    int rc = ledger->fd >= 0                     ? read_all(ledger)
             : errno == EACCES || errno == EPERM ? TENURE_E_DENIED
                                                 : TENURE_E_UNAVAILABLE;
    if (rc == 0) {
        write_head(ledger);
        write_past(ledger);
        return 0;
    }
    tn_text_escape(reterr, path, strlen(path));
    tn_text_addf(reterr, ": %s",
                 ledger->fd < 0          ? strerror(errno)
                 : rc == TENURE_E_DENIED ? "is not a file of this user with mode 0600"
                                         : tenure_strerror(rc));
    tn_ledger_close(ledger);
    return rc;
}

/* --- As it goes ------------------------------------------------------------------------------- */

void tn_ledger_life(struct tn_ledger *ledger, uint64_t life)
{
    if (life == ledger->life)
        return;
    ledger->life = life;
    write_head(ledger);
}

void tn_ledger_note(struct tn_ledger *ledger, uint32_t *place, const struct tn_ledger_entry *entry)
{
    if (ledger->fd < 0)
        return;
    if (*place == 0 && ledger->unused_count > 0)
        *place = ledger->unused[--ledger->unused_count];
    else if (*place == 0)
        *place = ++ledger->place_count;
    put(ledger, *place, entry, sizeof *entry);
}

void tn_ledger_drop(struct tn_ledger *ledger, uint32_t *place)
{
    const struct tn_ledger_entry none = { 0 };

    if (*place == 0)
        return;
    put(ledger, *place, &none, sizeof none);
    if (ledger->unused_count == ledger->unused_room) {
        uint32_t room = ledger->unused_room > 0 ? 2 * ledger->unused_room : 64;
        uint32_t *more = realloc(ledger->unused, room * sizeof *more);
        if (more != NULL) { /* Otherwise the place stays empty. */
            ledger->unused = more;
            ledger->unused_room = room;
        }
    }
    if (ledger->unused_count < ledger->unused_room)
        ledger->unused[ledger->unused_count++] = *place;
    *place = 0;
}

void tn_ledger_forget(struct tn_ledger *ledger)
{
    empty(ledger);
}

void tn_ledger_close(struct tn_ledger *ledger)
{
    if (ledger->fd >= 0)
        (void)close(ledger->fd);
    free(ledger->past);
    free(ledger->unused);
    *ledger = (struct tn_ledger) { .fd = -1 };
}
