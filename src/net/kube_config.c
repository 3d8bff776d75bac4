/* kube_config.c - reads kubeconfig files with libyaml, and a pod's service account.
 *
 * Happy path: each file becomes a tree of nodes; the context names a cluster and a user, which are
 * looked up in all files; their members are copied. What can fail: a file that cannot be read, is
 * no YAML, or names what is nowhere; a member that this client does not support. */
#define _GNU_SOURCE
#include "net/kube_config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <yaml.h>

#include "base/base64.h"
#include "base/net_url.h"

#define POD "/var/run/secrets/kubernetes.io/serviceaccount"

enum { FILES_MAX = 16 };

struct kube_file {
    char *path;
    yaml_document_t tree;
    bool read;
};

struct kube_files {
    struct kube_file all[FILES_MAX];
    unsigned count;
    struct tn_text *reterr;
    int rc; /* The first thing that went wrong. */
};

__attribute__((format(printf, 2, 3))) static int refuse_config(struct kube_files *files,
                                                               const char *format, ...)
{
    char line[TN_ERROR_TEXT];
    va_list args;

    if (files->rc != 0)
        return files->rc;
    va_start(args, format);
    (void)vsnprintf(line, sizeof line, format, args);
    va_end(args);
    tn_text_add(files->reterr, "kubernetes: ");
    tn_text_add_line(files->reterr, line, strlen(line));
    return files->rc = TENURE_E_INVALID;
}

char *tn_kube_read_file(const char *path, size_t *ret_len)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat facts;
    char *bytes = NULL;
    size_t len = 0;

    if (fd < 0)
        return NULL;
    if (fstat(fd, &facts) != 0)
        goto out;
    if (!S_ISREG(facts.st_mode)) {
        errno = EINVAL; /* A pipe could keep us waiting for ever. */
        goto out;
    }
    bytes = malloc(TN_KUBE_FILE_MAX + 1);
    while (bytes != NULL) {
        ssize_t got = read(fd, bytes + len, TN_KUBE_FILE_MAX + 1 - len);
        if (got < 0 && errno == EINTR)
            continue;
        if (got > 0 && (len += (size_t)got) <= TN_KUBE_FILE_MAX)
            continue;
        if (got != 0) {
            errno = got > 0 ? EFBIG : errno;
            free(bytes);
            bytes = NULL;
            break;
        }
        bytes[len] = '\0';
        *ret_len = len;
        break;
    }
out:
    (void)close(fd);
    return bytes;
}

/* --- Nodes ------------------------------------------------------------------------------------ */

static yaml_node_t *member(struct kube_file *file, yaml_node_t *node, const char *key)
{
    if (node == NULL || node->type != YAML_MAPPING_NODE)
        return NULL;
    for (yaml_node_pair_t *pair = node->data.mapping.pairs.start;
         pair < node->data.mapping.pairs.top; pair++) {
        yaml_node_t *at = yaml_document_get_node(&file->tree, pair->key);
        if (at != NULL && at->type == YAML_SCALAR_NODE &&
            strcmp((const char *)at->data.scalar.value, key) == 0)
            return yaml_document_get_node(&file->tree, pair->value);
    }
    return NULL;
}

/* A member's text; NULL: it is not there, or null, or empty. */
static const char *text_of(struct kube_files *files, struct kube_file *file, yaml_node_t *node,
                           const char *key)
{
    yaml_node_t *value = member(file, node, key);

    if (value == NULL)
        return NULL;
    if (value->type != YAML_SCALAR_NODE ||
        strlen((const char *)value->data.scalar.value) != value->data.scalar.length) {
        (void)refuse_config(files, "%s: '%s' is not a text", file->path, key);
        return NULL;
    }
    const char *text = (const char *)value->data.scalar.value;
    bool plain = value->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    return text[0] == '\0' || (plain && (strcmp(text, "null") == 0 || strcmp(text, "~") == 0))
               ? NULL
               : text;
}

static void copy_text(struct kube_files *files, char **ret_copy, const char *text)
{
    if (text != NULL && *ret_copy == NULL && (*ret_copy = strdup(text)) == NULL)
        files->rc = TENURE_E_NOMEM;
}

