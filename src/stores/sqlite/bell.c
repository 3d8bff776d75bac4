/* bell.c - how a waiter hears of its grant at once: a small file of slots beside the store.
 *
 * Watching the database itself would wake every process with every renewal. So the bell is written
 * only after a commit that changed a name's holder, or that granted or revoked a session's lease: a
 * process that wakes reads the new state. Every listening process wakes, but asks the store only if
 * one of its own slots has changed.
 *
 * A ring puts a fresh random number into the slot. It is not a counter, because nothing then has to
 * be read before it is written: of two processes that ring at once, each leaves a number that
 * nobody has seen before, and the kernel tells of each write after it was made.
 *
 * Nothing here is an error. A lost ring costs the time until the waiter asks by itself, a false one
 * a question. A bell that is missing, cut off, replaced or rung by a version without slots (it
 * writes a line feed at the start) is mended by the next ring, and until then everything counts as
 * moved. Nothing is mapped, so no truncation can kill. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"
#include "stores/sqlite/private.h"

static const char magic[8] = "tnbell2";

/* --- Ringing -------------------------------------------------------------------------------- */

unsigned tn_bell_session_slot(const struct tn_secret *session_hash)
{
    return (unsigned)(tn_load_le(session_hash->bytes, 8) % TN_BELL_HALF);
}

/* The key is part of the format: all processes must agree, and a crowded slot costs little. */
unsigned tn_bell_name_slot(const char *name)
{
    const struct tn_hash_key key = { 0, 0 };

    return TN_BELL_HALF + (unsigned)(tn_hash(key, name, strlen(name)) % TN_BELL_HALF);
}

void tn_bell_note(struct tn_sqlite *store, unsigned slot)
{
    store->rung[slot] = true;
    store->ring = true;
}

/* Never waits, should somebody have put a pipe there, and opens no file but a bell of ours: in a
 * directory for all, the name may be another user's file, or a hard link to the store itself. It
 * tries twice, because another process may make or remove the bell at the same time. */
static int open_bell(const struct tn_sqlite *store, char *path, size_t size)
{
    const int flags = O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK;
    struct stat st;
    int fd = -1;

    (void)snprintf(path, size, "%s-bell", store->path);
    for (int i = 0; fd < 0 && i < 2; i++) {
        bool there = lstat(path, &st) == 0;
        if (there && (!S_ISREG(st.st_mode) || st.st_nlink != 1 || st.st_uid != geteuid()))
            break;
        fd = open(path, there ? flags : flags | O_CREAT | O_EXCL, 0600);
    }
    return fd;
}

static void put(int fd, const void *bytes, size_t len, size_t at)
{
    ssize_t written = pwrite(fd, bytes, len, (off_t)at);
    (void)written;
}

static size_t offset_of(unsigned slot)
{
    return offsetof(struct tn_bell_page, slots) + slot * sizeof(uint64_t);
}

/* Give a bell without slots all its bytes, so that a full disk does not silence it later. */
static void mend(int fd)
{
    static const struct tn_bell_page blank;
    char found[sizeof magic] = "";
    struct stat st;

    if (fstat(fd, &st) == 0 && st.st_size < (off_t)sizeof blank)
        put(fd, (const char *)&blank + st.st_size, sizeof blank - (size_t)st.st_size,
            (size_t)st.st_size);
    if (pread(fd, found, sizeof found, 0) != (ssize_t)sizeof found ||
        memcmp(found, magic, sizeof magic) != 0)
        put(fd, magic, sizeof magic, 0);
}

void tn_sqlite_ring(struct tn_sqlite *store)
{
    uint64_t numbers[TN_BELL_SLOTS];
    char path[PATH_MAX + 16];

    if (!store->ring)
        return;
    store->ring = false;
    int fd = open_bell(store, path, sizeof path);
    if (fd < 0)
        return;
    for (unsigned first = 0; first < TN_BELL_SLOTS; first++) {
        unsigned count = 0;
        /* Neighbours in one write. */
        while (first + count < TN_BELL_SLOTS && store->rung[first + count])
            numbers[count++] = tn_prng_next(&store->prng);
        if (count > 0)
            put(fd, numbers, count * sizeof numbers[0], offset_of(first));
        first += count;
    }
    mend(fd);
    (void)close(fd);
}

/* --- Listening ------------------------------------------------------------------------------ */

void tn_bell_done(struct tn_bell *bell)
{
    if (bell->file >= 0)
        (void)close(bell->file);
    if (bell->watch >= 0)
        (void)close(bell->watch);
    bell->file = -1;
    bell->watch = -1;
}

/* The inotify descriptor stays the same when the file is another: a loop may be polling it. */
bool tn_bell_listen(const struct tn_sqlite *store, struct tn_bell *bell)
{
    const uint32_t events = IN_MODIFY | IN_ATTRIB | IN_DELETE_SELF | IN_MOVE_SELF | IN_DONT_FOLLOW;
    char path[PATH_MAX + 16];

    if (bell->file >= 0)
        (void)close(bell->file);
    bell->file = open_bell(store, path, sizeof path);
    if (bell->watch < 0)
        bell->watch = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    if (bell->file >= 0 && bell->watch >= 0) {
        mend(bell->file);
        if (inotify_add_watch(bell->watch, path, events) >= 0)
            return true;
    }
    if (bell->file >= 0)
        (void)close(bell->file);
    bell->file = -1;
    return false;
}

/* A removed file has no name, a moved one another. Its attributes change for other reasons too. */
static bool is_gone(const struct tn_bell *bell)
{
    struct stat st;

    return bell->file < 0 || fstat(bell->file, &st) != 0 || st.st_nlink == 0;
}

bool tn_bell_drain(struct tn_bell *bell)
{
    _Alignas(struct inotify_event) char events[4096];
    bool other = false;
    ssize_t len;

    while ((len = read(bell->watch, events, sizeof events)) > 0) {
        for (ssize_t at = 0; at < len;) {
            struct inotify_event event;
            memcpy(&event, events + at, sizeof event);
            if ((event.mask & (IN_IGNORED | IN_DELETE_SELF | IN_MOVE_SELF)) != 0)
                other = true;
            at += (ssize_t)(sizeof event + event.len);
        }
    }
    return other || is_gone(bell);
}

void tn_bell_read(struct tn_sqlite *store, const struct tn_bell *bell,
                  struct tn_bell_page *ret_page)
{
    ssize_t len = bell->file >= 0 ? pread(bell->file, ret_page, sizeof *ret_page, 0) : -1;

    if (len == (ssize_t)sizeof *ret_page && memcmp(ret_page->magic, magic, sizeof magic) == 0)
        return;
    for (unsigned i = 0; i < TN_BELL_SLOTS; i++)
        ret_page->slots[i] = tn_prng_next(&store->prng);
}
