/* lines.c - a queue of lines and the thread that writes them; lines.h has the contract. */
#define _GNU_SOURCE
#include "runtime/lines.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/time.h"

struct line {
    struct line *next;
    const char *key; /* Behind the text; NULL: none. */
    uint64_t number; /* In order of arrival. */
    enum tn_line_kind kind;
    bool dropped;
    bool is_spare;
    size_t len;
    char text[];
};

/* Of the line that is kept for when there is no memory: an error is at least said. */
enum { SPARE_SIZE = 1024 };

struct tn_lines {
    pthread_mutex_t lock;
    pthread_cond_t arrived; /* A line, or the end. */
    pthread_t thread;
    struct line *first, **end;
    struct line *spare; /* NULL: in use. */
    size_t waiting;
    size_t limit;    /* So many that it is worth looking for lines to drop. */
    uint64_t number; /* Of the last line. */
    uint64_t written;
    bool writing; /* A line is out of the queue, and not written yet. */
    bool closing;
    bool left_behind; /* The thread frees it all. */
    int error;
    int fd;
    int bell;  /* An eventfd: a write has failed. */
    int moved; /* Another: a line has left the queue. */
};

/* Lock held. */
static void give_back(struct tn_lines *lines, struct line *line)
{
    if (line->is_spare)
        lines->spare = line;
    else
        free(line);
}

/* --- Dropping --------------------------------------------------------------------------------- */

static int by_key_then_number(const void *a, const void *b)
{
    const struct line *left = *(struct line *const *)a, *right = *(struct line *const *)b;

    if (left->key == NULL || right->key == NULL) {
        if ((left->key == NULL) != (right->key == NULL))
            return left->key == NULL ? -1 : 1;
    } else {
        int order = strcmp(left->key, right->key);
        if (order != 0)
            return order;
    }
    return left->number < right->number ? -1 : 1;
}

/* @count lines of one key, oldest first. */
static void drop_told_over(struct line **lines, size_t count)
{
    struct line *note = NULL, *begin = NULL;
    size_t begin_at = 0;

    for (size_t i = 0; i < count; i++) {
        if (lines[i]->kind == TN_LINE_NOTE) {
            if (note != NULL)
                note->dropped = true;
            note = lines[i];
        } else if (lines[i]->kind == TN_LINE_BEGIN) {
            begin = lines[i];
            begin_at = i;
        } else if (begin != NULL) {
            /* Notes in between are about this term. */
            for (size_t j = begin_at; j <= i; j++)
                lines[j]->dropped = true;
            note = begin = NULL;
        }
    }
}

static void drop_older_half(struct line **lines, size_t count)
{
    for (size_t i = 0; i < (count + 1) / 2; i++)
        lines[i]->dropped = true;
}

static bool same_key(const struct line *a, const struct line *b)
{
    return a->key == NULL || b->key == NULL ? a->key == b->key : strcmp(a->key, b->key) == 0;
}

static void remove_dropped(struct tn_lines *lines)
{
    struct line **at = &lines->first;

    while (*at != NULL) {
        struct line *line = *at;
        if (line->dropped) {
            *at = line->next;
            give_back(lines, line);
            lines->waiting--;
        } else {
            at = &line->next;
        }
    }
    lines->end = at;
}

/* What is left is at most three lines for each key. The next look is worth it only when as many
 * again have come. */
static void make_room(struct tn_lines *lines)
{
    struct line **sorted = malloc(lines->waiting * sizeof(struct line *));
    size_t count = 0;

    for (struct line *line = lines->first; sorted != NULL && line != NULL; line = line->next)
        sorted[count++] = line;
    if (sorted == NULL)
        return; /* It is tried again with the next line. */
    TN_ASSERT(count == lines->waiting);
    qsort(sorted, count, sizeof(struct line *), by_key_then_number);
    for (size_t from = 0, to; from < count; from = to) {
        for (to = from + 1; to < count && same_key(sorted[from], sorted[to]);)
            to++;
        if (sorted[from]->key == NULL)
            drop_older_half(sorted + from, to - from);
        else
            drop_told_over(sorted + from, to - from);
    }
    remove_dropped(lines);
    free(sorted);
    lines->limit = 2 * lines->waiting > TN_LINES_MOST ? 2 * lines->waiting : TN_LINES_MOST;
}

/* --- Writing ---------------------------------------------------------------------------------- */

/* Returns 0 or errno. */
static int write_all(int fd, const char *text, size_t len)
{
    while (len > 0) {
        struct pollfd room = { .fd = fd, .events = POLLOUT };
        ssize_t got = write(fd, text, len);
        if (got >= 0) {
            text += got;
            len -= (size_t)got;
        } else if (errno == EAGAIN) { /* Another process has set O_NONBLOCK. */
            (void)poll(&room, 1, -1);
        } else if (errno != EINTR) {
            return errno;
        }
    }
    return 0;
}

static void ring(int bell)
{
    uint64_t one = 1;
    ssize_t written = write(bell, &one, sizeof one);
    (void)written; /* It cannot be full. */
}

/* Lock held. */
static void write_first(struct tn_lines *lines)
{
    struct line *line = lines->first;

    lines->first = line->next;
    if (lines->first == NULL)
        lines->end = &lines->first;
    lines->waiting--;
    lines->writing = true;
    (void)pthread_mutex_unlock(&lines->lock);
    int error = write_all(lines->fd, line->text, line->len);
    (void)pthread_mutex_lock(&lines->lock);
    give_back(lines, line);
    lines->writing = false;
    lines->written++;
    if (error != 0 && lines->error == 0) {
        lines->error = error;
        ring(lines->bell);
    }
    ring(lines->moved);
}