/* A path beside the file that names it. */
static void copy_path(struct kube_files *files, const struct kube_file *file, char **ret_copy,
                      const char *path)
{
    const char *slash = strrchr(file->path, '/');

    if (path == NULL || path[0] == '/' || slash == NULL)
        copy_text(files, ret_copy, path);
    else if (*ret_copy == NULL &&
             asprintf(ret_copy, "%.*s/%s", (int)(slash - file->path), file->path, path) < 0)
        files->rc = TENURE_E_NOMEM;
}

/* KEY holds a path, KEY-data its content in base64, which counts if both are given. */
static void copy_pem(struct kube_files *files, struct kube_file *file, yaml_node_t *node,
                     const char *key, char **ret_file, char **ret_pem)
{
    char data_key[64];
    size_t len;

    (void)snprintf(data_key, sizeof data_key, "%s-data", key);
    const char *data = text_of(files, file, node, data_key);
    if (data == NULL) {
        copy_path(files, file, ret_file, text_of(files, file, node, key));
        return;
    }
    *ret_pem = tn_base64_decode(data, strlen(data), &len);
    if (*ret_pem == NULL || strlen(*ret_pem) != len)
        (void)refuse_config(files, "%s: '%s' is not base64", file->path, data_key);
}

/* The entry of that name in the list @kind of any file, its member @inner; and the file. */
static yaml_node_t *find_entry(struct kube_files *files, const char *kind, const char *inner,
                               const char *name, struct kube_file **ret_file)
{
    for (unsigned i = 0; i < files->count; i++) {
        struct kube_file *file = &files->all[i];
        yaml_node_t *list = member(file, yaml_document_get_root_node(&file->tree), kind);
        if (list == NULL || list->type != YAML_SEQUENCE_NODE)
            continue;
        for (yaml_node_item_t *item = list->data.sequence.items.start;
             item < list->data.sequence.items.top; item++) {
            yaml_node_t *entry = yaml_document_get_node(&file->tree, *item);
            const char *found = text_of(files, file, entry, "name");
            if (found != NULL && strcmp(found, name) == 0) {
                *ret_file = file;
                return member(file, entry, inner);
            }
        }
    }
    return NULL;
}

/* --- A context -------------------------------------------------------------------------------- */

static void refuse_unsupported(struct kube_files *files, struct kube_file *file, yaml_node_t *node,
                               const char *const *keys)
{
    for (; *keys != NULL; keys++) {
        yaml_node_t *value = member(file, node, *keys);
        if (value == NULL || (value->type == YAML_SCALAR_NODE &&
                              (strcmp((const char *)value->data.scalar.value, "false") == 0 ||
                               value->data.scalar.length == 0)))
            continue;
        (void)refuse_config(files, "%s: '%s' is not supported; use another context", file->path,
                            *keys);
    }
}

static void take_cluster(struct kube_files *files, struct tn_kube_config *config, const char *name)
{
    static const char *const unsupported[] = { "insecure-skip-tls-verify", "tls-server-name",
                                               "proxy-url", NULL };
    struct kube_file *file;
    yaml_node_t *cluster = find_entry(files, "clusters", "cluster", name, &file);

    if (cluster == NULL) {
        (void)refuse_config(files, "the configuration has no cluster '%s'", name);
        return;
    }
    refuse_unsupported(files, file, cluster, unsupported);
    const char *server = text_of(files, file, cluster, "server");
    if (server == NULL ||
        (strncmp(server, "https://", 8) != 0 && strncmp(server, "http://", 7) != 0)) {
        (void)refuse_config(files, "%s: cluster '%s' has no server https://HOST:PORT", file->path,
                            name);
        return;
    }
    copy_text(files, &config->server, server);
    for (size_t len = config->server != NULL ? strlen(config->server) : 0;
         len > 0 && config->server[len - 1] == '/'; len--)
        config->server[len - 1] = '\0';
    copy_pem(files, file, cluster, "certificate-authority", &config->ca_file, &config->ca_pem);
}

static void take_exec_words(struct kube_files *files, struct kube_file *file, yaml_node_t *list,
                            bool pairs, char **ret_words)
{
    unsigned count = 0;

    if (list == NULL || list->type != YAML_SEQUENCE_NODE)
        return;
    for (yaml_node_item_t *item = list->data.sequence.items.start;
         item < list->data.sequence.items.top && files->rc == 0; item++) {
        yaml_node_t *word = yaml_document_get_node(&file->tree, *item);
        const char *name = pairs ? text_of(files, file, word, "name") : "";
        const char *value = pairs                            ? text_of(files, file, word, "value")
                            : word->type == YAML_SCALAR_NODE ? (const char *)word->data.scalar.value
                                                             : NULL;
        if (count == TN_KUBE_WORDS_MAX || name == NULL || (value == NULL && !pairs))
            (void)refuse_config(files, "%s: malformed 'args' or 'env' of a plug-in", file->path);
        else if (asprintf(&ret_words[count++], "%s%s%s", name, pairs ? "=" : "",
                          value != NULL ? value : "") < 0)
            files->rc = TENURE_E_NOMEM;
    }
}

