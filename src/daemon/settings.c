/* settings.c - where things are when nobody says, and whether what was said can work. */
#define _GNU_SOURCE
#include <errno.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/number.h"
#include "base/pattern.h"
#include "base/time.h"
#include "core/agent.h"
#include "daemon/settings.h"
#include "lib/agent.h"
#include "runtime/socket_path.h"

/* Descriptors that are not for peers: loop, journal, timer, listeners, snapshot. */
#define OWN_FDS 32
/* --- Defaults --------------------------------------------------------------------------------- */

/* Make @path and all above it, each for its owner only. */
static void make_folders(const char *path)
{
    char part[512];

    for (size_t i = 1; path[i] != 0 && i < sizeof part; i++) {
        if (path[i] != '/')
            continue;
        memcpy(part, path, i);
        part[i] = 0;
        (void)mkdir(part, 0700); /* If it fails, what is made inside will tell. */
    }
}

static int choose_data(struct tn_settings *settings)
{
    const char *state = getenv("XDG_STATE_HOME");
    const char *home = getenv("HOME");
    int len;

    if (geteuid() == 0)
        len = snprintf(settings->data, sizeof settings->data, "/var/lib/tenured/data");
    else if (state != NULL && state[0] == '/')
        len = snprintf(settings->data, sizeof settings->data, "%s/tenured/data", state);
    else if (home != NULL && home[0] == '/')
        len = snprintf(settings->data, sizeof settings->data, "%s/.local/state/tenured/data", home);
    else
        return tn_option_bad("%s is not set; give --data", "HOME");
    if (len < 0 || (size_t)len >= sizeof settings->data)
        return tn_option_bad("%s is too long; give --data", "HOME");
    make_folders(settings->data);
    settings->config.journal.dir = settings->data;
    return -1;
}

/* An agent that asks itself waits for ever. Longer circles are not seen here. "unix:" is the socket
 * where it listens unless it is told where. */
static int check_circle(const struct tn_settings *settings, const char *upstream)
{
    const struct tn_server_config *config = &settings->config;

    for (uint32_t i = 0; i < config->listen_count; i++) {
        const char *listen = config->listen[i];
        const char *at = strstr(upstream, "://");
        bool same = strcmp(upstream, listen) == 0 ||
                    (strcmp(upstream, "unix:") == 0 && listen == settings->url);
        if (strncmp(upstream, "tenured", 7) == 0 && at != NULL && strncmp(listen, "tcp:", 4) == 0)
            same = strcmp(at + 3, listen + 4) == 0;
        if (same)
            return tn_option_bad("--upstream: %s is where this agent listens itself", listen);
    }
    return -1;
}

static int check_circles(const struct tn_settings *settings)
{
    int status = -1;

    for (uint32_t i = 0; status < 0 && i < settings->config.upstream_count; i++)
        status = check_circle(settings, settings->config.upstreams[i].url);
    return status;
}

/* The folder of the default socket must be this user's alone: who can write there could put
 * another socket in its place. */
static int choose_socket(struct tn_settings *settings)
{
    char *folder = settings->socket;
    struct stat st;

    if (!tn_socket_folder(folder, sizeof settings->socket - sizeof TN_SOCKET_NAME - 1))
        return tn_option_bad("%s is too long; give --listen", "XDG_RUNTIME_DIR");
    if ((mkdir(folder, 0700) != 0 && errno != EEXIST) || lstat(folder, &st) != 0) {
        tn_log("%s: %s; give --listen", folder, strerror(errno));
        return TN_STATUS_UNAVAILABLE;
    }
    if (!S_ISDIR(st.st_mode) || st.st_uid != geteuid() || (st.st_mode & 077) != 0) {
        tn_log("%s: is not a directory of this user with mode 0700; give --listen", folder);
        return TN_STATUS_DENIED;
    }
    (void)snprintf(settings->url, sizeof settings->url, "unix:%s/" TN_SOCKET_NAME, folder);
    settings->config.listen[settings->config.listen_count++] = settings->url;
    return -1;
}

