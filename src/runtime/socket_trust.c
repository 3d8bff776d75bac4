/* socket_trust.c - who is behind a Unix socket; socket_trust.h has the rules.
 *
 * Happy path: the kernel names the server's user, the path is walked as the kernel walked it in
 * connect(), link by link, and each entry belongs to a trusted user. What can fail: a stranger's
 * entry or server, and a path that changed since connect(), which is refused as well. */
#define _GNU_SOURCE
#include "runtime/socket_trust.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/sole_file.h"

enum { LINKS_MAX = 40 }; /* As the kernel. */

struct trust_walk {
    uid_t server;
    bool service;
    unsigned links;
    struct stat folder;  /* The last directory. */
    struct stat entry;   /* What the last step found. */
    char done[PATH_MAX]; /* Walked and trusted. */
    char rest[PATH_MAX]; /* Still to walk. */
    struct tn_text *reterr;
};

static int refuse_socket(struct trust_walk *walk, const char *place, const char *why)
{
    tn_text_escape(walk->reterr, place, strlen(place));
    tn_text_addf(walk->reterr, " %s", why);
    return TENURE_E_DENIED;
}

static int refuse_owner(struct trust_walk *walk, const char *place, uid_t owner)
{
    char why[100];

    (void)snprintf(why, sizeof why, "belongs to another user (uid %u), who can forge the server",
                   (unsigned)owner);
    return refuse_socket(walk, place, why);
}

static bool is_ours(uid_t uid)
{
    return uid == 0 || (uid == geteuid() && tn_uid_is_certain(uid));
}

/* Who beside the service and those we trust may write to the last directory. */
static mode_t writers_of(const struct trust_walk *walk)
{
    return walk->folder.st_uid == walk->server ? S_IWOTH : S_IWOTH | S_IWGRP;
}

/* Root made the directory of the socket, and says by its group who may put one there. */
static bool is_roots(const struct trust_walk *walk)
{
    return walk->folder.st_uid == 0 && (walk->folder.st_mode & S_IWOTH) == 0;
}

/* The socket of a server that root has placed: the server's own, or systemd's gift to it. */
static bool is_placed(const struct trust_walk *walk)
{
    uid_t owner = walk->entry.st_uid;

    return !walk->service && S_ISSOCK(walk->entry.st_mode) && is_roots(walk) &&
           tn_uid_is_certain(owner) && (owner == walk->server || walk->server == 0);
}

/* A directory, a link or the socket at @place; @walk->folder is where it lies. */
static int check_owner(struct trust_walk *walk, const char *place)
{
    uid_t owner = walk->entry.st_uid;

    if (is_ours(owner) || is_placed(walk))
        return 0;
    /* The service's own, unless it is where another user could have made it, such as in /tmp. */
    if (walk->service && owner == walk->server && tn_uid_is_certain(owner) &&
        (walk->folder.st_mode & writers_of(walk)) == 0)
        return 0;
    return refuse_owner(walk, place, owner);
}

static int enter(struct trust_walk *walk, const char *place)
{
    if ((walk->entry.st_mode & S_IWOTH) != 0 && (walk->entry.st_mode & S_ISVTX) == 0)
        return refuse_socket(walk, place,
                             "can be written by every user, who could forge the server");
    walk->folder = walk->entry;
    if (place != walk->done)
        (void)snprintf(walk->done, sizeof walk->done, "%s", place);
    return 0;
}

/* What the link at @place says comes before the rest. */
static int follow(struct trust_walk *walk, const char *place)
{
    char target[PATH_MAX], joined[2 * PATH_MAX];
    ssize_t len = readlink(place, target, sizeof target - 1);

    if (len <= 0 || ++walk->links > LINKS_MAX)
        return refuse_socket(walk, place, "is a link that cannot be followed");
    target[len] = '\0';
    int size = snprintf(joined, sizeof joined, "%s/%s", target, walk->rest);
    if (size < 0 || (size_t)size >= sizeof walk->rest)
        return refuse_socket(walk, place, "is a link that is too long");
    memcpy(walk->rest, joined, (size_t)size + 1);
    if (target[0] != '/')
        return 0;
    (void)snprintf(walk->done, sizeof walk->done, "/");
    return lstat("/", &walk->folder) == 0 ? 0 : refuse_socket(walk, "/", strerror(errno));
}

/* Take the next name off the rest; false: there is none. */
static bool next_place(struct trust_walk *walk, char place[PATH_MAX + NAME_MAX])
{
    size_t start = strspn(walk->rest, "/");
    size_t len = strcspn(walk->rest + start, "/");

    if (len == 0)
        return false;
    (void)snprintf(place, PATH_MAX + NAME_MAX, "%s%s%.*s", walk->done,
                   strcmp(walk->done, "/") == 0 ? "" : "/", (int)(len < NAME_MAX ? len : NAME_MAX),
                   walk->rest + start);
    memmove(walk->rest, walk->rest + start + len, strlen(walk->rest + start + len) + 1);
    return true;
}

static int walk_path(struct trust_walk *walk)
{
    char place[PATH_MAX + NAME_MAX];

    int rc =
        lstat(walk->done, &walk->entry) == 0 ? 0 : refuse_socket(walk, walk->done, strerror(errno));
    walk->folder = walk->entry;
    if (rc == 0)
        rc = check_owner(walk, walk->done);
    if (rc == 0)
        rc = enter(walk, walk->done);
    while (rc == 0 && next_place(walk, place)) {
        if (strlen(place) >= sizeof walk->done)
            return refuse_socket(walk, walk->done, "leads to a path that is too long");
        if (lstat(place, &walk->entry) != 0)
            return refuse_socket(walk, place, strerror(errno));
        rc = check_owner(walk, place);
        if (rc == 0 && S_ISLNK(walk->entry.st_mode))
            rc = follow(walk, place);
        else if (rc == 0 && S_ISDIR(walk->entry.st_mode))
            rc = enter(walk, place);
    }
    if (rc == 0 && !S_ISSOCK(walk->entry.st_mode))
        rc = refuse_socket(walk, place, "is no socket any more");
    return rc;
}

/* A server of another user: only where nobody but it and those we trust can make a socket. */
static int check_service(struct trust_walk *walk, const char *path)
{
    if (is_ours(walk->server) || is_placed(walk))
        return 0;
    if (!walk->service) {
        tn_text_addf(walk->reterr, "the server runs as another user (uid %u)",
                     (unsigned)walk->server);
        return TENURE_E_DENIED;
    }
    if (walk->entry.st_uid != walk->server || (walk->folder.st_mode & writers_of(walk)) != 0)
        return refuse_owner(walk, path, walk->server);
    return 0;
}

int tn_socket_trust(int fd, const char *path, enum tn_socket_trust trust, struct tn_text *reterr)
{
    struct trust_walk walk = { .service = trust == TN_TRUST_SERVICE, .reterr = reterr };
    struct ucred server;
    socklen_t len = sizeof server;

    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &server, &len) != 0) {
        tn_text_add(reterr, "cannot tell whose server this is");
        return TENURE_E_DENIED;
    }
    walk.server = server.uid;
    (void)snprintf(walk.done, sizeof walk.done, "%s", path[0] == '/' ? "/" : ".");
    (void)snprintf(walk.rest, sizeof walk.rest, "%s", path);
    int rc = walk_path(&walk);
    return rc == 0 ? check_service(&walk, path) : rc;
}