static void take_exec(struct kube_files *files, struct tn_kube_config *config,
                      struct kube_file *file, yaml_node_t *exec)
{
    static const char *const unsupported[] = { "provideClusterInfo", NULL };
    const char *command = text_of(files, file, exec, "command");
    const char *version = text_of(files, file, exec, "apiVersion");
    const char *mode = text_of(files, file, exec, "interactiveMode");

    refuse_unsupported(files, file, exec, unsupported);
    if (command == NULL || version == NULL ||
        strncmp(version, "client.authentication.k8s.io/v1", 31) != 0)
        (void)refuse_config(files,
                            "%s: the plug-in needs a command and the apiVersion "
                            "client.authentication.k8s.io/v1 or v1beta1",
                            file->path);
    else if (mode != NULL && strcmp(mode, "Always") == 0)
        (void)refuse_config(files, "%s: the plug-in '%s' wants to ask a person", file->path,
                            command);
    if (files->rc != 0)
        return;
    if (strchr(command, '/') != NULL) /* Otherwise it is looked for in PATH. */
        copy_path(files, file, &config->exec_command, command);
    else
        copy_text(files, &config->exec_command, command);
    copy_text(files, &config->exec_version, version);
    take_exec_words(files, file, member(file, exec, "args"), false, config->exec_args);
    take_exec_words(files, file, member(file, exec, "env"), true, config->exec_env);
}

static void take_user(struct kube_files *files, struct tn_kube_config *config, const char *name)
{
    static const char *const unsupported[] = { "auth-provider", "username",      "as", "as-uid",
                                               "as-groups",     "as-user-extra", NULL };
    struct kube_file *file;
    yaml_node_t *user = find_entry(files, "users", "user", name, &file);

    if (user == NULL) {
        (void)refuse_config(files, "the configuration has no user '%s'", name);
        return;
    }
    refuse_unsupported(files, file, user, unsupported);
    copy_pem(files, file, user, "client-certificate", &config->cert_file, &config->cert_pem);
    copy_pem(files, file, user, "client-key", &config->key_file, &config->key_pem);
    copy_path(files, file, &config->token_file, text_of(files, file, user, "tokenFile"));
    if (config->token_file == NULL)
        copy_text(files, &config->token, text_of(files, file, user, "token"));
    yaml_node_t *exec = member(file, user, "exec");
    if (exec != NULL && exec->type == YAML_MAPPING_NODE)
        take_exec(files, config, file, exec);
}

static void take_context(struct kube_files *files, struct tn_kube_config *config, const char *name)
{
    struct kube_file *file;

    for (unsigned i = 0; i < files->count && (name == NULL || name[0] == '\0'); i++)
        name = text_of(files, &files->all[i], yaml_document_get_root_node(&files->all[i].tree),
                       "current-context");
    if (files->rc != 0)
        return;
    if (name == NULL || name[0] == '\0') {
        (void)refuse_config(files, "%s has no current-context; add ?context=NAME to the URL",
                            files->all[0].path);
        return;
    }
    yaml_node_t *context = find_entry(files, "contexts", "context", name, &file);
    const char *cluster = context != NULL ? text_of(files, file, context, "cluster") : NULL;
    const char *user = context != NULL ? text_of(files, file, context, "user") : NULL;
    if (cluster == NULL) {
        (void)refuse_config(files,
                            "the configuration has no context '%s' with a cluster; "
                            "'kubectl config get-contexts' lists them",
                            name);
        return;
    }
    if (asprintf(&config->origin, "context '%s' of %s", name, file->path) < 0)
        files->rc = TENURE_E_NOMEM;
    copy_text(files, &config->namespace, text_of(files, file, context, "namespace"));
    take_cluster(files, config, cluster);
    if (user != NULL)
        take_user(files, config, user);
}

/* --- Files ------------------------------------------------------------------------------------ */

