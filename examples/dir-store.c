/* dir-store.c - a store of one's own, whole: leases in a directory that the processes of one host
 * share, with nothing but a lock file and an atomic rename. It passes Tenure's conformance suite.
 *
 *     cc -shared -fPIC -o dir-store.so dir-store.c $(pkg-config --cflags tenure)
 *     tenure doctor --conformance dir:/tmp/leases --plugin ./dir-store.so
 *
 * and linked into a program: own-store.c.
 *
 * Every step locks DIR/lock, reads DIR/state, lets go of sessions whose time is over, does what it
 * was asked, writes the state beside and renames it into place, flushed. So each step happens whole
 * or not at all, and all processes see one order of them. It may block, and says so; it knows no
 * queues and tells no news, so candidates ask again, and Tenure reads for those who watch. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <tenure/store.h>

struct session {
    struct tenure_store_id id;
    int64_t expires_at, ttl; /* In CLOCK_BOOTTIME, and in nanoseconds. */
    uint64_t seq;
    uint32_t label_len;
    char label[TENURE_ID_MAX + 1];
};

struct lease {
    char name[256];
    uint64_t token;
    bool held;
    struct tenure_store_id session, term; /* Of the present holder, or of the last one. */
    uint64_t released;                    /* The token that was given back last, */
    struct tenure_store_id released_term; /* and whose it was. */
};

struct state {
    char boot[64];
    uint64_t token; /* The last one granted. It never goes back. */
    struct session *sessions;
    struct lease *leases;
    size_t session_count, lease_count;
};

struct dir {
    char path[3800];
};

/* --- Time ----------------------------------------------------------------------------------- */

