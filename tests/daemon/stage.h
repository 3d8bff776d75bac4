/* stage.h - a real tenured under test: started in a folder of its own, asked over its socket,
 * stopped, killed and started again. Every wait has a bound. */
#ifndef TN_TESTS_DAEMON_STAGE_H
#define TN_TESTS_DAEMON_STAGE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "tests/harness/test.h"

#define STAGE_PATIENCE_MS 10000

struct stage {
    char root[64];    /* Everything is below it. */
    char data[80];    /* The daemon's data; its witness is beside it. */
    char socket[80];  /* unix:PATH less its scheme. */
    char ready[1024]; /* The line on stdout. */
    char errors[100]; /* The file with stderr. */
    pid_t pid;        /* 0: not running. */
};

extern struct stage stage;

/* A new folder; nothing is started. */
void stage_begin(void);
/* Ends the daemon if it runs, and removes the folder. */
void stage_end(void);

/* Start it on stage.data and stage.socket with up to eight more words, NULL at the end; wait until
 * it is ready. False: it ended before that, and stage_wait gives its status. */
bool stage_try_start(const char *const *words);
void stage_start(void);
void stage_start_with(const char *word, const char *value);
/* The exit status, or 128 + the signal. */
int stage_wait(void);
void stage_kill(void);                     /* SIGKILL, and reaped. */
const char *stage_said(void);              /* What it wrote to stderr. */
void stage_preload(const char *library);   /* For the next start; NULL: none. */
void stage_file_limit(uint64_t bytes_max); /* RLIMIT_FSIZE for the next start; 0: none. */

/* --- Talking to it --- */
int stage_connect(void);
int stage_connect_tcp(int port);
void stage_send(int fd, const char *line); /* With CR LF added. */
void stage_send_bytes(int fd, const void *bytes, size_t len);
const char *stage_line(int fd);              /* The next line of a reply. */
bool stage_is_closed(int fd);                /* The daemon closed it; waits for that. */
bool stage_is_quiet(int fd, int ms);         /* Nothing arrives for so long. */
void stage_expect(int fd, const char *line); /* The next line is this one. */
void stage_ask(int fd, const char *line, const char *reply); /* A reply of one line. */
/* Send, skip to the reply's integer that follows the line @after; for tokens. */
uint64_t stage_granted(int fd, const char *command); /* 0: not granted. Reads the whole reply. */

int64_t stage_now_ms(void);

#endif