/* A file of a list may be missing, as with kubectl. */
static void add_file(struct kube_files *files, const char *path, size_t len, bool optional)
{
    struct kube_file *file = &files->all[files->count];
    yaml_parser_t parser;
    size_t size = 0;

    if (len == 0 || files->rc != 0)
        return;
    if (files->count == FILES_MAX) {
        (void)refuse_config(files, "KUBECONFIG names more than %d files", FILES_MAX);
        return;
    }
    char *name = strndup(path, len);
    char *bytes = name != NULL ? tn_kube_read_file(name, &size) : NULL;
    if (bytes == NULL) {
        if (name == NULL)
            files->rc = TENURE_E_NOMEM;
        else if (!optional || errno != ENOENT)
            (void)refuse_config(files, "cannot read %s: %s", name, strerror(errno));
        free(name);
        return;
    }
    file->path = name;
    files->count++;
    if (yaml_parser_initialize(&parser) == 0) {
        files->rc = TENURE_E_NOMEM;
        free(bytes);
        return;
    }
    yaml_parser_set_input_string(&parser, (const unsigned char *)bytes, size);
    file->read = yaml_parser_load(&parser, &file->tree) != 0;
    if (!file->read)
        (void)refuse_config(files, "%s: line %zu: %s", name, parser.problem_mark.line + 1,
                            parser.problem != NULL ? parser.problem : "no YAML");
    yaml_parser_delete(&parser);
    explicit_bzero(bytes, size);
    free(bytes);
}

static void add_files(struct kube_files *files, const char *given)
{
    const char *list = getenv("KUBECONFIG");
    const char *home = getenv("HOME");
    char path[4096];

    if (given != NULL && given[0] != '\0') {
        add_file(files, given, strlen(given), false);
    } else if (list != NULL && list[0] != '\0') {
        for (size_t len; *list != '\0'; list += len + (list[len] == ':')) {
            len = strcspn(list, ":");
            add_file(files, list, len, true);
        }
        if (files->count == 0)
            (void)refuse_config(files, "no file of KUBECONFIG exists");
    } else if (home != NULL && home[0] != '\0') {
        (void)snprintf(path, sizeof path, "%s/.kube/config", home);
        add_file(files, path, strlen(path), true);
    }
}

static void take_pod(struct kube_files *files, struct tn_kube_config *config)
{
    const char *host = getenv("KUBERNETES_SERVICE_HOST");
    const char *port = getenv("KUBERNETES_SERVICE_PORT");
    size_t len = 0;

    if (host == NULL || host[0] == '\0') {
        (void)refuse_config(files, "no API server is configured: there is no ~/.kube/config, and "
                                   "this is not a pod; add ?kubeconfig=PATH to the URL");
        return;
    }
    bool v6 = strchr(host, ':') != NULL;
    if (asprintf(&config->server, "https://%s%s%s:%s", v6 ? "[" : "", host, v6 ? "]" : "",
                 port != NULL && port[0] != '\0' ? port : "443") < 0)
        files->rc = TENURE_E_NOMEM;
    copy_text(files, &config->token_file, POD "/token");
    copy_text(files, &config->ca_file, POD "/ca.crt");
    copy_text(files, &config->origin, "the pod's service account");
    char *name = tn_kube_read_file(POD "/namespace", &len);
    if (name != NULL)
        name[strcspn(name, "\r\n")] = '\0';
    if (name != NULL && name[0] != '\0')
        copy_text(files, &config->namespace, name);
    free(name);
    if (files->rc == 0 && access(config->token_file, R_OK) != 0)
        (void)refuse_config(files, "cannot read %s: %s; mount a service account token",
                            config->token_file, strerror(errno));
}

int tn_kube_config_load(struct tn_kube_config *ret_config, const char *file, const char *context,
                        struct tn_text *reterr)
{
    struct kube_files files = { .reterr = reterr };
    struct tn_kube_config config = { 0 };

    add_files(&files, file);
    if (files.rc == 0 && files.count > 0)
        take_context(&files, &config, context);
    else if (files.rc == 0 && context != NULL && context[0] != '\0')
        (void)refuse_config(&files, "there is no kubeconfig file with a context '%s'", context);
    else if (files.rc == 0)
        take_pod(&files, &config);
    for (unsigned i = 0; i < files.count; i++) {
        if (files.all[i].read)
            yaml_document_delete(&files.all[i].tree);
        free(files.all[i].path);
    }
    if (files.rc == TENURE_E_NOMEM)
        tn_text_add(reterr, "kubernetes: out of memory");
    if (files.rc == 0)
        *ret_config = config;
    else
        tn_kube_config_free(&config);
    return files.rc;
}

