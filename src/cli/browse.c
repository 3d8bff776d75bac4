/* browse.c - a page's address, and opening it. */
#define _GNU_SOURCE /* environ. */
#include "cli/browse.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cli/cli.h"
#include "runtime/state_folder.h"

/* The URL of the socket @fd; false when it is not one of the loopback. */
bool tn_browse_url(int fd, char *buf, size_t size)
{
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } at;
    socklen_t len = sizeof at;
    char host[INET6_ADDRSTRLEN];

    if (getsockname(fd, &at.any, &len) != 0)
        return false;
    if (at.any.sa_family == AF_INET) {
        (void)inet_ntop(AF_INET, &at.v4.sin_addr, host, sizeof host);
        (void)snprintf(buf, size, "http://%s:%u/", host, ntohs(at.v4.sin_port));
        return ntohl(at.v4.sin_addr.s_addr) >> 24 == 127;
    }
    (void)inet_ntop(AF_INET6, &at.v6.sin6_addr, host, sizeof host);
    (void)snprintf(buf, size, "http://[%s]:%u/", host, ntohs(at.v6.sin6_port));
    return IN6_IS_ADDR_LOOPBACK(&at.v6.sin6_addr);
}

/* Returns 0 or an error number. */
static int spawn_browser(const char *what)
{
    static char program[] = "xdg-open";
    char word[PATH_MAX];
    char *argv[] = { program, word, NULL };
    extern char **environ;
    posix_spawnattr_t fresh; /* What we block and ignore is not the browser's. */
    sigset_t none, changed;
    pid_t pid;

    (void)snprintf(word, sizeof word, "%s", what);
    (void)sigemptyset(&none);
    (void)sigemptyset(&changed);
    (void)sigaddset(&changed, SIGCHLD);
    (void)sigaddset(&changed, SIGPIPE);
    int rc = posix_spawnattr_init(&fresh);
    if (rc != 0)
        return rc;
    (void)posix_spawnattr_setsigmask(&fresh, &none);
    (void)posix_spawnattr_setsigdefault(&fresh, &changed);
    (void)posix_spawnattr_setflags(&fresh, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    rc = posix_spawnp(&pid, program, NULL, &fresh, argv, environ);
    (void)posix_spawnattr_destroy(&fresh);
    return rc;
}

void tn_browse_open(const char *verb, const char *url)
{
    int rc = spawn_browser(url);

    if (rc != 0)
        (void)tn_cli_fail(0, verb, "--open: xdg-open: %s; open %s by hand", strerror(rc), url);
}

/* A page that leads to @url. Returns 0 or an error number. */
static int write_page(const char *path, const char *url)
{
    char page[600];

    int len = snprintf(page, sizeof page,
                       "<!DOCTYPE html><meta charset=\"utf-8\"><title>Tenure</title>"
                       "<meta http-equiv=\"refresh\" content=\"0; url=%s\"><a href=\"%s\">%s</a>\n",
                       url, url, url);
    (void)unlink(path);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return errno;
    int rc = write(fd, page, (size_t)len) == len ? 0 : errno != 0 ? errno : EIO;
    (void)close(fd);
    return rc;
}

void tn_browse_open_secret(const char *verb, const char *url, char ret_path[PATH_MAX])
{
    char state[PATH_MAX - 80];

    if (tn_state_folder(state, sizeof state)[0] == '\0') {
        (void)tn_cli_fail(0, verb, "--open: HOME is not set; open %s by hand", url);
        return;
    }
    (void)snprintf(ret_path, PATH_MAX, "%s/tenure/console/open-%ld.html", state, (long)getpid());
    tn_make_folders(ret_path);
    int rc = write_page(ret_path, url);
    if (rc != 0) {
        (void)tn_cli_fail(0, verb, "--open: %s: %s; open %s by hand", ret_path, strerror(rc), url);
        return;
    }
    rc = spawn_browser(ret_path);
    if (rc != 0)
        (void)tn_cli_fail(0, verb, "--open: xdg-open: %s; open %s by hand", strerror(rc), url);
}
