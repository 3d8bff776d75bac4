/* bulk.h - many sends, or many receives, by one call of the system.
 *
 * The daemon has hundreds of replies to send after a flush, each to a socket of its own, and hears
 * from as many. With io_uring they are handed to the kernel together. Where it is missing or
 * forbidden, as it often is in containers, each is a call of its own; nothing else changes.
 *
 * Happy path: add, add, ..., go; then each one's result is what send() or recv() would have
 * returned. Nothing is kept from one go to the next, so threads may take turns.
 * Threads: one at a time. Never blocks. */
#ifndef TN_RUNTIME_BULK_H
#define TN_RUNTIME_BULK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define TN_BULK_MAX 256

struct tn_bulk_ring;

struct tn_bulk_item {
    void *arg; /* The caller's. */
    int fd;
    bool receives;
    void *bytes; /* Borrowed until the go is over. */
    size_t len;
    ssize_t result; /* What came of it: bytes, or an errno, negative. */
};

struct tn_bulk {
    struct tn_bulk_ring *ring; /* NULL: there is no io_uring here. */
    uint32_t count;
    struct tn_bulk_item list[TN_BULK_MAX];
};

void tn_bulk_open(struct tn_bulk *bulk);
void tn_bulk_close(struct tn_bulk *bulk);

/* There must be room: count < TN_BULK_MAX. */
void tn_bulk_send(struct tn_bulk *bulk, void *arg, int fd, const char *bytes, size_t len);
void tn_bulk_receive(struct tn_bulk *bulk, void *arg, int fd, char *bytes, size_t len);

/* Do all, in the order of their adding. The caller reads the list, and sets its count to 0. */
void tn_bulk_go(struct tn_bulk *bulk);

#endif
