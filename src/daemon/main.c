/* main.c - tenured's command line, and where things are when nobody says.
 *
 * A usage error is one line on stderr and exit status 64, before anything is created. */
#define _GNU_SOURCE
#include <errno.h>
#include <grp.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/duration.h"
#include "base/name.h"
#include "base/number.h"
#include "base/pattern.h"
#include "base/time.h"
#include "core/agent.h"
#include "daemon/server.h"
#include "lib/agent.h"
#include "runtime/notify.h"
#include "runtime/socket_path.h"

enum {
    STATUS_USAGE = 64,
    STATUS_UNAVAILABLE = 69,
    STATUS_DENIED = 77,
};

/* Descriptors that are not for peers: loop, journal, timer, listeners, snapshot. */
#define OWN_FDS 32

static const char usage[] =
    "usage: tenured [OPTIONS]\n"
    "\n"
    "A lease server for hosts without a coordination service. Speaks RESP, the protocol of Redis.\n"
    "\n"
    "  --data DIR             where the journal is (mode 0700)\n"
    "                         [/var/lib/tenured/data; for users ~/.local/state/tenured/data]\n"
    "  --listen unix:PATH     a Unix socket, for this user and root; see --socket-group\n"
    "                         [unix:/run/tenured/tenured.sock; for users in $XDG_RUNTIME_DIR]\n"
    "  --listen tcp:HOST:PORT TCP; may be repeated, and replaces the default socket\n"
    "  --witness PATH|none    the file outside DIR that knows how far the data had come\n"
    "                         [DIR.witness]\n"
    "  --accept-older-data    start although the witness knows of later data\n"
    "  --snapshot-bytes N     a snapshot when the journal has grown so far at least [67108864]\n"
    "  --tls-cert FILE, --tls-key FILE, --tls-ca FILE\n"
    "                         TCP and HTTP speak TLS, with a certificate of this CA from every\n"
    "                         peer, and may be on any address; read again on SIGHUP\n"
    "  --http HOST:PORT       the same over HTTP, with metrics [none]\n"
    "  --metrics-names PATTERN  /metrics has series of these names, of 500 at most [none]\n"
    "  --acl FILE             who may do what over TCP; read again on SIGHUP\n"
    "  --socket-group GROUP   its members may use the Unix sockets, too, but not administer\n"
    "  --log-format FORMAT    of the lines on stderr: text or json [text]\n"
    "  --config FILE          options, one on a line, without the dashes\n"
    "  --check-config         check the options and the files that they name, and end\n"
    "  --new-secret USER      print a secret for the user and the line for that file, and end\n"
    "  --upstream URL         be an agent: the truth is in this store, of which this daemon is "
    "one\n"
    "                         client for all processes of its host. With --data it goes on where\n"
    "                         it was when it is started again; without, nothing is kept on disk\n"
    "  --upstream PREFIX/=URL the same for the names below PREFIX/ only; may be repeated, for a\n"
    "                         cluster in each failure domain\n"
    "  --upstream-ttl D       of the agent's session there [30s]\n"
    "  --max-connections N    [10000]\n"
    "  --max-connections-per-peer N   of one process, or of one address\n"
    "                         [three quarters of those]\n"
    "  --slow-seconds N       a command, or the first one, must have arrived by then [30]\n"
    "  --idle-seconds N       a silent peer that waits for nothing is cut off [600]\n"
    "  --max-sessions N       [200000]\n"
    "  --max-leases N         [2000000]\n"
    "  --max-waiters N        [200000]\n"
    "  -h, --help, -V, --version\n";

struct settings {
    struct tn_server_config config;
    uint64_t sessions, leases, waiters, conns, peer_conns, slow, idle;
    char data[512], witness[540], socket[100], url[140];
    char prefixes[TN_UPSTREAMS_MAX][TN_UPSTREAM_PREFIX_MAX + 1];
    bool has_witness, only_check;
};

/* What is being read: a line of a file; NULL: the command line. */
static struct {
    const char *file;
    unsigned line;
} place;

