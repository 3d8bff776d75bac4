/* fence.c - `tenure fence ACTION --at URL ...`: the receiver's side from a shell.
 *
 * Happy path: the words are checked, the receiver named by the URL is opened, asked, closed. What
 * can fail: the words (64, nothing was opened), a stale token (80), the receiver (69, or 77 when it
 * is not ours to touch). */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/nearest.h"
#include "base/number.h"
#include "base/time.h"
#include "cli/cli.h"
#include "receivers/target.h"

static const char about[] =
    "Keeps, at a resource, the highest token that was seen, and refuses anything lower: a leader "
    "of\n"
    "the past can do no harm there.\n"
    "  admit RESOURCE TOKEN    is this token still good? Also moves the fence up to it\n"
    "  raise RESOURCE TOKEN    the same, before the holder's first write: shuts out all older "
    "ones\n"
    "  show [RESOURCE]         the highest token seen\n"
    "  write TOKEN             replaces the file at --at by standard input, in one step with "
    "admit\n"
    "  install                 makes the fence where there is none yet; with --table and "
    "--resource\n"
    "                          makes that table refuse writes without the resource's token\n"
    "  remove                  takes that away\n"
    "At file:PATH there is no RESOURCE: the path is it.\n";

static const char after[] =
    "Examples:\n"
    "  tenure fence install --at sqlite:shop.db\n"
    "      first, if there is no shop.db: no other action makes a database\n"
    "  ./report.sh | tenure fence write --at file:report.txt \"$TENURE_TOKEN\"\n"
    "      the file is replaced, unless a later holder exists: then exit status 80\n"
    "  tenure fence raise --at sqlite:shop.db orders \"$TENURE_TOKEN\" || exit\n"
    "      from here on nothing older is admitted\n"
    "  tenure fence install --at sqlite:shop.db --table orders --resource orders\n"
    "      the database itself refuses a writer without the current token\n"
    "  tenure fence install --at postgres://db/shop --print\n"
    "      the SQL, to be read before it is run\n"
    "  tenure fence show --at sqlite:shop.db --json\n"
    "      {\"resource\":\"orders\",\"token\":34}\n"
    "\n"
    "What a script does after 'admit' may come too late all the same: a pause in between is not\n"
    "noticed. 'write', 'install' and the C calls of tenure/fence_sqlite.h have no such gap.\n"
    "\n"
    "Exit status: 0 admitted, 64 bad usage (also a missing or malformed token),\n"
    "69 receiver unavailable, 77 not permitted, 80 stale token.\n";

enum action { ADMIT, RAISE, SHOW, WRITE, INSTALL, REMOVE, ACTIONS };

static const char *const action_names[ACTIONS + 1] = { "admit", "raise",   "show",
                                                       "write", "install", "remove" };

struct fence_request {
    enum action action;
    const char *url;
    const char *table;
    const char *resource; /* NULL: none. */
    uint64_t token;
    tenure_ns timeout;
    bool append;
    bool print;
    bool json;
};

/* --- What was asked for --------------------------------------------------------------------- */

static int fail(int status, const char *action, const char *text)
{
    char verb[32];

    (void)snprintf(verb, sizeof verb, "fence%s%s", action != NULL ? " " : "",
                   action != NULL ? action : "");
    return tn_cli_fail(status, verb, "%s", text);
}

static int read_action(const char *word, enum action *ret_action)
{
    char buf[TN_CLI_LINE_MAX];
    struct tn_text text;

    for (int i = 0; i < ACTIONS; i++) {
        if (strcmp(word, action_names[i]) == 0) {
            *ret_action = (enum action)i;
            return -1;
        }
    }
    tn_text_init(&text, buf, sizeof buf);
    tn_cli_quote(&text, word);
    const char *nearest = tn_nearest(word, action_names);
    if (nearest != NULL)
        tn_text_addf(&text, " is not an action; did you mean '%s'?", nearest);
    else
        tn_text_add(&text, " is not an action; write admit, raise, show, write, install or remove");
    return fail(TN_EXIT_USAGE, NULL, buf);
}

