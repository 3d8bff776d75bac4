/* kube_api.c - calls, credentials and quiet times; kube_api.h has the picture.
 *
 * Happy path: a call waits in a list until there are credentials and no quiet time, goes out, and
 * its answer is put into words. What can fail: the plug-in, which fails the calls that wait for it;
 * the server, whose Status says why. */
#define _GNU_SOURCE
#include "net/kube_api.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <uv.h>

#include "base/assert.h"
#include "base/number.h"
#include "base/rfc3339.h"
#include "base/time.h"

enum {
    PLUGIN_OUTPUT_MAX = 64 * 1024,
    QUIET_MAX_SECONDS = 60,
    CONNECTIONS = 32, /* At once. */
    LINE_MAX_BYTES = 4 << 20,
};
#define TOKEN_GOOD_FOR TN_SEC(10)
#define PLUGIN_TIME TN_SEC(30)

struct plugin {
    uv_process_t process;
    uv_pipe_t out;
    unsigned open_handles;
    size_t len;
    bool exited, ended;
    int64_t status;
    tenure_ns kill_at;
    char output[PLUGIN_OUTPUT_MAX + 1];
};

struct tn_kube_api {
    struct uv_loop_s *loop;
    tenure_ns (*now)(void *clock);
    void *clock;
    struct tn_kube_config config;
    struct tn_web *web;
    struct tn_kube_call *waiting; /* In the order of their start. */
    char *header;                 /* "Authorization: Bearer ..."; NULL: none yet, or none needed. */
    tenure_ns header_until;
    tenure_ns quiet_until;
    struct plugin *plugin; /* Running. */
    uv_timer_t timer;
    bool closing;
    void (*closed)(void *arg);
    void *closed_arg;
};

static void serve(struct tn_kube_api *api);

static tenure_ns now_of(const struct tn_kube_api *api)
{
    return api->now(api->clock);
}

static void timer_fired(uv_timer_t *timer)
{
    serve(timer->data);
}

/* --- Credentials ------------------------------------------------------------------------------ */

static void set_header(struct tn_kube_api *api, const char *token, size_t len, tenure_ns until)
{
    static const char start[] = "Authorization: Bearer ";
    char *header = malloc(sizeof start + len);

    if (api->header != NULL)
        explicit_bzero(api->header, strlen(api->header));
    free(api->header);
    if (header != NULL) {
        memcpy(header, start, sizeof start - 1);
        memcpy(header + sizeof start - 1, token, len);
        header[sizeof start - 1 + len] = '\0';
    }
    api->header = header;
    api->header_until = until;
}

static bool is_token(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (text[i] <= ' ' || text[i] > '~')
            return false; /* A line end would be another header. */
    return len > 0;
}

/* All that wait for credentials end with @why. */
static void fail_waiting(struct tn_kube_api *api, int status, const char *why)
{
    struct tn_kube_call *call = api->waiting;

    api->waiting = NULL;
    while (call != NULL) {
        struct tn_kube_call *next = call->next;
        call->status = status;
        call->http = 0;
        (void)snprintf(call->error, sizeof call->error, "%s", why);
        free(call->send);
        call->send = NULL;
        call->done(call);
        call = next;
    }
}

/* An old token is better than none: the kubelet may be replacing the file just now. */
static bool read_token_file(struct tn_kube_api *api)
{
    const char *path = api->config.token_file;
    char why[TN_ERROR_TEXT];
    size_t len = 0;
    char *token = tn_kube_read_file(path, &len);

    while (token != NULL && len > 0 && (token[len - 1] == '\n' || token[len - 1] == '\r'))
        len--;
    if (token != NULL && is_token(token, len))
        set_header(api, token, len, now_of(api) + TOKEN_GOOD_FOR);
    else if (api->header == NULL) {
        (void)snprintf(why, sizeof why, "kubernetes: %s: %s", path,
                       token != NULL ? "there is no token in it" : strerror(errno));
        fail_waiting(api, TENURE_E_DENIED, why);
    }
    free(token);
    return api->header != NULL;
}

