/* browse.h - the address of a page that a verb serves, and how it is opened. */
#ifndef TN_CLI_BROWSE_H
#define TN_CLI_BROWSE_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

/* The URL of the socket @fd; false when it is not one of the loopback. */
bool tn_browse_url(int fd, char *buf, size_t size);

/* In the user's browser; a failure is a line. SIGCHLD must be ignored. */
void tn_browse_open(const char *verb, const char *url);

/* The same for an address with a secret in it. Every user of the machine sees the words of a
 * command, so the browser is given a file of this user's that leads there: *@ret_path, for the
 * caller to remove at the end; empty: there is none. */
void tn_browse_open_secret(const char *verb, const char *url, char ret_path[PATH_MAX]);

#endif