static int read_token(const char *action, const char *word, uint64_t *ret_token)
{
    char buf[TN_CLI_LINE_MAX];
    struct tn_text text;

    if (tn_u64_parse(word, ret_token) == 0 && *ret_token > 0)
        return -1;
    tn_text_init(&text, buf, sizeof buf);
    tn_cli_quote(&text, word);
    tn_text_add(&text, " is not a token: a whole number from 1 to 18446744073709551615");
    return fail(TN_EXIT_USAGE, action, buf);
}

/* The words after the action: a resource, a token, both, or none. */
static int read_words(struct fence_request *request, char **words, size_t count,
                      bool takes_resource)
{
    const char *action = action_names[request->action];
    bool takes_token =
        request->action == ADMIT || request->action == RAISE || request->action == WRITE;
    size_t most = (takes_resource ? 1u : 0u) + (takes_token ? 1u : 0u);
    char buf[TN_CLI_LINE_MAX];
    struct tn_text text;

    if (count > most) {
        tn_text_init(&text, buf, sizeof buf);
        tn_cli_quote(&text, words[most]);
        tn_text_addf(&text, " is one word too many; %s",
                     takes_resource ? "'tenure help fence' shows the usage"
                                    : "here there is no RESOURCE");
        return fail(TN_EXIT_USAGE, action, buf);
    }
    if (takes_token && takes_resource && count < 2)
        return fail(TN_EXIT_USAGE, action,
                    count == 0 ? "the resource and the token are missing"
                               : "the token is missing, as in 'tenure fence admit --at URL "
                                 "orders \"$TENURE_TOKEN\"'");
    if (takes_token && count < most)
        return fail(TN_EXIT_USAGE, action, "the token is missing");
    if (takes_resource && count > 0)
        request->resource = words[0];
    return takes_token ? read_token(action, words[most - 1], &request->token) : -1;
}

/* Options that another action has. */
static int check_options(const struct fence_request *request, const char *resource)
{
    bool tables = request->action == INSTALL || request->action == REMOVE;
    const char *wrong = NULL;

    if (request->append && request->action != WRITE)
        wrong = "--append goes with 'write' only";
    else if (request->print && request->action != INSTALL)
        wrong = "--print goes with 'install' only";
    else if (request->table != NULL && !tables)
        wrong = "--table goes with 'install' and 'remove' only";
    else if (resource != NULL && request->action != INSTALL)
        wrong = "--resource goes with 'install' only";
    else if (request->action == INSTALL && (request->table == NULL) != (resource == NULL))
        wrong = "--table and --resource go together";
    else if (request->url == NULL)
        wrong = "--at is missing: where the fence is, as in --at sqlite:shop.db";
    return wrong != NULL ? fail(TN_EXIT_USAGE, action_names[request->action], wrong) : -1;
}

static int check_url(const struct fence_request *request, bool *ret_single)
{
    char buf[TN_CLI_LINE_MAX];
    struct tn_text error;

    tn_text_init(&error, buf, sizeof buf);
    tn_text_add(&error, "--at: ");
    int rc = tn_fence_url_check(request->url, ret_single, &error);
    return rc < 0 ? fail(TN_EXIT_USAGE, action_names[request->action], buf) : -1;
}

static int check_resource(const struct fence_request *request)
{
    char buf[TN_CLI_LINE_MAX];
    struct tn_text error;

    if (request->resource == NULL)
        return -1;
    tn_text_init(&error, buf, sizeof buf);
    int rc = tn_fence_resource_check(request->url, request->resource, &error);
    return rc < 0 ? fail(TN_EXIT_USAGE, action_names[request->action], buf) : -1;
}

