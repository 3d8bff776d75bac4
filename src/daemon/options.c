/* options.c - tenured's command line, and the same options in a file. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#include "base/duration.h"
#include "base/name.h"
#include "base/number.h"
#include "daemon/settings.h"

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

/* What is being read: a line of a file; NULL: the command line. */
static struct {
    const char *file;
    unsigned line;
} place;

int tn_option_bad(const char *format, const char *word)
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
    return TN_STATUS_USAGE;
}

static uint64_t *number_of(struct tn_settings *settings, const char *option)
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
        return tn_option_bad("'%s' is no name for a user: 1 to 32 letters, digits and . _ ~ : @ -",
                             user);
    (void)printf("the user's secret, shown once: %s\nfor the ACL file: %s\n", secret, line);
    return 0;
}

static int check_address(const char *where, const char *address)
{
    struct sockaddr_storage parsed;

    if (tn_parse_address(address, &parsed))
        return -1;
    return tn_option_bad("'%s' has no address and port, as 127.0.0.1:7420 has", where);
}

static int check_listen(const char *where)
{
    if (strncmp(where, "tcp:", 4) == 0)
        return check_address(where, where + 4);
    if (strncmp(where, "unix:/", 6) != 0)
        return tn_option_bad("'%s' is neither unix:/PATH nor tcp:HOST:PORT", where);
    if (strlen(where + 5) < sizeof((struct sockaddr_un *)NULL)->sun_path)
        return -1;
    return tn_option_bad("'%s': the path of a socket has at most 107 characters", where);
}

/* "eu/": whole segments, and not those of operators' notes. */
static bool is_prefix(const char *text, size_t len)
{
    return len > 1 && len <= TN_UPSTREAM_PREFIX_MAX && text[len - 1] == '/' &&
           tn_name_check(text, len - 1, NULL) == 0 && strncmp(text, "~tenure/", 8) != 0;
}

/* [PREFIX/=]URL. A URL has a ":" before any "=". */
static int take_upstream(struct tn_settings *settings, const char *value)
{
    struct tn_server_config *config = &settings->config;
    uint32_t index = config->upstream_count;
    const char *sign = strchr(value, '=');
    size_t len = sign != NULL ? (size_t)(sign - value) : 0;
    bool below = sign != NULL && (strcspn(value, ":") > len || is_prefix(value, len));

    if (index == TN_UPSTREAMS_MAX)
        return tn_option_bad("too many --upstream at '%s'", value);
    if (below && !is_prefix(value, len))
        return tn_option_bad(
            "--upstream: what stands before the '=' of '%s' is no prefix of names, as eu/ "
            "is",
            value);
    char *prefix = settings->prefixes[index];
    if (below)
        memcpy(prefix, value, len);
    prefix[below ? len : 0] = 0;
    for (uint32_t i = 0; i < index; i++)
        if (strcmp(config->upstreams[i].prefix, prefix) == 0)
            return tn_option_bad(
                below ? "--upstream: %s has one already"
                      : "--upstream: all other names have one already, not also '%s'",
                below ? prefix : value);
    config->upstreams[index].prefix = prefix;
    config->upstreams[index].url = below ? sign + 1 : value;
    config->upstream_count++;
    return -1;
}

/* Returns -1 to go on, or an exit status. */
static int take_value(struct tn_settings *settings, const char *option, const char *value)
{
    struct tn_server_config *config = &settings->config;
    uint64_t *number = number_of(settings, option);

    if (number != NULL) {
        if (tn_u64_parse(value, number) != 0 || *number == 0 || *number > UINT32_MAX / 2)
            return tn_option_bad("'%s' is not a number from 1 to 2147483647", value);
    } else if (strcmp(option, "--new-secret") == 0) {
        return print_secret(value);
    } else if (path_of(config, option) != NULL) {
        *path_of(config, option) = value;
        return strcmp(option, "--http") == 0 ? check_address(value, value) : -1;
    } else if (strcmp(option, "--log-format") == 0) {
        if (strcmp(value, "text") != 0 && strcmp(value, "json") != 0)
            return tn_option_bad("--log-format: '%s' is neither text nor json", value);
        config->log_json = strcmp(value, "json") == 0;
    } else if (strcmp(option, "--upstream-ttl") == 0) {
        if (tn_duration_parse(value, &config->upstream_ttl) != 0 ||
            config->upstream_ttl < TN_SEC(3) || config->upstream_ttl > TN_SEC(24 * 3600))
            return tn_option_bad("--upstream-ttl: '%s' is not a duration from 3s to 24h", value);
    } else if (strcmp(option, "--upstream") == 0) {
        return take_upstream(settings, value);
    } else if (strcmp(option, "--witness") == 0) {
        settings->has_witness = true;
        config->journal.witness = strcmp(value, "none") == 0 ? NULL : value;
    } else if (config->listen_count == TN_LISTENERS_MAX) {
        return tn_option_bad("too many --listen at '%s'", value);
    } else {
        config->listen[config->listen_count++] = value;
        return check_listen(value);
    }
    return -1;
}

static bool has_value(struct tn_settings *settings, const char *option)
{
    return strcmp(option, "--listen") == 0 || strcmp(option, "--witness") == 0 ||
           strcmp(option, "--log-format") == 0 || strcmp(option, "--upstream-ttl") == 0 ||
           strcmp(option, "--upstream") == 0 || path_of(&settings->config, option) != NULL ||
           number_of(settings, option) != NULL;
}

/* "option value", or nothing but a comment. */
static int take_line(struct tn_settings *settings, char *line)
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
        return tn_option_bad("there is no option '%s' for a file", option);
    if (*value == 0)
        return tn_option_bad("%s needs a value", option + 2);
    return take_value(settings, option, value);
}

/* Options, one on a line, as if they stood in the place of --config. */
static int take_file(struct tn_settings *settings, const char *path)
{
    static char text[64 * 1024]; /* The options point into it. */
    FILE *file = text[0] == 0 ? fopen(path, "re") : NULL;
    int status = -1;

    if (text[0] != 0)
        return tn_option_bad("there is only one --config; not '%s'", path);
    if (file == NULL)
        return tn_option_bad(
            errno == ENOENT ? "there is no file '%s'" : "the file '%s' cannot be read", path);
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    bool whole = feof(file) != 0 && ferror(file) == 0;
    (void)fclose(file);
    if (!whole)
        return tn_option_bad("the file '%s' is too long, or cannot be read", path);
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

int tn_settings_take(struct tn_settings *settings, int argc, char **argv)
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
            return tn_option_bad(option[0] == '-' ? "there is no option '%s'"
                                                  : "'%s' is no option, and nothing else is taken",
                                 option);
        if (i + 1 == argc || argv[i + 1][0] == 0)
            return tn_option_bad("%s needs a value", option);
        i++;
        int status = strcmp(option, "--config") == 0 ? take_file(settings, argv[i])
                                                     : take_value(settings, option, argv[i]);
        if (status >= 0)
            return status;
    }
    return -1;
}
