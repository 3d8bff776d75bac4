/* witness.c - the witness's page; witness.h says what it is for.
 *
 * A daemon killed between two of the stores leaves a page that is behind in one number, which is as
 * good as an older page: both numbers only rise, and the sequence number is stored last. */
#include "daemon/witness.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define PAGE_BYTES 4096

struct tn_witness_page {
    char magic[8];
    uint32_t version;
    uint32_t unused;
    struct tn_secret store;
    _Atomic uint64_t token;
    _Atomic uint64_t seq;
};

static const char magic[8] = { 'T', 'N', 'W', 'I', 'T', 'N', 'S', '\n' };

static int refuse(int code, const char *path, const char *why, struct tn_text *reterr)
{
    tn_text_escape(reterr, path, strlen(path));
    tn_text_addf(reterr, ": %s", why);
    return code;
}

static int map_page(struct tn_witness *witness, int fd, const char *path, struct tn_text *reterr)
{
    struct stat st;
    void *mapped;

    if (fstat(fd, &st) != 0 || (st.st_size == 0 && ftruncate(fd, PAGE_BYTES) != 0))
        return refuse(TENURE_E_UNAVAILABLE, path, strerror(errno), reterr);
    if (!S_ISREG(st.st_mode) || (st.st_size != 0 && st.st_size != PAGE_BYTES))
        return refuse(TENURE_E_DAMAGED, path, "is not a witness of tenured", reterr);
    /* Blocks now: a full disk must not become a signal later. */
    int rc = st.st_size == 0 ? posix_fallocate(fd, 0, PAGE_BYTES) : 0;
    if (rc != 0)
        return refuse(TENURE_E_UNAVAILABLE, path, strerror(rc), reterr);
    mapped = mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (mapped == MAP_FAILED)
        return refuse(TENURE_E_UNAVAILABLE, path, strerror(errno), reterr);
    witness->page = mapped;
    if (witness->page->version == 0) {
        memcpy(witness->page->magic, magic, sizeof magic);
        witness->page->version = 1;
    }
    if (memcmp(witness->page->magic, magic, sizeof magic) != 0 || witness->page->version != 1) {
        tn_witness_close(witness);
        return refuse(TENURE_E_DAMAGED, path, "is not a witness of this tenured", reterr);
    }
    return 0;
}

int tn_witness_open(struct tn_witness *witness, const char *path, struct tn_text *reterr)
{
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);

    *witness = (struct tn_witness) { 0 };
    if (fd < 0)
        return refuse(errno == EACCES || errno == EPERM ? TENURE_E_DENIED : TENURE_E_UNAVAILABLE,
                      path, strerror(errno), reterr);
    int rc = map_page(witness, fd, path, reterr);
    (void)close(fd);
    return rc;
}

void tn_witness_close(struct tn_witness *witness)
{
    if (witness->page != NULL)
        (void)munmap(witness->page, PAGE_BYTES);
    witness->page = NULL;
}

void tn_witness_read(const struct tn_witness *witness, struct tn_witness_note *ret_note)
{
    *ret_note = (struct tn_witness_note) { 0 };
    if (witness->page == NULL)
        return;
    ret_note->store = witness->page->store;
    ret_note->seq = atomic_load(&witness->page->seq);
    ret_note->token = atomic_load(&witness->page->token);
}

void tn_witness_write(struct tn_witness *witness, const struct tn_witness_note *note)
{
    if (witness->page == NULL)
        return;
    if (!tn_secret_equal(&witness->page->store, &note->store))
        witness->page->store = note->store;
    atomic_store_explicit(&witness->page->token, note->token, memory_order_relaxed);
    atomic_store_explicit(&witness->page->seq, note->seq, memory_order_release);
}