static int read_arguments(struct fence_request *request, int argc, char **argv)
{
    const char *resource = NULL;
    bool single = false;
    struct tn_option options[] = {
        TN_STRING("at", 0, &request->url, "URL", NULL,
                  "where the fence is: sqlite:PATH, file:PATH, postgres://..., redis://..."),
        TN_DURATION("timeout", 0, &request->timeout, TN_MS(1), TN_SEC(3600), "5s",
                    "how long to wait for others"),
        TN_FLAG("append", 0, &request->append, "write: append instead of replace"),
        TN_STRING("table", 0, &request->table, "TABLE", NULL, "install, remove: the table"),
        TN_STRING("resource", 0, &resource, "RESOURCE", NULL, "install: its resource"),
        TN_FLAG("print", 0, &request->print, "install: only show what would be run"),
        TN_FLAG("json", 0, &request->json, "print one JSON object per fence"),
    };
    struct tn_command command = TN_COMMAND("fence", "ACTION [RESOURCE] [TOKEN]", 4, options);

    int status = tn_cli_options(&command, argc, argv);
    if (status < 0 && command.rest_count == 0)
        status = fail(TN_EXIT_USAGE, NULL,
                      "an action is missing; write admit, raise, show, write, install or remove");
    if (status < 0)
        status = read_action(command.rest[0], &request->action);
    if (status < 0)
        status = check_options(request, resource);
    if (status < 0)
        status = check_url(request, &single);
    if (status < 0)
        status = read_words(request, command.rest + 1, command.rest_count - 1,
                            request->action < WRITE && !single);
    if (status < 0 && request->action == INSTALL)
        request->resource = resource;
    return status < 0 ? check_resource(request) : status;
}

/* --- Answers -------------------------------------------------------------------------------- */

static int store_fail(const struct fence_request *request, int rc, const char *text)
{
    int status = TN_EXIT_UNAVAILABLE;

    if (rc == TENURE_E_DENIED)
        status = TN_EXIT_DENIED;
    else if (rc == TENURE_E_INVALID || rc == TENURE_E_UNSUPPORTED)
        status = TN_EXIT_USAGE;
    return fail(status, action_names[request->action],
                text[0] != '\0' ? text : tenure_strerror(rc));
}

/* What stands for the resource in the answers: its name, else the path. */
static const char *subject(const struct fence_request *request)
{
    if (request->resource != NULL)
        return request->resource;
    return strncmp(request->url, "file:///", 8) == 0 ? request->url + 7 : request->url + 5;
}

static void print_resource(const char *resource, bool json)
{
    char *buf = malloc(6 * strlen(resource) + 8);
    struct tn_text text;

    if (buf == NULL)
        return;
    tn_text_init(&text, buf, 6 * strlen(resource) + 8);
    if (json)
        tn_json_string(&text, resource, strlen(resource));
    else
        tn_text_escape(&text, resource, strlen(resource));
    printf("%s", buf);
    free(buf);
}

static int answer(const struct fence_request *request, int rc, uint64_t highest, const char *error)
{
    char buf[TN_CLI_LINE_MAX];
    struct tn_text text;

    if (rc < 0 && rc != TENURE_E_STALE)
        return store_fail(request, rc, error);
    if (request->json) {
        printf("{\"admitted\":%s,\"resource\":", rc == 0 ? "true" : "false");
        print_resource(subject(request), true);
        printf(",\"token\":%" PRIu64 ",\"highest\":%" PRIu64 "}\n", request->token, highest);
    }
    if (rc == 0 || request->json)
        return rc == 0 ? TN_EXIT_OK : TN_EXIT_STALE;
    tn_text_init(&text, buf, sizeof buf);
    tn_cli_quote(&text, subject(request));
    tn_text_addf(&text, ": token %" PRIu64 " is stale, the fence stands at %" PRIu64,
                 request->token, highest);
    return fail(TN_EXIT_STALE, action_names[request->action], buf);
}

static void print_fence(void *arg, const char *resource, uint64_t token)
{
    const struct fence_request *request = arg;

    if (request->json) {
        printf("{\"resource\":");
        print_resource(resource, true);
        printf(",\"token\":%" PRIu64 "}\n", token);
        return;
    }
    print_resource(resource, false);
    if (token == 0)
        printf(": no token was seen\n");
    else
        printf(": highest token %" PRIu64 "\n", token);
}

/* --- Actions -------------------------------------------------------------------------------- */