void tn_kube_config_free(struct tn_kube_config *config)
{
    char **texts[] = { &config->server,      &config->namespace,  &config->origin,
                       &config->ca_file,     &config->ca_pem,     &config->cert_file,
                       &config->cert_pem,    &config->key_file,   &config->key_pem,
                       &config->token,       &config->token_file, &config->exec_command,
                       &config->exec_version };

    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        if (*texts[i] != NULL)
            explicit_bzero(*texts[i], strlen(*texts[i])); /* Keys and tokens are among them. */
        free(*texts[i]);
        *texts[i] = NULL;
    }
    for (size_t i = 0; i < TN_KUBE_WORDS_MAX; i++) {
        free(config->exec_args[i]);
        free(config->exec_env[i]);
        config->exec_args[i] = config->exec_env[i] = NULL;
    }
}

/* --- The URL ---------------------------------------------------------------------------------- */

static int refuse_url(struct tn_text *reterr, const char *why)
{
    tn_text_addf(reterr,
                 "kubernetes: %s; write kubernetes://[NAMESPACE][?context=NAME&kubeconfig="
                 "PATH]",
                 why);
    return TENURE_E_INVALID;
}

/* RFC 1123, a label. */
static bool is_namespace(const char *text)
{
    size_t len = strlen(text);

    return len > 0 && len <= TN_KUBE_NAMESPACE_MAX && text[0] != '-' && text[len - 1] != '-' &&
           strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789-") == len;
}

struct kube_url {
    char namespace[128], context[256], kubeconfig[4096];
};

static int parse_url(const char *rest, struct kube_url *ret_url, struct tn_text *reterr)
{
    size_t len;

    *ret_url = (struct kube_url) { .namespace = "" };
    if (strncmp(rest, "//", 2) != 0)
        return refuse_url(reterr, "'//' is missing");
    rest += 2;
    len = strcspn(rest, "/?");
    if (!tn_url_decode(ret_url->namespace, sizeof ret_url->namespace, rest, len) ||
        (len > 0 && !is_namespace(ret_url->namespace)))
        return refuse_url(reterr, "a namespace is up to 63 of a-z, 0-9 and inner '-'");
    rest += len;
    rest += *rest == '/';
    if (*rest != '\0' && *rest != '?')
        return refuse_url(reterr, "there is something behind the namespace");
    while (*rest == '?' || *rest == '&') {
        rest++;
        len = strcspn(rest, "&");
        size_t key = strcspn(rest, "=&");
        bool context = key == 7 && memcmp(rest, "context", 7) == 0;
        if ((!context && (key != 10 || memcmp(rest, "kubeconfig", 10) != 0)) || rest[key] != '=')
            return refuse_url(reterr, "an option is not known");
        if (!tn_url_decode(context ? ret_url->context : ret_url->kubeconfig,
                           context ? sizeof ret_url->context : sizeof ret_url->kubeconfig,
                           rest + key + 1, len - key - 1))
            return refuse_url(reterr, "an option is malformed or too long");
        rest += len;
    }
    return 0;
}

int tn_kube_config_open(struct tn_kube_config *ret_config, const char *rest, struct tn_text *reterr)
{
    struct tn_kube_config config;
    struct kube_url url;

    int rc = parse_url(rest, &url, reterr);
    if (rc == 0)
        rc = tn_kube_config_load(&config, url.kubeconfig, url.context, reterr);
    if (rc != 0)
        return rc;
    if (url.namespace[0] != '\0') {
        free(config.namespace);
        config.namespace = strdup(url.namespace);
    } else if (config.namespace == NULL) {
        config.namespace = strdup("default");
    }
    if (config.namespace != NULL && is_namespace(config.namespace)) {
        *ret_config = config;
        return 0;
    }
    rc = config.namespace == NULL ? TENURE_E_NOMEM : TENURE_E_INVALID;
    tn_text_add(reterr, config.namespace == NULL
                            ? "kubernetes: out of memory"
                            : "kubernetes: the configuration's namespace is malformed");
    tn_kube_config_free(&config);
    return rc;
}