static tenure_ns until_instant(const struct tn_kube_api *api, const char *text)
{
    struct timespec wall;
    int64_t seconds;

    if (!tn_rfc3339_parse(text, &seconds))
        return TN_NEVER;                        /* Until a 401. */
    (void)clock_gettime(CLOCK_REALTIME, &wall); /* The issuer's clock is all that there is. */
    return now_of(api) + TN_SEC((tenure_ns)(seconds - wall.tv_sec));
}

static void end_plugin(struct tn_kube_api *api)
{
    struct plugin *plugin = api->plugin;
    const char *command = api->config.exec_command;
    char why[TN_ERROR_TEXT];

    plugin->output[plugin->len] = '\0';
    struct tn_json_value *values =
        plugin->exited && plugin->status == 0 ? tn_kube_parse(plugin->output, plugin->len) : NULL;
    const struct tn_json_value *status =
        values != NULL ? tn_json_object(values, 0, "status") : NULL;
    const struct tn_json_value *token =
        status != NULL ? tn_json_get(values, (uint32_t)(status - values), "token") : NULL;
    char until[TN_RFC3339] = "";
    if (token != NULL && token->type == TN_JSON_STRING && is_token(token->bytes, token->len)) {
        (void)tn_json_text(values, status, "expirationTimestamp", until, sizeof until);
        set_header(api, token->bytes, token->len, until_instant(api, until));
        if (api->header == NULL)
            fail_waiting(api, TENURE_E_NOMEM, "out of memory");
    } else {
        if (!plugin->exited)
            (void)snprintf(why, sizeof why,
                           "kubernetes: the credential plug-in '%s' did not end "
                           "within 30s",
                           command);
        else if (plugin->status != 0)
            (void)snprintf(why, sizeof why,
                           "kubernetes: the credential plug-in '%s' failed with "
                           "status %d; run it by hand",
                           command, (int)plugin->status);
        else
            (void)snprintf(why, sizeof why,
                           "kubernetes: the credential plug-in '%s' printed no "
                           "ExecCredential with a token",
                           command);
        fail_waiting(api, TENURE_E_DENIED, why);
    }
    free(values);
    explicit_bzero(plugin->output, sizeof plugin->output);
}

static void plugin_closed(uv_handle_t *handle)
{
    struct tn_kube_api *api = handle->data;
    struct plugin *plugin = api->plugin;

    if (--plugin->open_handles > 0)
        return;
    if (!api->closing)
        end_plugin(api);
    free(plugin);
    api->plugin = NULL;
    serve(api);
}

/* Its words are complete, or it has had its time. */
static void stop_plugin(struct plugin *plugin)
{
    if (plugin->ended)
        return;
    plugin->ended = true;
    if (!plugin->exited)
        (void)uv_process_kill(&plugin->process, SIGKILL);
    uv_close((uv_handle_t *)&plugin->process, plugin_closed);
    uv_close((uv_handle_t *)&plugin->out, plugin_closed);
}

static void plugin_exited(uv_process_t *process, int64_t status, int signal)
{
    struct tn_kube_api *api = process->data;
    struct plugin *plugin = api->plugin;

    plugin->exited = true;
    plugin->status = signal != 0 ? 128 + signal : status;
    if (!uv_is_active((uv_handle_t *)&plugin->out))
        stop_plugin(plugin);
}

static void plugin_room(uv_handle_t *handle, size_t size, uv_buf_t *ret_buf)
{
    struct plugin *plugin = ((struct tn_kube_api *)handle->data)->plugin;

    (void)size;
    *ret_buf =
        uv_buf_init(plugin->output + plugin->len, (unsigned)(PLUGIN_OUTPUT_MAX - plugin->len));
}

static void plugin_said(uv_stream_t *stream, ssize_t got, const uv_buf_t *buf)
{
    struct plugin *plugin = ((struct tn_kube_api *)stream->data)->plugin;

    (void)buf;
    if (got > 0)
        plugin->len += (size_t)got;
    if (got >= 0)
        return;
    (void)uv_read_stop(stream);
    if (plugin->exited || got != UV_EOF)
        stop_plugin(plugin);
}