static int64_t now_ns(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_BOOTTIME, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* An instant means something within one boot only. */
static void read_boot(char boot[64])
{
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");

    boot[0] = '\0';
    if (file != NULL) {
        if (fscanf(file, "%63s", boot) != 1)
            boot[0] = '\0';
        (void)fclose(file);
    }
}

/* --- The file ------------------------------------------------------------------------------- */

static struct session *add_session(struct state *state)
{
    struct session *grown =
        realloc(state->sessions, (state->session_count + 1) * sizeof *state->sessions);

    if (grown == NULL)
        return NULL;
    state->sessions = grown;
    memset(&grown[state->session_count], 0, sizeof *grown);
    return &grown[state->session_count++];
}

static struct lease *add_lease(struct state *state)
{
    struct lease *grown = realloc(state->leases, (state->lease_count + 1) * sizeof *state->leases);

    if (grown == NULL)
        return NULL;
    state->leases = grown;
    memset(&grown[state->lease_count], 0, sizeof *grown);
    return &grown[state->lease_count++];
}

static bool read_array(FILE *file, void **ret_array, size_t count, size_t size)
{
    *ret_array = calloc(count + 1, size);
    return *ret_array != NULL && fread(*ret_array, size, count, file) == count;
}

/* The state as it lies in memory: it never leaves the host. */
static int load(const struct dir *dir, struct state *state)
{
    char path[4096];
    void *sessions = NULL, *leases = NULL;

    (void)snprintf(path, sizeof path, "%s/state", dir->path);
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return errno == ENOENT ? 0 : TENURE_E_UNAVAILABLE;
    bool good = fread(state, sizeof *state, 1, file) == 1 &&
                read_array(file, &sessions, state->session_count, sizeof *state->sessions) &&
                read_array(file, &leases, state->lease_count, sizeof *state->leases);
    state->sessions = sessions;
    state->leases = leases;
    (void)fclose(file);
    return good ? 0 : TENURE_E_DAMAGED;
}

static void write_state(FILE *file, const struct state *state)
{
    (void)fwrite(state, sizeof *state, 1, file);
    if (state->session_count > 0)
        (void)fwrite(state->sessions, sizeof *state->sessions, state->session_count, file);
    if (state->lease_count > 0)
        (void)fwrite(state->leases, sizeof *state->leases, state->lease_count, file);
}

/* Beside, flushed, into place, and the directory flushed: before that nothing has happened, after a
 * failure of the last step it may have. */
static int save(const struct dir *dir, const struct state *state)
{
    char path[4096], beside[4096];

    (void)snprintf(path, sizeof path, "%s/state", dir->path);
    (void)snprintf(beside, sizeof beside, "%s/state.new", dir->path);
    FILE *file = fopen(beside, "we");
    if (file == NULL)
        return TENURE_E_UNAVAILABLE;
    write_state(file, state);
    bool good = fflush(file) == 0 && !ferror(file) && fsync(fileno(file)) == 0;
    good = fclose(file) == 0 && good;
    if (!good || rename(beside, path) != 0)
        return TENURE_E_UNAVAILABLE;
    int fd = open(dir->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    good = fd >= 0 && fsync(fd) == 0;
    if (fd >= 0)
        (void)close(fd);
    return good ? 0 : TENURE_E_TIMEOUT;
}

/* --- The rules ------------------------------------------------------------------------------ */

static bool is_same(const struct tenure_store_id *a, const struct tenure_store_id *b)
{
    return memcmp(a->bytes, b->bytes, sizeof a->bytes) == 0;
}

static struct session *find_session(struct state *state, const struct tenure_store_id *id)
{
    for (size_t i = 0; i < state->session_count; i++)
        if (is_same(&state->sessions[i].id, id))
            return &state->sessions[i];
    return NULL;
}

static struct lease *find_lease(struct state *state, const char *name)
{
    for (size_t i = 0; i < state->lease_count; i++)
        if (strcmp(state->leases[i].name, name) == 0)
            return &state->leases[i];
    return NULL;
}

static void end_session(struct state *state, struct session *session)
{
    for (size_t i = 0; i < state->lease_count; i++)
        if (state->leases[i].held && is_same(&state->leases[i].session, &session->id))
            state->leases[i].held = false;
    *session = state->sessions[--state->session_count];
}

/* After a reboot everybody has a full TTL again: nobody knows how much of it had passed. */
static void expire(struct state *state, int64_t now)
{
    char boot[64];

    read_boot(boot);
    bool rebooted = strcmp(boot, state->boot) != 0;
    (void)snprintf(state->boot, sizeof state->boot, "%s", boot);
    for (size_t i = state->session_count; i > 0; i--) {
        struct session *session = &state->sessions[i - 1];
        if (rebooted)
            session->expires_at = now + session->ttl;
        else if (session->expires_at <= now)
            end_session(state, session);
    }
}

static void fill_record(struct state *state, const struct lease *lease, int64_t now,
                        struct tenure_store_record *record)
{
    if (lease == NULL)
        return;
    record->token = lease->token;
    record->held = lease->held;
    const struct session *session = find_session(state, &lease->session);
    if (!lease->held || session == NULL)
        return;
    record->term = lease->term;
    record->ttl = session->ttl;
    record->remaining = session->expires_at - now;
    record->label_len = session->label_len;
    memcpy(record->label, session->label, session->label_len);
}

static enum tenure_store_answer renew(struct state *state, struct session *session, uint64_t seq,
                                      int64_t now, struct tenure_store_reply *reply)
{
    if (seq != 0 && seq <= session->seq)
        return TENURE_STORE_STALE;
    if (seq != 0)
        session->seq = seq;
    session->expires_at = now + session->ttl;
    reply->ttl = session->ttl;
    for (size_t i = 0; i < state->lease_count; i++)
        reply->held += state->leases[i].held && is_same(&state->leases[i].session, &session->id);
    return TENURE_STORE_OK;
}

static enum tenure_store_answer open_session(struct state *state,
                                             const struct tenure_store_request *request,
                                             int64_t now, struct tenure_store_reply *reply)
{
    struct session *session = find_session(state, &request->session);

    if (session == NULL) {
        session = add_session(state);
        if (session == NULL)
            return TENURE_STORE_FULL;
        session->id = request->session;
        session->ttl = request->ttl;
        session->label_len = request->label_len;
        memcpy(session->label, request->label, request->label_len);
    }
    return renew(state, session, request->seq, now, reply);
}

static enum tenure_store_answer acquire(struct state *state,
                                        const struct tenure_store_request *request)
{
    struct lease *lease = find_lease(state, request->name);

    if (lease == NULL) {
        lease = add_lease(state);
        if (lease == NULL)
            return TENURE_STORE_FULL;
        (void)snprintf(lease->name, sizeof lease->name, "%s", request->name);
    }
    if (lease->held) {
        bool mine =
            is_same(&lease->session, &request->session) && is_same(&lease->term, &request->term);
        return mine ? TENURE_STORE_GRANTED : TENURE_STORE_HELD;
    }
    if (lease->token != 0 && is_same(&lease->term, &request->term))
        return TENURE_STORE_STALE;
    lease->held = true;
    lease->token = ++state->token;
    lease->session = request->session;
    lease->term = request->term;
    return TENURE_STORE_GRANTED;
}

static enum tenure_store_answer release(struct state *state,
                                        const struct tenure_store_request *request)
{
    struct lease *lease = find_lease(state, request->name);
    uint64_t token = request->token;

    if (lease != NULL && token != 0 && lease->released == token &&
        is_same(&lease->released_term, &request->term))
        return TENURE_STORE_RELEASED; /* Said again. */
    if (find_session(state, &request->session) == NULL)
        return TENURE_STORE_GONE;
    if (lease == NULL || (token != 0 && lease->token != token))
        return token == 0 ? TENURE_STORE_RELEASED : TENURE_STORE_STALE;
    bool mine = lease->held && is_same(&lease->session, &request->session) &&
                is_same(&lease->term, &request->term);
    if (mine) {
        lease->held = false;
        lease->released = lease->token;
        lease->released_term = lease->term;
    }
    if (mine || token == 0)
        return TENURE_STORE_RELEASED;
    return lease->held ? TENURE_STORE_DENIED : TENURE_STORE_STALE;
}

static void take_step(struct state *state, const struct tenure_store_request *request, int64_t now,
                      struct tenure_store_reply *reply)
{
    struct session *session = find_session(state, &request->session);

    if (request->op == TENURE_STORE_OPEN)
        reply->answer = open_session(state, request, now, reply);
    else if (request->op == TENURE_STORE_READ)
        reply->answer = TENURE_STORE_FREE; /* Until its record says otherwise. */
    else if (request->op == TENURE_STORE_RELEASE)
        reply->answer = release(state, request);
    else if (session == NULL)
        reply->answer = TENURE_STORE_GONE;
    else if (request->op == TENURE_STORE_RENEW)
        reply->answer = renew(state, session, request->seq, now, reply);
    else if (request->op == TENURE_STORE_ACQUIRE)
        reply->answer = acquire(state, request);
    else {
        end_session(state, session);
        reply->answer = TENURE_STORE_OK;
    }
    fill_record(state, find_lease(state, request->name), now, &reply->record);
    if (request->op == TENURE_STORE_READ && reply->record.held)
        reply->answer = TENURE_STORE_HELD;
}

/* --- The store ------------------------------------------------------------------------------ */

/* Waits for the others. Returns the descriptor to close, or a negative code. */
static int lock(const struct dir *dir)
{
    char path[4096];

    (void)snprintf(path, sizeof path, "%s/lock", dir->path);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return errno == EACCES ? TENURE_E_DENIED : TENURE_E_UNAVAILABLE;
    while (flock(fd, LOCK_EX) != 0) {
        if (errno != EINTR) {
            (void)close(fd);
            return TENURE_E_UNAVAILABLE;
        }
    }
    return fd;
}

static void submit(void *store, const struct tenure_store_request *request)
{
    struct tenure_store_reply reply = { .size = sizeof reply };
    const struct dir *dir = store;
    struct state state = { .token = 0 };

    if (request->op == TENURE_STORE_REVOKE) {
        reply.status = TENURE_E_UNSUPPORTED;
        reply.error = "dir: has no revocation; stop the holder";
        tenure_store_done(request, &reply);
        return;
    }
    int fd = lock(dir);
    reply.status = fd < 0 ? fd : load(dir, &state);
    if (reply.status == 0) {
        int64_t now = now_ns();
        expire(&state, now);
        take_step(&state, request, now, &reply);
        if (request->op != TENURE_STORE_READ)
            reply.status = save(dir, &state);
    }
    if (reply.status < 0)
        reply.error = tenure_strerror(reply.status);
    if (fd >= 0)
        (void)close(fd);
    free(state.sessions);
    free(state.leases);
    tenure_store_done(request, &reply);
}

static void list(void *store, const char *prefix, struct tenure_store_list *list)
{
    const struct dir *dir = store;
    struct state state = { .token = 0 };

    int fd = lock(dir);
    int rc = fd < 0 ? fd : load(dir, &state);
    if (fd >= 0)
        (void)close(fd);
    expire(&state, now_ns());
    for (size_t i = 0; rc == 0 && i < state.lease_count; i++) {
        struct tenure_store_record record = { .held = false };
        fill_record(&state, &state.leases[i], now_ns(), &record);
        if (strncmp(state.leases[i].name, prefix, strlen(prefix)) == 0 && record.token != 0)
            rc = tenure_store_list_add(list, state.leases[i].name, &record);
    }
    free(state.sessions);
    free(state.leases);
    tenure_store_list_done(list, rc, NULL);
}

static int open_dir(const struct tenure_store_open *how, void **ret_store,
                    struct tenure_error *reterr)
{
    struct dir *dir = calloc(1, sizeof *dir);
    struct stat st;

    if (dir == NULL)
        return TENURE_E_NOMEM;
    int len = snprintf(dir->path, sizeof dir->path, "%s", how->rest);
    int rc = len <= 0 || (size_t)len >= sizeof dir->path ? TENURE_E_INVALID : 0;
    if (rc == 0 && how->create)
        (void)mkdir(dir->path, 0700);
    if (rc == 0 && (stat(dir->path, &st) != 0 || !S_ISDIR(st.st_mode)))
        rc = how->create ? TENURE_E_UNAVAILABLE : TENURE_E_NOT_HELD;
    if (rc == 0) {
        *ret_store = dir;
        return 0;
    }
    (void)snprintf(reterr->text, sizeof reterr->text, "dir:%.150s: not a directory", how->rest);
    free(dir);
    return rc;
}

static void close_dir(void *store)
{
    free(store);
}

/* What --plugin looks for, and what a program passes to tenure_store_register. */
const struct tenure_store_ops *tenure_store_plugin(void)
{
    static const struct tenure_store_ops ops = {
        .size = sizeof ops,
        .version = TENURE_STORE_V1,
        .scheme = "dir",
        .caps = TENURE_STORE_BLOCKS,
        .open = open_dir,
        .submit = submit,
        .list = list,
        .close = close_dir,
        .class_why = "a file on this host, replaced and flushed with each step",
    };

    return &ops;
}