/* By its name, or by its number in digits. */
static int find_group(struct tn_server_config *config)
{
    const struct group *group = getgrnam(config->socket_group);
    uint64_t number;

    if (group != NULL)
        config->socket_gid = group->gr_gid;
    else if (tn_u64_parse(config->socket_group, &number) == 0 && number < UINT32_MAX)
        config->socket_gid = (gid_t)number;
    else
        return tn_option_bad("there is no group '%s'", config->socket_group);
    return -1;
}

static int choose_witness(struct tn_settings *settings)
{
    const char *dir = settings->config.journal.dir;
    size_t len = strlen(dir);

    while (len > 1 && dir[len - 1] == '/')
        len--;
    if (len >= sizeof settings->witness - 10)
        return tn_option_bad("the path '%s' is too long", dir);
    (void)snprintf(settings->witness, sizeof settings->witness, "%.*s.witness", (int)len, dir);
    settings->config.journal.witness = settings->witness;
    return -1;
}

/* --- Checking --------------------------------------------------------------------------------- */

static int check_pattern(const struct tn_server_config *config)
{
    const char *reason;

    if (config->metrics_names == NULL || tn_pattern_check(config->metrics_names, &reason))
        return -1;
    return tn_option_bad("--metrics-names: '%s' is not a pattern, as 'jobs/*' is",
                         config->metrics_names);
}

/* Two sessions in one store, with names of the one below those of the other: somebody has forgotten
 * to change the second URL. */
static int check_same_store(const struct tn_server_config *config, uint32_t index)
{
    const char *prefix = config->upstreams[index].prefix;
    const char *url = config->upstreams[index].url;

    for (uint32_t i = 0; i < config->upstream_count; i++) {
        const char *other = config->upstreams[i].prefix;
        if (i != index && strcmp(config->upstreams[i].url, url) == 0 &&
            strncmp(prefix, other, strlen(other)) == 0)
            return tn_option_bad(
                "--upstream: the names below %s are below another --upstream with the same "
                "URL",
                prefix);
    }
    return -1;
}

static int check_upstream_url(const struct tn_server_config *config, uint32_t index)
{
    const char *prefix = config->upstreams[index].prefix;
    struct tenure_error error;
    int rc = tn_lib_check_upstream(config->upstreams[index].url, &error);

    if (rc == 0)
        return check_same_store(config, index);
    tn_log("--upstream%s%s: %s", prefix[0] != 0 ? " " : "", prefix, error.text);
    return rc == TENURE_E_INVALID ? TN_STATUS_USAGE : TN_STATUS_UNAVAILABLE;
}

/* An agent's truth is upstream. What it keeps itself is for its next start on the same boot. */
static int check_upstream(struct tn_settings *settings)
{
    struct tn_server_config *config = &settings->config;
    int status = -1;

    if (config->upstream_count == 0)
        return config->upstream_ttl == 0 ? -1
                                         : tn_option_bad("%s needs --upstream", "--upstream-ttl");
    if (settings->has_witness || config->journal.accept_older)
        return tn_option_bad("%s excludes --witness and --accept-older-data", "--upstream");
    if (config->upstream_ttl == 0)
        config->upstream_ttl = TN_AGENT_TTL;
    config->limits.upstream = true;
    for (uint32_t i = 0; status < 0 && i < config->upstream_count; i++)
        status = check_upstream_url(config, i);
    return status;
}

/* Where it would listen: on this machine, or with TLS. */
static int check_reach(const char *where, const char *address, bool tls)
{
    struct sockaddr_storage parsed;

    if (!tls && tn_parse_address(address, &parsed) && !tn_is_loopback(&parsed))
        return tn_option_bad(
            "'%s' can be reached from other hosts; give --tls-cert, --tls-key and --tls-ca", where);
    return -1;
}

