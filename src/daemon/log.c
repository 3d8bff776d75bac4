/* log.c - lines to stderr, with the time and a level, which never make the daemon wait.
 *
 * stderr may be a pipe that nobody reads, a terminal that was stopped or a file on a disk that
 * hangs, and holders wait for their renewals meanwhile. So a thread of its own writes the lines.
 * The queue is bounded: lines for which there is no room are dropped and counted, and the count is
 * logged when there is room again. O_NONBLOCK is no way out: it would hold for every other process
 * that has the same stderr.
 *
 * Before tn_log_open, and when there is no thread, a line is written at once; before it a line has
 * no time either: it answers whoever has just started the program. */
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/time.h"
#include "daemon/server.h"

#define QUEUE_BYTES (64 * 1024)
#define TEXT_BYTES 500
#define LINE_BYTES 1200      /* As JSON, most of the text may have to be escaped. */
#define LAST_WAIT TN_MS(500) /* For the last lines, when the program ends. */

enum level { INFO, WARNING, ERROR };

static const char *const levels[] = { "info", "warning", "error" };

static struct {
    bool json, dated; /* Set while nobody else runs. */
    bool open;        /* There is a thread. Set and reset while nobody else runs. */
    uv_thread_t thread;
    uv_mutex_t lock; /* Guards what follows. */
    uv_cond_t filled, ended;
    bool over, has_ended;
    uint64_t lost; /* Lines that were dropped since the last one that was not. */
    size_t len;
    char queue[QUEUE_BYTES];
} log_state;

static void write_out(const char *bytes, size_t len)
{
    while (len > 0) {
        ssize_t n = write(STDERR_FILENO, bytes, len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN) { /* Another process has set O_NONBLOCK. */
            struct pollfd room = { .fd = STDERR_FILENO, .events = POLLOUT };
            (void)poll(&room, 1, -1);
            continue;
        }
        if (n <= 0)
            return; /* Nobody could be told. */
        bytes += n;
        len -= (size_t)n;
    }
}

static void write_lines(void *arg)
{
    static char taken[QUEUE_BYTES];

    (void)arg;
    uv_mutex_lock(&log_state.lock);
    while (!log_state.over || log_state.len > 0) {
        if (log_state.len == 0) {
            uv_cond_wait(&log_state.filled, &log_state.lock);
            continue;
        }
        size_t len = log_state.len;
        memcpy(taken, log_state.queue, len);
        log_state.len = 0;
        uv_mutex_unlock(&log_state.lock);
        write_out(taken, len);
        uv_mutex_lock(&log_state.lock);
    }
    log_state.has_ended = true;
    uv_cond_signal(&log_state.ended);
    uv_mutex_unlock(&log_state.lock);
}

/* Under the lock. */
static bool put(const char *line, size_t len)
{
    if (sizeof log_state.queue - log_state.len < len)
        return false;
    memcpy(log_state.queue + log_state.len, line, len);
    log_state.len += len;
    return true;
}

/* The line for @message, with its newline. Returns its length. */
static size_t make_line(char line[LINE_BYTES], enum level level, const char *message)
{
    char instant[32] = "";
    struct timespec now;
    struct tn_text text;
    struct tm tm;

    (void)clock_gettime(CLOCK_REALTIME, &now); /* For people: nothing is decided by it. */
    (void)gmtime_r(&now.tv_sec, &tm);
    (void)strftime(instant, sizeof instant, "%Y-%m-%dT%H:%M:%S", &tm);
    tn_text_init(&text, line, LINE_BYTES - 1);
    if (log_state.json) {
        tn_text_addf(&text, "{\"time\":\"%s.%03ldZ\",\"level\":\"%s\",\"message\":", instant,
                     now.tv_nsec / 1000000, levels[level]);
        tn_json_string(&text, message, strlen(message));
        tn_text_add(&text, "}");
    } else if (log_state.dated) {
        tn_text_addf(&text, "%s.%03ldZ %s tenured: %s", instant, now.tv_nsec / 1000000,
                     levels[level], message);
    } else {
        tn_text_addf(&text, "tenured: %s", message);
    }
    line[text.len] = '\n';
    return text.len + 1;
}

static void queue_line(const char *line, size_t len)
{
    char count[LINE_BYTES], message[80];

    if (log_state.lost > 0) {
        (void)snprintf(message, sizeof message, "%llu lines dropped: stderr was not read",
                       (unsigned long long)log_state.lost);
        size_t n = make_line(count, WARNING, message);
        if (sizeof log_state.queue - log_state.len >= n + len && put(count, n))
            log_state.lost = 0;
    }
    if (log_state.lost > 0 || !put(line, len))
        log_state.lost++;
    uv_cond_signal(&log_state.filled);
}

static void log_line(enum level level, const char *format, va_list args)
{
    char line[LINE_BYTES], message[TEXT_BYTES];

    (void)vsnprintf(message, sizeof message, format, args);
    for (char *at = message; *at != 0; at++)
        if ((unsigned char)*at < 0x20 || *at == 0x7F)
            *at = '?'; /* Nothing that a peer or a path says makes a line of its own. */
    size_t len = make_line(line, level, message);
    if (!log_state.open) {
        write_out(line, len);
        return;
    }
    uv_mutex_lock(&log_state.lock);
    queue_line(line, len);
    uv_mutex_unlock(&log_state.lock);
}

void tn_log(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    log_line(WARNING, format, args);
    va_end(args);
}

void tn_log_info(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    log_line(INFO, format, args);
    va_end(args);
}

void tn_log_error(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    log_line(ERROR, format, args);
    va_end(args);
}

bool tn_log_due(struct tn_server *server, enum tn_said what)
{
    struct tn_quiet *quiet = &server->quiet[what];

    if (server->now < quiet->until) {
        quiet->left_out++;
        return false;
    }
    if (quiet->left_out > 0)
        tn_log("%llu lines like the next one were left out", (unsigned long long)quiet->left_out);
    *quiet = (struct tn_quiet) { .until = server->now + TN_SEC(1) };
    return true;
}

void tn_log_open(bool json)
{
    log_state.json = json;
    log_state.dated = true;
    if (uv_mutex_init(&log_state.lock) != 0 || uv_cond_init(&log_state.filled) != 0 ||
        uv_cond_init(&log_state.ended) != 0)
        return;
    log_state.open = uv_thread_create(&log_state.thread, write_lines, NULL) == 0;
}

/* A thread that stderr keeps waiting is left behind. */
void tn_log_finish(void)
{
    if (!log_state.open)
        return;
    uv_mutex_lock(&log_state.lock);
    log_state.over = true;
    uv_cond_signal(&log_state.filled);
    while (!log_state.has_ended &&
           uv_cond_timedwait(&log_state.ended, &log_state.lock, LAST_WAIT) == 0)
        ;
    bool has_ended = log_state.has_ended;
    uv_mutex_unlock(&log_state.lock);
    if (has_ended)
        (void)uv_thread_join(&log_state.thread);
}