static int bad(const char *format, const char *word)
{
    char shown[300];
    struct tn_text text;

    tn_text_init(&text, shown, sizeof shown);
    tn_text_escape(&text, word, strlen(word));
    (void)fprintf(stderr, "tenured: ");
    if (place.file != NULL) {
        char path[200];
        struct tn_text path_text;
        tn_text_init(&path_text, path, sizeof path);
        tn_text_escape(&path_text, place.file, strlen(place.file));
        (void)fprintf(stderr, "%s:%u: ", path, place.line);
    }
    (void)fprintf(stderr, format, shown);
    (void)fprintf(stderr, "; see tenured --help\n");
    return STATUS_USAGE;
}

/* --- Options ---------------------------------------------------------------------------------- */

static uint64_t *number_of(struct settings *settings, const char *option)
{
    if (strcmp(option, "--snapshot-bytes") == 0)
        return &settings->config.journal.snapshot_bytes;
    if (strcmp(option, "--max-connections") == 0)
        return &settings->conns;
    if (strcmp(option, "--max-connections-per-peer") == 0)
        return &settings->peer_conns;
    if (strcmp(option, "--slow-seconds") == 0)
        return &settings->slow;
    if (strcmp(option, "--idle-seconds") == 0)
        return &settings->idle;
    if (strcmp(option, "--max-sessions") == 0)
        return &settings->sessions;
    if (strcmp(option, "--max-leases") == 0)
        return &settings->leases;
    if (strcmp(option, "--max-waiters") == 0)
        return &settings->waiters;
    return NULL;
}

/* What is only kept. */
static const char **path_of(struct tn_server_config *config, const char *option)
{
    const struct {
        const char *name;
        const char **value;
    } list[] = {
        { "--data", &config->journal.dir },
        { "--http", &config->http },
        { "--acl", &config->acl },
        { "--tls-cert", &config->tls_cert },
        { "--tls-key", &config->tls_key },
        { "--tls-ca", &config->tls_ca },
        { "--socket-group", &config->socket_group },
        { "--metrics-names", &config->metrics_names },
    };

    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++)
        if (strcmp(option, list[i].name) == 0)
            return list[i].value;
    return NULL;
}

static int print_secret(const char *user)
{
    char secret[40];
    char line[200];
    struct tn_text secret_text;
    struct tn_text line_text;

    tn_text_init(&secret_text, secret, sizeof secret);
    tn_text_init(&line_text, line, sizeof line);
    if (tn_acl_new_secret(user, &secret_text, &line_text) != 0)
        return bad("'%s' is no name for a user: 1 to 32 letters, digits and . _ ~ : @ -", user);
    (void)printf("the user's secret, shown once: %s\nfor the ACL file: %s\n", secret, line);
    return 0;
}

static int check_address(const char *where, const char *address)
{
    struct sockaddr_storage parsed;

    if (tn_parse_address(address, &parsed))
        return -1;
    return bad("'%s' has no address and port, as 127.0.0.1:7420 has", where);
}

static int check_listen(const char *where)
{
    if (strncmp(where, "tcp:", 4) == 0)
        return check_address(where, where + 4);
    if (strncmp(where, "unix:/", 6) != 0)
        return bad("'%s' is neither unix:/PATH nor tcp:HOST:PORT", where);
    if (strlen(where + 5) < sizeof((struct sockaddr_un *)NULL)->sun_path)
        return -1;
    return bad("'%s': the path of a socket has at most 107 characters", where);
}

/* "eu/": whole segments, and not those of operators' notes. */
static bool is_prefix(const char *text, size_t len)
{
    return len > 1 && len <= TN_UPSTREAM_PREFIX_MAX && text[len - 1] == '/' &&
           tn_name_check(text, len - 1, NULL) == 0 && strncmp(text, "~tenure/", 8) != 0;
}