/* What a start would read, without a start: nothing is made, and nobody is disturbed. */
static int check_config(const struct tn_server_config *config)
{
    static struct tn_server server;
    struct tn_acl *acl = NULL;
    char line[450] = "";
    struct tn_text err;
    int status = -1;

    tn_text_init(&err, line, sizeof line);
    server.config = *config;
    int rc = tn_secure_open(&server, &err);
    if (rc == 0 && config->acl != NULL)
        rc = tn_acl_load(config->acl, &acl, &err);
    if (rc < 0) {
        tn_log("%s", line[0] != 0 ? line : tenure_strerror(rc));
        return TN_STATUS_USAGE;
    }
    for (uint32_t i = 0; status < 0 && i < config->listen_count; i++)
        if (strncmp(config->listen[i], "tcp:", 4) == 0)
            status = check_reach(config->listen[i], config->listen[i] + 4, server.tls != NULL);
    if (status < 0 && config->http != NULL)
        status = check_reach(config->http, config->http, server.tls != NULL);
    tn_acl_free(acl);
    if (server.tls != NULL)
        tn_tls_context_free(server.tls);
    if (status < 0)
        (void)puts("the configuration is good");
    return status < 0 ? 0 : status;
}

/* --- All of it ------------------------------------------------------------------------------ */

void tn_settings_init(struct tn_settings *settings)
{
    *settings = (struct tn_settings) {
        .config.journal.snapshot_bytes = 64 << 20,
        .sessions = 200000,
        .leases = 2000000,
        .waiters = 200000,
        .conns = 10000,
        .slow = 30,
        .idle = 600,
    };
}

/* As many descriptors as we may have; connections beyond that are refused with a line. */
static void set_limits(struct tn_settings *settings)
{
    struct tn_server_config *config = &settings->config;
    struct rlimit files;
    uint64_t text = settings->leases * 64;

    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &files);
        if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur != RLIM_INFINITY) {
            uint64_t most =
                files.rlim_cur > 2 * OWN_FDS ? files.rlim_cur - OWN_FDS : files.rlim_cur / 2;
            if (settings->conns > most)
                settings->conns = most;
        }
    }
    config->conns_max = (uint32_t)settings->conns;
    config->peer_conns_max = settings->peer_conns != 0 ? (uint32_t)settings->peer_conns
                                                       : (uint32_t)((settings->conns * 3 + 3) / 4);
    config->slow = TN_SEC(settings->slow);
    config->idle = TN_SEC(settings->idle);
    config->limits.sessions = (uint32_t)settings->sessions;
    config->limits.leases = (uint32_t)settings->leases;
    config->limits.waiters = (uint32_t)settings->waiters;
    config->limits.owners = TN_OWNERS_MAX;
    config->limits.text_bytes = text < UINT32_MAX ? (uint32_t)text : UINT32_MAX - 4096;
    if (config->limits.text_bytes < 1 << 20)
        config->limits.text_bytes = 1 << 20;
    config->fences_max = 1000000;
}

int tn_settings_complete(struct tn_settings *settings)
{
    struct tn_server_config *config = &settings->config;
    bool agent = config->upstream_count > 0;
    int status = -1;

    if (config->socket_group != NULL)
        status = find_group(config);
    if (status < 0)
        status = check_pattern(config);
    if (status < 0)
        status = check_upstream(settings);
    if (status < 0 && settings->only_check)
        status = check_config(config);
    if (status < 0 && config->journal.dir == NULL && !agent)
        status = choose_data(settings);
    if (status < 0 && !settings->has_witness && !agent)
        status = choose_witness(settings);
    if (status < 0 && config->listen_count == 0 && tn_inherited_count() == 0)
        status = choose_socket(settings);
    if (status < 0)
        status = check_circles(settings);
    if (status < 0)
        set_limits(settings);
    return status;
}