/* This process's environment, then the plug-in's own, then what plug-ins are told. */
static char **plugin_env(const struct tn_kube_config *config, char *info)
{
    size_t count = 0, extra = 0;

    while (environ[count] != NULL)
        count++;
    while (config->exec_env[extra] != NULL)
        extra++;
    char **all = calloc(count + extra + 2, sizeof *all);
    if (all == NULL)
        return NULL;
    memcpy(all, config->exec_env, extra * sizeof *all); /* The first of a name counts. */
    memcpy(all + extra, environ, count * sizeof *all);
    all[count + extra] = info;
    return all;
}

static void start_plugin(struct tn_kube_api *api)
{
    struct tn_kube_config *config = &api->config;
    char *args[TN_KUBE_WORDS_MAX + 2] = { config->exec_command };
    char info[256], why[TN_ERROR_TEXT];
    uv_stdio_container_t pipes[3] = { { .flags = UV_IGNORE },
                                      { .flags = UV_CREATE_PIPE | UV_WRITABLE_PIPE },
                                      { .flags = UV_IGNORE } };
    struct plugin *plugin = calloc(1, sizeof *plugin);

    (void)snprintf(info, sizeof info,
                   "KUBERNETES_EXEC_INFO={\"apiVersion\":\"%s\",\"kind\":"
                   "\"ExecCredential\",\"spec\":{\"interactive\":false}}",
                   config->exec_version);
    memcpy(args + 1, config->exec_args, sizeof config->exec_args);
    char **env = plugin != NULL ? plugin_env(config, info) : NULL;
    if (env == NULL) {
        free(plugin);
        fail_waiting(api, TENURE_E_NOMEM, "out of memory");
        return;
    }
    api->plugin = plugin;
    plugin->open_handles = 2;
    plugin->kill_at = now_of(api) + PLUGIN_TIME;
    (void)uv_pipe_init(api->loop, &plugin->out, 0);
    plugin->process.data = plugin->out.data = api;
    pipes[1].data.stream = (uv_stream_t *)&plugin->out;
    uv_process_options_t options = { .file = config->exec_command,
                                     .args = args,
                                     .env = env,
                                     .exit_cb = plugin_exited,
                                     .stdio = pipes,
                                     .stdio_count = 3 };
    int rc = uv_spawn(api->loop, &plugin->process, &options);
    free(env);
    if (rc != 0) {
        (void)snprintf(why, sizeof why, "kubernetes: cannot run the credential plug-in '%s': %s",
                       config->exec_command, uv_strerror(rc));
        plugin->exited = true;
        plugin->status = 127;
        fail_waiting(api, TENURE_E_DENIED, why);
        stop_plugin(plugin);
        return;
    }
    (void)uv_read_start((uv_stream_t *)&plugin->out, plugin_room, plugin_said);
}

/* False: there are none yet; they are on their way, or those who wait were told why not. */
static bool has_credentials(struct tn_kube_api *api)
{
    struct tn_kube_config *config = &api->config;

    if (api->plugin != NULL)
        return false;
    if (config->token == NULL && config->token_file == NULL && config->exec_command == NULL)
        return true;
    if (api->header != NULL && now_of(api) < api->header_until)
        return true;
    if (config->token_file != NULL)
        return read_token_file(api);
    if (config->exec_command == NULL) {
        set_header(api, config->token, strlen(config->token), TN_NEVER);
        if (api->header == NULL)
            fail_waiting(api, TENURE_E_NOMEM, "out of memory");
        return api->header != NULL;
    }
    start_plugin(api);
    return false;
}

/* --- Documents -------------------------------------------------------------------------------- */

struct tn_json_value *tn_kube_parse(char *bytes, size_t len)
{
    size_t most = 2;

    for (size_t i = 0; i < len; i++)
        most += bytes[i] == ',' || bytes[i] == ':' || bytes[i] == '{' || bytes[i] == '[';
    struct tn_json_value *values = most <= UINT32_MAX ? calloc(most, sizeof *values) : NULL;
    if (values != NULL && tn_json_read(bytes, len, values, (uint32_t)most) <= 0) {
        free(values);
        values = NULL;
    }
    return values;
}

