/* witness.c - the witness's page; witness.h says what it is for.
 *
 * The page is written, never mapped: a mapping of a file that somebody cuts short ends the program
 * by a signal. Both numbers only rise and are written with one call. */
#include "daemon/witness.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PAGE_BYTES 4096

static const char magic[8] = { 'T', 'N', 'W', 'I', 'T', 'N', 'S', '\n' };

static int refuse_witness(int code, const char *path, const char *why, struct tn_text *reterr)
{
    tn_text_escape(reterr, path, strlen(path));
    tn_text_addf(reterr, ": %s", why);
    return code;
}

/* Whoever else could write to it would decide whether this daemon starts. */
static int check_file(const struct stat *st, const char *path, struct tn_text *reterr)
{
    if (!S_ISREG(st->st_mode) || (st->st_size != 0 && st->st_size != PAGE_BYTES))
        return refuse_witness(TENURE_E_DAMAGED, path, "is not a witness of tenured", reterr);
    if (st->st_uid != geteuid() || (st->st_mode & 022) != 0)
        return refuse_witness(TENURE_E_DENIED, path,
                              "must belong to this user, and be writable by no other", reterr);
    if (st->st_nlink != 1)
        return refuse_witness(TENURE_E_DENIED, path, "has a second name (a hard link); remove one",
                              reterr);
    return 0;
}

static int read_page(struct tn_witness *witness, const char *path, struct tn_text *reterr)
{
    struct tn_witness_page *page = &witness->page;
    struct stat st;

    if (fstat(witness->fd, &st) != 0)
        return refuse_witness(TENURE_E_UNAVAILABLE, path, strerror(errno), reterr);
    int rc = check_file(&st, path, reterr);
    if (rc != 0)
        return rc;
    /* Blocks now: a disk that is full later must not keep the daemon from noting. */
    rc = st.st_size == 0 ? posix_fallocate(witness->fd, 0, PAGE_BYTES) : 0;
    if (rc != 0)
        return refuse_witness(TENURE_E_UNAVAILABLE, path, strerror(rc), reterr);
    if (pread(witness->fd, page, sizeof *page, 0) != (ssize_t)sizeof *page)
        return refuse_witness(TENURE_E_UNAVAILABLE, path, "cannot be read", reterr);
    if (page->version == 0) {
        memcpy(page->magic, magic, sizeof magic);
        page->version = 1;
    }
    if (memcmp(page->magic, magic, sizeof magic) != 0 || page->version != 1)
        return refuse_witness(TENURE_E_DAMAGED, path, "is not a witness of this tenured", reterr);
    return 0;
}

int tn_witness_open(struct tn_witness *witness, const char *path, struct tn_text *reterr)
{
    /* Not blocking: it may be a FIFO. */
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);

    *witness = (struct tn_witness) { .open = fd >= 0, .fd = fd };
    if (fd < 0)
        return refuse_witness(
            errno == EACCES || errno == EPERM ? TENURE_E_DENIED : TENURE_E_UNAVAILABLE, path,
            errno == ELOOP ? "is a symbolic link" : strerror(errno), reterr);
    int rc = read_page(witness, path, reterr);
    if (rc != 0)
        tn_witness_close(witness);
    return rc;
}

void tn_witness_close(struct tn_witness *witness)
{
    if (witness->open)
        (void)close(witness->fd);
    witness->open = false;
}

void tn_witness_read(const struct tn_witness *witness, struct tn_witness_note *ret_note)
{
    *ret_note = (struct tn_witness_note) { 0 };
    if (!witness->open)
        return;
    ret_note->store = witness->page.store;
    ret_note->seq = witness->page.seq;
    ret_note->token = witness->page.token;
}

/* The whole page, so that one that was cut short is whole again. */
int tn_witness_write(struct tn_witness *witness, const struct tn_witness_note *note)
{
    char bytes[PAGE_BYTES] = { 0 };

    if (!witness->open)
        return 0;
    witness->page.store = note->store;
    witness->page.token = note->token;
    witness->page.seq = note->seq;
    memcpy(bytes, &witness->page, sizeof witness->page);
    ssize_t n = pwrite(witness->fd, bytes, sizeof bytes, 0);
    if (n < 0)
        return errno;
    return n == (ssize_t)sizeof bytes ? 0 : ENOSPC;
}