static void lines_free(struct tn_lines *lines)
{
    while (lines->first != NULL) {
        struct line *line = lines->first;
        lines->first = line->next;
        give_back(lines, line);
    }
    free(lines->spare);
    if (lines->bell >= 0)
        (void)close(lines->bell);
    if (lines->moved >= 0)
        (void)close(lines->moved);
    (void)pthread_cond_destroy(&lines->arrived);
    (void)pthread_mutex_destroy(&lines->lock);
    free(lines);
}

static void *run(void *arg)
{
    struct tn_lines *lines = arg;

    (void)pthread_mutex_lock(&lines->lock);
    while (!lines->closing || lines->first != NULL) {
        if (lines->first == NULL)
            (void)pthread_cond_wait(&lines->arrived, &lines->lock);
        else
            write_first(lines);
    }
    bool left = lines->left_behind;
    (void)pthread_mutex_unlock(&lines->lock);
    if (left)
        lines_free(lines);
    return NULL;
}

/* --- The queue -------------------------------------------------------------------------------- */

int tn_lines_open(int fd, struct tn_lines **ret_lines)
{
    struct tn_lines *lines = calloc(1, sizeof *lines);
    sigset_t all, before;
    int rc;

    if (lines == NULL)
        return TENURE_E_NOMEM;
    lines->fd = fd;
    lines->end = &lines->first;
    lines->limit = TN_LINES_MOST;
    (void)pthread_mutex_init(&lines->lock, NULL);
    (void)pthread_cond_init(&lines->arrived, NULL);
    lines->spare = calloc(1, sizeof *lines->spare + SPARE_SIZE);
    lines->bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    lines->moved = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (lines->spare == NULL || lines->bell < 0 || lines->moved < 0) {
        int error = errno;
        rc = lines->spare == NULL ? TENURE_E_NOMEM : TENURE_E_UNAVAILABLE;
        lines_free(lines);
        errno = error;
        return rc;
    }
    lines->spare->is_spare = true;
    /* SIGPIPE among them: blocked, it is as good as ignored. */
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    rc = pthread_create(&lines->thread, NULL, run, lines);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc != 0) {
        lines_free(lines);
        errno = rc;
        return TENURE_E_UNAVAILABLE;
    }
    (void)pthread_setname_np(lines->thread, "tenure-output");
    *ret_lines = lines;
    return 0;
}

bool tn_lines_put(struct tn_lines *lines, enum tn_line_kind kind, const char *key, const char *text)
{
    size_t len = strlen(text), key_size = key != NULL ? strlen(key) + 1 : 0;
    struct line *line = malloc(sizeof *line + len + key_size);
    bool is_spare = line == NULL && len + key_size <= SPARE_SIZE;

    if (is_spare) {
        (void)pthread_mutex_lock(&lines->lock);
        line = lines->spare;
        lines->spare = NULL;
        (void)pthread_mutex_unlock(&lines->lock);
    }
    if (line == NULL)
        return false;
    *line = (struct line) { .kind = kind, .len = len, .is_spare = is_spare };
    memcpy(line->text, text, len);
    if (key != NULL) {
        memcpy(line->text + len, key, key_size);
        line->key = line->text + len;
    }
    (void)pthread_mutex_lock(&lines->lock);
    bool good = lines->error == 0;
    line->number = ++lines->number;
    *lines->end = line;
    lines->end = &line->next;
    if (++lines->waiting >= lines->limit)
        make_room(lines);
    (void)pthread_cond_signal(&lines->arrived);
    (void)pthread_mutex_unlock(&lines->lock);
    return good;
}

int tn_lines_fd(const struct tn_lines *lines)
{
    return lines->bell;
}

int tn_lines_error(struct tn_lines *lines)
{
    (void)pthread_mutex_lock(&lines->lock);
    int error = lines->error;
    (void)pthread_mutex_unlock(&lines->lock);
    return error;
}

/* Lock held. Whether something moved within @patience. */
static bool wait_for_move(struct tn_lines *lines, tenure_ns patience)
{
    struct pollfd moved = { .fd = lines->moved, .events = POLLIN };
    uint64_t count, before = lines->written;

    (void)pthread_mutex_unlock(&lines->lock);
    int ready = poll(&moved, 1, (int)(patience / TN_MS(1)));
    ssize_t got = ready > 0 ? read(lines->moved, &count, sizeof count) : 0;
    (void)got; /* Of lines that left before, perhaps: then it is asked again. */
    (void)pthread_mutex_lock(&lines->lock);
    return ready != 0 || lines->written != before;
}

bool tn_lines_flush(struct tn_lines *lines, tenure_ns patience)
{
    bool moves = true;

    (void)pthread_mutex_lock(&lines->lock);
    while (moves && lines->error == 0 && (lines->first != NULL || lines->writing))
        moves = wait_for_move(lines, patience);
    bool done = lines->error == 0 && lines->first == NULL && !lines->writing;
    (void)pthread_mutex_unlock(&lines->lock);
    return done;
}

bool tn_lines_close(struct tn_lines *lines, tenure_ns patience)
{
    if (lines == NULL)
        return true;
    bool done = tn_lines_flush(lines, patience);
    (void)pthread_mutex_lock(&lines->lock);
    for (struct line *line = lines->first; lines->error != 0 && line != NULL; line = line->next)
        line->dropped = true;
    remove_dropped(lines);
    bool stuck = lines->writing || lines->first != NULL;
    pthread_t thread = lines->thread;
    lines->closing = true;
    lines->left_behind = stuck;
    (void)pthread_cond_signal(&lines->arrived);
    (void)pthread_mutex_unlock(&lines->lock);
    if (stuck) {
        (void)pthread_detach(thread);
        return done;
    }
    (void)pthread_join(thread, NULL);
    lines_free(lines);
    return done;
}