/* [PREFIX/=]URL. A URL has a ":" before any "=". */
static int take_upstream(struct settings *settings, const char *value)
{
    struct tn_server_config *config = &settings->config;
    uint32_t index = config->upstream_count;
    const char *sign = strchr(value, '=');
    size_t len = sign != NULL ? (size_t)(sign - value) : 0;
    bool below = sign != NULL && (strcspn(value, ":") > len || is_prefix(value, len));

    if (index == TN_UPSTREAMS_MAX)
        return bad("too many --upstream at '%s'", value);
    if (below && !is_prefix(value, len))
        return bad("--upstream: what stands before the '=' of '%s' is no prefix of names, as eu/ "
                   "is",
                   value);
    char *prefix = settings->prefixes[index];
    if (below)
        memcpy(prefix, value, len);
    prefix[below ? len : 0] = 0;
    for (uint32_t i = 0; i < index; i++)
        if (strcmp(config->upstreams[i].prefix, prefix) == 0)
            return bad(below ? "--upstream: %s has one already"
                             : "--upstream: all other names have one already, not also '%s'",
                       below ? prefix : value);
    config->upstreams[index].prefix = prefix;
    config->upstreams[index].url = below ? sign + 1 : value;
    config->upstream_count++;
    return -1;
}

/* Returns -1 to go on, or an exit status. */
static int take_value(struct settings *settings, const char *option, const char *value)
{
    struct tn_server_config *config = &settings->config;
    uint64_t *number = number_of(settings, option);

    if (number != NULL) {
        if (tn_u64_parse(value, number) != 0 || *number == 0 || *number > UINT32_MAX / 2)
            return bad("'%s' is not a number from 1 to 2147483647", value);
    } else if (strcmp(option, "--new-secret") == 0) {
        return print_secret(value);
    } else if (path_of(config, option) != NULL) {
        *path_of(config, option) = value;
        return strcmp(option, "--http") == 0 ? check_address(value, value) : -1;
    } else if (strcmp(option, "--log-format") == 0) {
        if (strcmp(value, "text") != 0 && strcmp(value, "json") != 0)
            return bad("--log-format: '%s' is neither text nor json", value);
        config->log_json = strcmp(value, "json") == 0;
    } else if (strcmp(option, "--upstream-ttl") == 0) {
        if (tn_duration_parse(value, &config->upstream_ttl) != 0 ||
            config->upstream_ttl < TN_SEC(3) || config->upstream_ttl > TN_SEC(24 * 3600))
            return bad("--upstream-ttl: '%s' is not a duration from 3s to 24h", value);
    } else if (strcmp(option, "--upstream") == 0) {
        return take_upstream(settings, value);
    } else if (strcmp(option, "--witness") == 0) {
        settings->has_witness = true;
        config->journal.witness = strcmp(value, "none") == 0 ? NULL : value;
    } else if (config->listen_count == TN_LISTENERS_MAX) {
        return bad("too many --listen at '%s'", value);
    } else {
        config->listen[config->listen_count++] = value;
        return check_listen(value);
    }
    return -1;
}

static bool has_value(struct settings *settings, const char *option)
{
    return strcmp(option, "--listen") == 0 || strcmp(option, "--witness") == 0 ||
           strcmp(option, "--log-format") == 0 || strcmp(option, "--upstream-ttl") == 0 ||
           strcmp(option, "--upstream") == 0 || path_of(&settings->config, option) != NULL ||
           number_of(settings, option) != NULL;
}

/* "option value", or nothing but a comment. */
static int take_line(struct settings *settings, char *line)
{
    static const char blanks[] = " \t\r\n";
    char option[64];
    char *end = line + strlen(line);

    while (end > line && strchr(blanks, end[-1]) != NULL)
        *--end = 0;
    line += strspn(line, blanks);
    if (*line == 0 || *line == '#')
        return -1;
    size_t len = strcspn(line, blanks);
    char *value = line + len + strspn(line + len, blanks);
    (void)snprintf(option, sizeof option, "--%.*s", (int)len, line);
    if (len >= sizeof option - 2 || !has_value(settings, option))
        return bad("there is no option '%s' for a file", option);
    if (*value == 0)
        return bad("%s needs a value", option + 2);
    return take_value(settings, option, value);
}

/* Options, one on a line, as if they stood in the place of --config. */
static int take_file(struct settings *settings, const char *path)
{
    static char text[64 * 1024]; /* The options point into it. */
    FILE *file = text[0] == 0 ? fopen(path, "re") : NULL;
    int status = -1;

    if (text[0] != 0)
        return bad("there is only one --config; not '%s'", path);
    if (file == NULL)
        return bad(errno == ENOENT ? "there is no file '%s'" : "the file '%s' cannot be read",
                   path);
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    bool whole = feof(file) != 0 && ferror(file) == 0;
    (void)fclose(file);
    if (!whole)
        return bad("the file '%s' is too long, or cannot be read", path);
    place.file = path;
    for (char *line = text; status < 0 && line != NULL;) {
        char *end = strchr(line, '\n');
        if (end != NULL)
            *end = 0;
        place.line++;
        status = take_line(settings, line);
        line = end != NULL ? end + 1 : NULL;
    }
    place.file = NULL;
    return status;
}