bool tn_kube_lines_add(struct tn_kube_lines *lines, const char *bytes, size_t len,
                       bool (*hear)(void *arg, const struct tn_json_value *values), void *arg)
{
    if (lines->room - lines->len < len) {
        size_t room = 2 * (lines->len + len) + 4096;
        char *more = room <= LINE_MAX_BYTES ? realloc(lines->bytes, room) : NULL;
        if (more == NULL)
            return false;
        lines->bytes = more;
        lines->room = room;
    }
    memcpy(lines->bytes + lines->len, bytes, len);
    lines->len += len;
    char *from = lines->bytes, *end;
    while ((end = memchr(from, '\n', lines->len - (size_t)(from - lines->bytes))) != NULL) {
        struct tn_json_value *values = tn_kube_parse(from, (size_t)(end - from));
        bool good = values != NULL && hear(arg, values);
        free(values);
        if (!good)
            return false;
        from = end + 1;
    }
    lines->len -= (size_t)(from - lines->bytes);
    memmove(lines->bytes, from, lines->len);
    return true;
}

void tn_kube_lines_clear(struct tn_kube_lines *lines)
{
    free(lines->bytes);
    *lines = (struct tn_kube_lines) { 0 };
}

/* --- Answers ---------------------------------------------------------------------------------- */

/* What the server says of it; false: nothing that an API server would say. */
static bool read_status(struct tn_kube_call *call, char *ret_message, size_t size)
{
    char *copy = call->body_len > 0 ? strndup(call->body, call->body_len) : NULL;
    struct tn_json_value *values = copy != NULL ? tn_kube_parse(copy, strlen(copy)) : NULL;
    char kind[16] = "";

    ret_message[0] = '\0';
    if (values != NULL && values[0].type == TN_JSON_OBJECT) {
        (void)tn_json_text(values, values, "kind", kind, sizeof kind);
        if (!tn_json_text(values, values, "message", ret_message, size) &&
            tn_json_get(values, 0, "message") != NULL)
            (void)snprintf(ret_message, size, "%.350s", tn_json_get(values, 0, "message")->bytes);
        (void)tn_json_text(values, values, "reason", call->reason, sizeof call->reason);
        (void)tn_json_text(values, tn_json_object(values, 0, "details"), "kind", call->about,
                           sizeof call->about);
    }
    free(values);
    free(copy);
    return strcmp(kind, "Status") == 0;
}

/* "10.0.0.1:6443: 403 Forbidden: ...; what to do". */
static void explain(struct tn_kube_call *call)
{
    const struct tn_kube_config *config = &call->api->config;
    char message[TN_ERROR_TEXT];
    bool known = read_status(call, message, sizeof message);
    const char *remedy = "";
    struct tn_text text;

    if (!known)
        (void)snprintf(message, sizeof message, "%.80s", call->body_len > 0 ? call->body : "");
    if (call->http == 401)
        remedy = "; the token or certificate is wrong or has expired: sign in again";
    else if (call->http == 403)
        remedy = "; 'tenure doctor' prints the role that is needed";
    else if (call->http == 404 && strcmp(call->about, "namespaces") == 0)
        remedy = "; make the namespace first";
    else if (!known && call->http != 429)
        remedy = "; is this a Kubernetes API server?";
    tn_text_init(&text, call->error, sizeof call->error);
    tn_text_add(&text, "kubernetes: ");
    tn_web_where(&text, config->server);
    tn_text_addf(&text, ": HTTP %d: ", call->http);
    tn_text_escape(&text, message, strlen(message));
    if (call->http == 401)
        tn_text_addf(&text, " (%s)", config->origin);
    tn_text_add(&text, remedy);
    tn_text_cut(&text);
    if (call->http == 401 || call->http == 403)
        call->status = TENURE_E_DENIED;
    else if (call->http == 429)
        call->status = TENURE_E_FULL;
    else if (call->http >= 500 || call->http < 300)
        call->status = TENURE_E_TIMEOUT;
    else
        call->status = known ? TENURE_E_UNAVAILABLE : TENURE_E_DAMAGED;
}

