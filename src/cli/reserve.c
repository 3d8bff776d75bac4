/* reserve.c - an allocator that has a little more than there is; reserve.h says why. */
#include "cli/reserve.h"

#include <malloc.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

/* The tables of a few loops. What is taken is not given back: the process is about to end. */
enum { RESERVE = 64 * 1024, ALIGN = 16 };

static _Alignas(ALIGN) char reserve[RESERVE];
static size_t used;
static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER;

static bool is_ours(const void *block)
{
    return (uintptr_t)block - (uintptr_t)reserve < RESERVE;
}

/* Zeroed, as it is taken once only. */
static void *take(size_t size)
{
    void *block = NULL;

    (void)pthread_mutex_lock(&guard);
    if (size <= RESERVE - used) {
        block = reserve + used;
        used += (size + ALIGN - 1) / ALIGN * ALIGN;
    }
    (void)pthread_mutex_unlock(&guard);
    return block;
}

static void *uv_malloc(size_t size)
{
    void *block = malloc(size);
    return block != NULL ? block : take(size);
}

static void *uv_calloc(size_t count, size_t size)
{
    void *block = calloc(count, size);
    return block != NULL || (size != 0 && count > RESERVE / size) ? block : take(count * size);
}

static void *uv_realloc(void *old, size_t size)
{
    void *block = is_ours(old) ? malloc(size) : realloc(old, size);

    if (block == NULL && size > 0)
        block = take(size);
    if (block == NULL || old == NULL || block == old)
        return block;
    if (is_ours(old)) {
        size_t most = (size_t)(reserve + RESERVE - (char *)old);
        memcpy(block, old, size < most ? size : most);
    } else if (is_ours(block)) {
        size_t most = malloc_usable_size(old);
        memcpy(block, old, size < most ? size : most);
        free(old);
    }
    return block;
}

static void uv_free(void *block)
{
    if (!is_ours(block))
        free(block);
}

void tn_reserve_for_libuv(void)
{
    int rc = uv_replace_allocator(uv_malloc, uv_realloc, uv_calloc, uv_free);
    (void)rc; /* Only NULL is refused. */
}