static int take_options(struct settings *settings, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        const char *option = argv[i];
        if (strcmp(option, "--help") == 0 || strcmp(option, "-h") == 0) {
            (void)fputs(usage, stdout);
            return 0;
        }
        if (strcmp(option, "--version") == 0 || strcmp(option, "-V") == 0) {
            (void)puts("tenured " TENURE_VERSION);
            return 0;
        }
        if (strcmp(option, "--check-config") == 0) {
            settings->only_check = true;
            continue;
        }
        if (strcmp(option, "--accept-older-data") == 0) {
            settings->config.journal.accept_older = true;
            continue;
        }
        if (strcmp(option, "--config") != 0 && strcmp(option, "--new-secret") != 0 &&
            !has_value(settings, option))
            return bad(option[0] == '-' ? "there is no option '%s'"
                                        : "'%s' is no option, and nothing else is taken",
                       option);
        if (i + 1 == argc || argv[i + 1][0] == 0)
            return bad("%s needs a value", option);
        i++;
        int status = strcmp(option, "--config") == 0 ? take_file(settings, argv[i])
                                                     : take_value(settings, option, argv[i]);
        if (status >= 0)
            return status;
    }
    return -1;
}

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

static int choose_data(struct settings *settings)
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
        return bad("%s is not set; give --data", "HOME");
    if (len < 0 || (size_t)len >= sizeof settings->data)
        return bad("%s is too long; give --data", "HOME");
    make_folders(settings->data);
    settings->config.journal.dir = settings->data;
    return -1;
}

/* An agent that asks itself waits for ever. Longer circles are not seen here. "unix:" is the socket
 * where it listens unless it is told where. */
static int check_circle(const struct settings *settings, const char *upstream)
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
            return bad("--upstream: %s is where this agent listens itself", listen);
    }
    return -1;
}

static int check_circles(const struct settings *settings)
{
    int status = -1;

    for (uint32_t i = 0; status < 0 && i < settings->config.upstream_count; i++)
        status = check_circle(settings, settings->config.upstreams[i].url);
    return status;
}

/* The folder of the default socket must be this user's alone: who can write there could put
 * another socket in its place. */