static void hear_quiet(struct tn_kube_call *call)
{
    const char *text = tn_web_header(&call->web, "Retry-After");
    uint64_t seconds = 1;

    if (text == NULL || tn_u64_parse(text, &seconds) != 0 || seconds == 0)
        seconds = 1;
    if (seconds > QUIET_MAX_SECONDS)
        seconds = QUIET_MAX_SECONDS;
    call->api->quiet_until = now_of(call->api) + TN_SEC((tenure_ns)seconds);
}

static void add_waiting(struct tn_kube_api *api, struct tn_kube_call *call)
{
    struct tn_kube_call **link = &api->waiting;

    while (*link != NULL)
        link = &(*link)->next;
    call->next = NULL;
    *link = call;
}

static void answered(struct tn_web_req *web)
{
    struct tn_kube_call *call = (struct tn_kube_call *)(void *)web;
    struct tn_kube_api *api = call->api;
    bool renewable = api->config.token_file != NULL || api->config.exec_command != NULL;

    call->status = web->status;
    call->http = web->http;
    call->body = web->body;
    call->body_len = web->body_len;
    if (web->status == 0 && web->http == 401 && renewable && !call->repeated && !api->closing) {
        call->repeated = true; /* It had no effect: the server did not know us. */
        api->header_until = 0;
        add_waiting(api, call);
        (void)uv_timer_start(&api->timer, timer_fired, 0, 0);
        return;
    }
    if (web->status != 0)
        (void)snprintf(call->error, sizeof call->error, "kubernetes: %.380s", web->error);
    else if (web->http < 200 || web->http > 299)
        explain(call);
    if (web->status == 0 && web->http == 429)
        hear_quiet(call);
    free(call->send);
    call->send = NULL;
    call->done(call);
}

/* --- Calls ------------------------------------------------------------------------------------ */

static void send_call(struct tn_kube_api *api, struct tn_kube_call *call)
{
    const char *headers[] = { "Accept: application/json", NULL, NULL, NULL };
    char url[2048];
    int count = 1;

    (void)snprintf(url, sizeof url, "%s%s", api->config.server, call->path);
    if (call->send != NULL)
        headers[count++] = "Content-Type: application/json";
    if (api->header != NULL)
        headers[count++] = api->header;
    call->web.method = call->method;
    call->web.url = url;
    call->web.headers = headers;
    call->web.send = call->send;
    call->web.send_len = call->send != NULL ? strlen(call->send) : 0;
    call->web.done = answered;
    tn_web_start(api->web, &call->web);
}

static void wake_api(struct tn_kube_api *api, tenure_ns at)
{
    tenure_ns in = at - now_of(api);

    if (at == TN_NEVER)
        (void)uv_timer_stop(&api->timer);
    else
        (void)uv_timer_start(&api->timer, timer_fired,
                             in > 0 ? (uint64_t)((in + TN_MS(1) - 1) / TN_MS(1)) : 0, 0);
}

/* A call that waits for the end of a quiet time as long as its own time ends here. */
static void end_late(struct tn_kube_api *api, tenure_ns now)
{
    struct tn_kube_call *late = NULL, **link = &api->waiting;

    while (*link != NULL) {
        struct tn_kube_call *call = *link;
        if (call->give_up_at > now) {
            link = &call->next;
            continue;
        }
        *link = call->next;
        call->next = late;
        late = call;
    }
    while (late != NULL) {
        struct tn_kube_call *call = late;
        late = call->next;
        call->status = TENURE_E_UNAVAILABLE;
        call->http = 0;
        (void)snprintf(call->error, sizeof call->error, "kubernetes: %s",
                       now < api->quiet_until
                           ? "the server has too many requests, and asked us to wait"
                           : "there are no credentials yet");
        free(call->send);
        call->send = NULL;
        call->done(call);
    }
}