/* All of standard input, on the heap. Returns -1, or the exit status. */
static int read_input(char **ret_data, size_t *ret_len)
{
    char *data = NULL;
    size_t len = 0;
    size_t size = 0;

    for (;;) {
        if (len == size) {
            size = size > 0 ? 2 * size : 65536;
            char *larger = realloc(data, size);
            if (larger == NULL) {
                free(data);
                return fail(TN_EXIT_UNAVAILABLE, "write", "the input does not fit into memory");
            }
            data = larger;
        }
        ssize_t got = read(STDIN_FILENO, data + len, size - len);
        if (got == 0)
            break;
        if (got < 0 && errno != EINTR) {
            free(data);
            return tn_cli_fail(TN_EXIT_IO, "fence write", "standard input cannot be read: %s",
                               strerror(errno));
        }
        len += got > 0 ? (size_t)got : 0;
    }
    *ret_data = data;
    *ret_len = len;
    return -1;
}

static int show(struct tn_fence_target *target, struct fence_request *request,
                struct tn_text *error)
{
    uint64_t highest;
    int rc;

    if (request->resource == NULL) {
        rc = tn_fence_target_list(target, print_fence, request, error);
    } else {
        rc = tn_fence_target_show(target, request->resource, &highest, error);
        if (rc == 0)
            print_fence(request, request->resource, highest);
    }
    return rc < 0 ? store_fail(request, rc, tn_text_str(error)) : TN_EXIT_OK;
}

static int act(struct tn_fence_target *target, struct fence_request *request, const char *data,
               size_t len)
{
    char buf[TN_CLI_LINE_MAX];
    struct tn_text error;
    uint64_t highest = 0;
    int rc;

    tn_text_init(&error, buf, sizeof buf);
    switch (request->action) {
    case SHOW:
        return show(target, request, &error);
    case INSTALL:
        rc = tn_fence_target_install(target, request->table, request->resource, &error);
        return rc < 0 ? store_fail(request, rc, buf) : TN_EXIT_OK;
    case REMOVE:
        rc = tn_fence_target_remove(target, request->table, &error);
        return rc < 0 ? store_fail(request, rc, buf) : TN_EXIT_OK;
    case WRITE:
        rc = tn_fence_target_write(target, request->token, data, len, request->append, &highest,
                                   &error);
        return answer(request, rc, highest, buf);
    case ADMIT:
    case RAISE:
    default:
        rc = tn_fence_target_raise(target, request->resource, request->token, &highest, &error);
        return answer(request, rc, highest, buf);
    }
}

static int print_install(const struct fence_request *request)
{
    const char *text = tn_fence_install_text(request->url);

    if (text == NULL)
        return fail(TN_EXIT_USAGE, "install", "there is nothing to print for this receiver");
    printf("%s", text);
    return TN_EXIT_OK;
}

/* Writing a file makes it, as a shell's > does; a fence alone is made by asking for it. */
static bool makes_file(const struct fence_request *request)
{
    return request->action == WRITE || (request->action == INSTALL && request->table == NULL);
}

int tn_cli_fence(int argc, char **argv)
{
    struct fence_request request = { .timeout = TN_SEC(5) };
    struct tn_fence_target *target = NULL;
    char buf[TN_CLI_LINE_MAX];
    struct tn_text error;
    char *data = NULL;
    size_t len = 0;

    int status = read_arguments(&request, argc, argv);
    if (status < 0 && request.print)
        status = print_install(&request);
    if (status >= 0)
        return status;
    struct tn_fence_options options = { .timeout = request.timeout,
                                        .read_only = request.action == SHOW,
                                        .create = makes_file(&request) };
    tn_text_init(&error, buf, sizeof buf);
    int rc = tn_fence_target_open(request.url, &options, &target, &error);
    if (rc < 0)
        return store_fail(&request, rc, buf);
    if (request.action == WRITE)
        status = read_input(&data, &len);
    if (status < 0)
        status = act(target, &request, data, len);
    free(data);
    tn_fence_target_close(target);
    return status;
}
