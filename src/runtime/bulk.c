/* bulk.c - io_uring by its system calls: all that is needed of it are sends and receives that do
 * not wait, which are over when the call returns. liburing would be a dependency for two system
 * calls.
 *
 * What can fail: the kernel takes only some of them (no memory). The others are taken back out of
 * the ring and done one by one. */
#define _GNU_SOURCE
#include "runtime/bulk.h"

#include <errno.h>
#include <linux/io_uring.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/assert.h"

/* For so few the kernel's bookkeeping costs more than the calls. */
#define FEW 4

#define FLAGS (MSG_DONTWAIT | MSG_NOSIGNAL)

/* What is shared with the kernel: it reads what we write at a tail, and writes at a tail that we
 * read. */
struct tn_bulk_ring {
    int fd;
    void *shared;
    size_t shared_size;
    uint32_t *todo_head, *todo_tail, *done_head, *done_tail;
    uint32_t todo_mask, done_mask;
    struct io_uring_sqe *todos;
    struct io_uring_cqe *dones;
};

static void close_ring(struct tn_bulk_ring *ring)
{
    if (ring == NULL)
        return;
    if (ring->todos != NULL)
        (void)munmap(ring->todos, TN_BULK_MAX * sizeof *ring->todos);
    if (ring->shared != NULL)
        (void)munmap(ring->shared, ring->shared_size);
    if (ring->fd >= 0)
        (void)close(ring->fd);
    free(ring);
}

static void *map(const struct tn_bulk_ring *ring, size_t size, off_t what)
{
    void *mapped = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, ring->fd, what);
    return mapped == MAP_FAILED ? NULL : mapped;
}

static uint32_t *at(const struct tn_bulk_ring *ring, uint32_t offset)
{
    return (uint32_t *)(void *)((char *)ring->shared + offset);
}

/* Kernels before 5.7 have two mappings for the two rings, or cannot send and receive so: they do
 * without. They are known by what they lack that came with it. */
static bool open_ring(struct tn_bulk_ring *ring)
{
    struct io_uring_params params = { 0 };

    ring->fd = (int)syscall(SYS_io_uring_setup, TN_BULK_MAX, &params);
    if (ring->fd < 0 || (params.features & IORING_FEAT_SINGLE_MMAP) == 0 ||
        (params.features & IORING_FEAT_FAST_POLL) == 0)
        return false;
    size_t todos = params.sq_off.array + params.sq_entries * sizeof(uint32_t);
    size_t dones = params.cq_off.cqes + params.cq_entries * sizeof(struct io_uring_cqe);
    ring->shared_size = todos > dones ? todos : dones;
    ring->shared = map(ring, ring->shared_size, IORING_OFF_SQ_RING);
    ring->todos = map(ring, TN_BULK_MAX * sizeof *ring->todos, IORING_OFF_SQES);
    if (ring->shared == NULL || ring->todos == NULL || params.sq_entries != TN_BULK_MAX)
        return false;
    ring->todo_head = at(ring, params.sq_off.head);
    ring->todo_tail = at(ring, params.sq_off.tail);
    ring->todo_mask = *at(ring, params.sq_off.ring_mask);
    ring->done_head = at(ring, params.cq_off.head);
    ring->done_tail = at(ring, params.cq_off.tail);
    ring->done_mask = *at(ring, params.cq_off.ring_mask);
    ring->dones = (struct io_uring_cqe *)(void *)at(ring, params.cq_off.cqes);
    for (uint32_t i = 0; i < TN_BULK_MAX; i++) /* Which entry is at which place: always the same. */
        at(ring, params.sq_off.array)[i] = i;
    return true;
}

void tn_bulk_open(struct tn_bulk *bulk)
{
    bulk->count = 0;
    bulk->ring = calloc(1, sizeof *bulk->ring);
    if (bulk->ring == NULL || open_ring(bulk->ring))
        return;
    close_ring(bulk->ring);
    bulk->ring = NULL;
}