static void serve(struct tn_kube_api *api)
{
    tenure_ns now = now_of(api), wake = TN_NEVER;
    struct tn_kube_call **link = &api->waiting;

    if (api->closing)
        return;
    if (api->plugin != NULL && now >= api->plugin->kill_at)
        stop_plugin(api->plugin);
    else if (api->plugin != NULL && !api->plugin->ended)
        wake = api->plugin->kill_at;
    end_late(api, now);
    bool due = false;
    for (struct tn_kube_call *call = api->waiting; call != NULL; call = call->next)
        due = due || call->not_before <= now;
    bool ready = due && now >= api->quiet_until && has_credentials(api);
    while (*link != NULL) {
        struct tn_kube_call *call = *link;
        tenure_ns at = call->not_before > api->quiet_until ? call->not_before : api->quiet_until;
        if (ready && at <= now) {
            *link = call->next;
            send_call(api, call);
            continue;
        }
        if (at > now && at < wake)
            wake = at;
        if (call->give_up_at < wake)
            wake = call->give_up_at;
        link = &call->next;
    }
    wake_api(api, wake);
}

void tn_kube_start(struct tn_kube_api *api, struct tn_kube_call *call)
{
    call->api = api;
    call->repeated = false;
    call->reason[0] = call->about[0] = call->error[0] = '\0';
    tenure_ns from = call->not_before > now_of(api) ? call->not_before : now_of(api);
    call->give_up_at = from + call->web.timeout;
    add_waiting(api, call);
    if (!api->closing) /* Never answered inside this call. */
        (void)uv_timer_start(&api->timer, timer_fired, 0, 0);
}

tenure_ns tn_kube_now(const struct tn_kube_api *api)
{
    return now_of(api);
}

void tn_kube_cancel(struct tn_kube_call *call)
{
    for (struct tn_kube_call *each = call->api->waiting; each != NULL; each = each->next) {
        if (each == call) {
            call->give_up_at = 0;
            call->not_before = 0;
            (void)uv_timer_start(&call->api->timer, timer_fired, 0, 0);
            return;
        }
    }
    tn_web_cancel(call->api->web, &call->web);
}

/* --- Opening and closing ---------------------------------------------------------------------- */

int tn_kube_api_open(struct uv_loop_s *loop, tenure_ns (*now)(void *clock), void *clock,
                     struct tn_kube_config *config, struct tn_kube_api **ret_api,
                     struct tn_text *reterr)
{
    struct tn_kube_api *api = calloc(1, sizeof *api);
    const struct tn_web_options options = {
        .connections = CONNECTIONS,
        .ca_file = config->ca_file,
        .ca_pem = config->ca_pem,
        .cert_file = config->cert_file,
        .cert_pem = config->cert_pem,
        .key_file = config->key_file,
        .key_pem = config->key_pem,
    };
    int rc = TENURE_E_NOMEM;

    if (api == NULL)
        tn_text_add(reterr, "kubernetes: out of memory");
    else
        rc = tn_web_open(loop, &options, &api->web, reterr);
    if (rc != 0) {
        tn_kube_config_free(config);
        free(api);
        return rc;
    }
    api->config = *config;
    api->loop = loop;
    api->now = now;
    api->clock = clock;
    (void)uv_timer_init(loop, &api->timer);
    api->timer.data = api;
    *ret_api = api;
    return 0;
}

static void timer_closed(uv_handle_t *handle)
{
    struct tn_kube_api *api = handle->data;

    if (api->header != NULL)
        explicit_bzero(api->header, strlen(api->header));
    free(api->header);
    tn_kube_config_free(&api->config);
    if (api->closed != NULL)
        api->closed(api->closed_arg);
    free(api);
}

static void check_plugin(uv_timer_t *timer)
{
    struct tn_kube_api *api = timer->data;

    if (api->plugin == NULL)
        uv_close((uv_handle_t *)&api->timer, timer_closed);
}

static void web_closed(void *arg)
{
    struct tn_kube_api *api = arg;

    fail_waiting(api, TENURE_E_CLOSED, "the store is closed");
    if (api->plugin != NULL)
        stop_plugin(api->plugin);
    (void)uv_timer_start(&api->timer, check_plugin, 0, 1);
}

void tn_kube_api_close(struct tn_kube_api *api, void (*closed)(void *arg), void *arg)
{
    api->closing = true;
    api->closed = closed;
    api->closed_arg = arg;
    tn_web_close(api->web, web_closed, api);
}