static int choose_socket(struct settings *settings)
{
    char *folder = settings->socket;
    struct stat st;

    if (!tn_socket_folder(folder, sizeof settings->socket - sizeof TN_SOCKET_NAME - 1))
        return bad("%s is too long; give --listen", "XDG_RUNTIME_DIR");
    if ((mkdir(folder, 0700) != 0 && errno != EEXIST) || lstat(folder, &st) != 0) {
        tn_log("%s: %s; give --listen", folder, strerror(errno));
        return STATUS_UNAVAILABLE;
    }
    if (!S_ISDIR(st.st_mode) || st.st_uid != geteuid() || (st.st_mode & 077) != 0) {
        tn_log("%s: is not a directory of this user with mode 0700; give --listen", folder);
        return STATUS_DENIED;
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
        return bad("there is no group '%s'", config->socket_group);
    return -1;
}

static int choose_witness(struct settings *settings)
{
    const char *dir = settings->config.journal.dir;
    size_t len = strlen(dir);

    while (len > 1 && dir[len - 1] == '/')
        len--;
    if (len >= sizeof settings->witness - 10)
        return bad("the path '%s' is too long", dir);
    (void)snprintf(settings->witness, sizeof settings->witness, "%.*s.witness", (int)len, dir);
    settings->config.journal.witness = settings->witness;
    return -1;
}

/* As many descriptors as we may have; connections beyond that are refused with a line. */
static void set_limits(struct settings *settings)
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

/* --- Checking --------------------------------------------------------------------------------- */

static int check_pattern(const struct tn_server_config *config)
{
    const char *reason;

    if (config->metrics_names == NULL || tn_pattern_check(config->metrics_names, &reason))
        return -1;
    return bad("--metrics-names: '%s' is not a pattern, as 'jobs/*' is", config->metrics_names);
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
            return bad("--upstream: the names below %s are below another --upstream with the same "
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
    return rc == TENURE_E_INVALID ? STATUS_USAGE : STATUS_UNAVAILABLE;
}

/* An agent's truth is upstream. What it keeps itself is for its next start on the same boot. */
static int check_upstream(struct settings *settings)
{
    struct tn_server_config *config = &settings->config;

    int status = -1;

    if (config->upstream_count == 0)
        return config->upstream_ttl == 0 ? -1 : bad("%s needs --upstream", "--upstream-ttl");
    if (settings->has_witness || config->journal.accept_older)
        return bad("%s excludes --witness and --accept-older-data", "--upstream");
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
        return bad("'%s' can be reached from other hosts; give --tls-cert, --tls-key and --tls-ca",
                   where);
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
        return STATUS_USAGE;
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

/* --- Running ---------------------------------------------------------------------------------- */

static int status_of(int rc)
{
    switch (rc) {
    case TENURE_E_INVALID:
        return STATUS_USAGE;
    case TENURE_E_DENIED:
        return STATUS_DENIED;
    default:
        return STATUS_UNAVAILABLE;
    }
}

static void say_ready(const struct tn_server *server)
{
    char line[1024];
    struct tn_text text;

    tn_text_init(&text, line, sizeof line);
    tn_text_add(&text, "tenured ready on");
    for (uint32_t i = 0; i < server->listener_count; i++) {
        if (server->listeners[i].http)
            continue;
        tn_text_add(&text, i > 0 ? ", " : " ");
        tn_listener_name(&server->listeners[i], &text);
    }
    if (tn_http_port(server) != 0)
        tn_text_addf(&text, ", http:%d", tn_http_port(server));
    (void)tn_notify("READY=1");
    struct pollfd room = { .fd = STDOUT_FILENO, .events = POLLOUT };
    if (poll(&room, 1, 0) == 0) {
        tn_log("stdout is not read, so the line that begins \"tenured ready\" is left out");
        return; /* Holders wait for their renewals. */
    }
    (void)puts(line);
    (void)fflush(stdout);
}

static int serve(const struct tn_server_config *config)
{
    struct tn_server *server = calloc(1, sizeof *server);
    char line[450];
    struct tn_text err;
    int status;

    if (server == NULL)
        return STATUS_UNAVAILABLE;
    tn_text_init(&err, line, sizeof line);
    tn_log_open(config->log_json);
    int rc = tn_server_open(server, config, &err);
    if (rc == 0) {
        say_ready(server);
        status = tn_server_run(server);
        tn_server_close(server);
    } else {
        tn_log_error("%s", line[0] != 0 ? line : tenure_strerror(rc));
        status = status_of(rc);
    }
    if (tn_agent_left_open(server)) { /* No cleaning up under a thread that runs. */
        tn_log_finish();
        _exit(status);
    }
    free(server);
    tn_log_finish();
    return status;
}

int main(int argc, char **argv)
{
    static struct settings settings;

    settings.config.journal.snapshot_bytes = 64 << 20;
    settings.sessions = settings.waiters = 200000;
    settings.leases = 2000000;
    settings.conns = 10000;
    settings.slow = 30;
    settings.idle = 600;
    int status = take_options(&settings, argc, argv);
    if (status < 0 && settings.config.socket_group != NULL)
        status = find_group(&settings.config);
    if (status < 0)
        status = check_pattern(&settings.config);
    if (status < 0)
        status = check_upstream(&settings);
    if (status < 0 && settings.only_check)
        status = check_config(&settings.config);
    bool agent = settings.config.upstream_count > 0;
    if (status < 0 && settings.config.journal.dir == NULL && !agent)
        status = choose_data(&settings);
    if (status < 0 && !settings.has_witness && !agent)
        status = choose_witness(&settings);
    if (status < 0 && settings.config.listen_count == 0 && tn_inherited_count() == 0)
        status = choose_socket(&settings);
    if (status < 0)
        status = check_circles(&settings);
    if (status >= 0)
        return status;
    set_limits(&settings);
    return serve(&settings.config);
}