void tn_bulk_close(struct tn_bulk *bulk)
{
    close_ring(bulk->ring);
    bulk->ring = NULL;
}

static void add(struct tn_bulk *bulk, const struct tn_bulk_item *item)
{
    TN_ASSERT(bulk->count < TN_BULK_MAX);
    bulk->list[bulk->count++] = *item;
}

void tn_bulk_send(struct tn_bulk *bulk, void *arg, int fd, const char *bytes, size_t len)
{
    add(bulk, &(struct tn_bulk_item) {
                  .arg = arg, .fd = fd, .bytes = (void *)(uintptr_t)bytes, .len = len });
}

void tn_bulk_receive(struct tn_bulk *bulk, void *arg, int fd, char *bytes, size_t len)
{
    add(bulk, &(struct tn_bulk_item) {
                  .arg = arg, .fd = fd, .receives = true, .bytes = bytes, .len = len });
}

static void put_all(const struct tn_bulk *bulk)
{
    const struct tn_bulk_ring *ring = bulk->ring;
    uint32_t tail = *ring->todo_tail;

    for (uint32_t i = 0; i < bulk->count; i++, tail++) {
        const struct tn_bulk_item *it = &bulk->list[i];
        ring->todos[tail & ring->todo_mask] =
            (struct io_uring_sqe) { .opcode = it->receives ? IORING_OP_RECV : IORING_OP_SEND,
                                    .fd = it->fd,
                                    .addr = (uint64_t)(uintptr_t)it->bytes,
                                    .len = (uint32_t)it->len,
                                    .msg_flags = FLAGS,
                                    .user_data = i };
    }
    __atomic_store_n(ring->todo_tail, tail, __ATOMIC_RELEASE);
}

/* Returns how many results there were. */
static uint32_t take_done(struct tn_bulk *bulk)
{
    const struct tn_bulk_ring *ring = bulk->ring;
    uint32_t head = *ring->done_head;
    uint32_t tail = __atomic_load_n(ring->done_tail, __ATOMIC_ACQUIRE);
    uint32_t count = tail - head;

    for (; head != tail; head++) {
        const struct io_uring_cqe *done = &ring->dones[head & ring->done_mask];
        TN_ASSERT(done->user_data < bulk->count);
        bulk->list[done->user_data].result = done->res;
    }
    __atomic_store_n(ring->done_head, head, __ATOMIC_RELEASE);
    return count;
}

static long enter(const struct tn_bulk_ring *ring, uint32_t todos, uint32_t wanted)
{
    return syscall(SYS_io_uring_enter, ring->fd, todos, wanted, IORING_ENTER_GETEVENTS, NULL, 0);
}

/* Returns how many were done so, the first ones of the list. */
static uint32_t do_together(struct tn_bulk *bulk)
{
    const struct tn_bulk_ring *ring = bulk->ring;
    uint32_t taken = 0;
    long n = 0;

    put_all(bulk);
    do {
        n = enter(ring, bulk->count - taken, bulk->count - taken);
        taken += n > 0 ? (uint32_t)n : 0;
    } while (taken < bulk->count && (n > 0 || (n < 0 && errno == EINTR)));
    /* What was not taken must not be taken with the next. */
    __atomic_store_n(ring->todo_tail, *ring->todo_head, __ATOMIC_RELEASE);
    for (uint32_t done = take_done(bulk); done < taken; done += take_done(bulk)) {
        n = enter(ring, 0, taken - done);
        TN_ASSERT(n >= 0 || errno == EINTR);
    }
    return taken;
}

static void do_one(struct tn_bulk_item *it)
{
    it->result = it->receives ? recv(it->fd, it->bytes, it->len, FLAGS)
                              : send(it->fd, it->bytes, it->len, FLAGS);
    if (it->result < 0)
        it->result = -errno;
}

void tn_bulk_go(struct tn_bulk *bulk)
{
    bool together = bulk->ring != NULL && bulk->count > FEW;

    for (uint32_t i = together ? do_together(bulk) : 0; i < bulk->count; i++)
        do_one(&bulk->list[i]);
}
