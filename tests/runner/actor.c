/* actor.c - a command for the runner's tests: writes the time into a file for as long as it lives.
 *
 * usage: actor FILE [WORD...]
 *
 * Every 2 ms each process of the actor appends CLOCK_BOOTTIME as eight bytes to FILE, so the last
 * one tells until when the tree acted. The words are obeyed in order, then it beats:
 *   record     from here on write the records of acts.h instead, and live up to two minutes
 *   ignore     ignore SIGTERM, as will all that is forked from here
 *   term=N     exit with N on SIGTERM
 *   usr1=N     exit with N on SIGUSR1
 *   daemon     double-fork and setsid: one more process beats, as nobody's child
 *   tree=N     N children that beat
 *   chain=N    a child with a child with a child, N deep, all beat
 *   spawn      fork without end: a child every millisecond or so, each beats for 20 ms
 *   comet      fork and exit without end: no process lives longer than a millisecond or two
 *   comets=N   N such chains beside this process, which never rest between two forks
 *   stop       SIGSTOP itself
 *   exit=N     exit with N at once
 *   last=MS    exit with 0 after MS
 * Whatever happens, each process ends by itself after ten seconds. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/runner/acts.h"

static int file;
static int64_t born;
static int64_t life = 10000000000;
static struct act act; /* With a candidate in it when records are written. */

static int64_t boottime(void)
{
    struct timespec ts;

    (void)clock_gettime(CLOCK_BOOTTIME, &ts);
    return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

static void record(enum act_kind kind)
{
    act.kind = (uint32_t)kind;
    act.pid = getpid();
    act.at = boottime();
    if (write(file, &act, sizeof act) != (ssize_t)sizeof act || act.at - born > life)
        _exit(99);
}

static void beat(void)
{
    int64_t now = boottime();

    if (act.candidate != 0)
        record(ACT_ACTING);
    else if (write(file, &now, sizeof now) != (ssize_t)sizeof now || now - born > life)
        _exit(99);
}

static uint64_t number_in(const char *variable)
{
    const char *text = getenv(variable);

    return text != NULL ? strtoull(text, NULL, 10) : 0;
}

static void begin_records(void)
{
    act.candidate = (uint32_t)number_in(ACTS_CANDIDATE);
    act.token = number_in("TENURE_TOKEN");
    life = 120000000000;
    if (act.candidate == 0)
        _exit(98);
    record(ACT_STARTED);
}

static void pause_us(long us)
{
    struct timespec ts = { .tv_sec = 0, .tv_nsec = us * 1000 };

    (void)nanosleep(&ts, NULL);
}

static _Noreturn void beat_for(int64_t ms)
{
    int64_t end = ms > 0 ? boottime() + ms * 1000000 : INT64_MAX;

    while (boottime() < end) {
        beat();
        pause_us(2000);
    }
    _exit(0);
}

static int exit_with;

static void on_signal(int signo)
{
    (void)signo;
    if (act.candidate != 0)
        record(ACT_ENDED);
    _exit(exit_with);
}

static void daemonize(void)
{
    pid_t pid = fork();

    if (pid == 0) {
        (void)setsid();
        if (fork() == 0)
            beat_for(0);
        _exit(0);
    }
    (void)waitpid(pid, NULL, 0);
}

static void grow(long count, bool deep)
{
    for (long i = 0; i < count; i++) {
        pid_t pid = fork();

        if ((pid == 0) != deep) {
            if (!deep || pid > 0)
                beat_for(0);
            return;
        }
    }
}

static _Noreturn void spawn(void)
{
    for (;;) {
        if (fork() == 0)
            beat_for(20);
        beat();
        pause_us(1000);
        while (waitpid(-1, NULL, WNOHANG) > 0)
            ;
    }
}

static _Noreturn void comet(long rest_us)
{
    for (;;) {
        beat();
        if (fork() > 0)
            _exit(0);
        if (rest_us > 0)
            pause_us(rest_us);
    }
}

static void start_comets(long count)
{
    for (long i = 0; i < count; i++) {
        if (fork() == 0)
            comet(0);
    }
}

static void obey(const char *word)
{
    const char *equals = strchr(word, '=');
    long value = equals != NULL ? strtol(equals + 1, NULL, 10) : 0;

    if (strcmp(word, "record") == 0) {
        begin_records();
    } else if (strcmp(word, "ignore") == 0) {
        (void)signal(SIGTERM, SIG_IGN);
    } else if (strncmp(word, "term=", 5) == 0 || strncmp(word, "usr1=", 5) == 0) {
        exit_with = (int)value;
        (void)signal(word[0] == 't' ? SIGTERM : SIGUSR1, on_signal);
    } else if (strcmp(word, "daemon") == 0) {
        daemonize();
    } else if (strncmp(word, "tree=", 5) == 0) {
        grow(value, false);
    } else if (strncmp(word, "chain=", 6) == 0) {
        grow(value, true);
    } else if (strcmp(word, "spawn") == 0) {
        spawn();
    } else if (strcmp(word, "comet") == 0) {
        comet(500);
    } else if (strncmp(word, "comets=", 7) == 0) {
        start_comets(value);
    } else if (strcmp(word, "stop") == 0) {
        beat();
        (void)raise(SIGSTOP);
    } else if (strncmp(word, "exit=", 5) == 0) {
        _exit((int)value);
    } else if (strncmp(word, "last=", 5) == 0) {
        beat_for(value);
    } else {
        _exit(98);
    }
}

int main(int argc, char **argv)
{
    if (argc < 2)
        return 98;
    born = boottime();
    file = open(argv[1], O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (file < 0)
        return 97;
    for (int i = 2; i < argc; i++)
        obey(argv[i]);
    beat_for(0);
}
