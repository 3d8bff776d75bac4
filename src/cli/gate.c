/* gate.c - `tenure gate`: refuses HTTP requests with a stale token, in front of a server.
 *
 * Happy path: the fences are opened, the address is listened on, one line says so, and requests are
 * served until SIGTERM or SIGINT. What can fail: the options (64), the file and the address (69,
 * 77). */
#include "gate/gate.h"

#include <string.h>
#include <unistd.h>

#include "base/name.h"
#include "base/number.h"
#include "base/time.h"
#include "cli/cli.h"

static const char about[] =
    "Stands in front of an HTTP server and forwards only what carries a current token:\n"
    "  Fence-Token: 34      missing 428, malformed or there twice 400, stale 412\n"
    "The resource is the first segment of the path, or the field Fence-Resource; a path that "
    "servers\n"
    "read in several ways (/a/../b) is 400. GET, HEAD and OPTIONS pass without a token. A higher "
    "token\n"
    "is let in when the older requests have ended.\n";

static const char after[] =
    "Examples:\n"
    "  tenure gate --upstream http://127.0.0.1:8080 --fences /var/lib/gate.db\n"
    "      then: curl -X POST -H \"Fence-Token: $TENURE_TOKEN\" http://127.0.0.1:7423/orders/7\n"
    "  tenure run orders --fence http://127.0.0.1:7423#orders -- ./leader\n"
    "      shuts out all older leaders before the command starts\n"
    "  tenure gate --fences /var/lib/gate.db\n"
    "      only answers whether a token is good, for nginx: see examples/nginx.conf\n"
    "\n"
    "Exit status: 0 after SIGTERM or SIGINT, 64 bad usage, 69 the address or the file cannot be\n"
    "used, 77 not permitted.\n";

/* Before anything is opened: a bare port would be taken for the name of a host. */
static int check_listen(const char *address)
{
    const char *colon = strrchr(address, ':');
    char buf[TN_CLI_LINE_MAX];
    struct tn_text text;
    uint64_t port = 0;

    if (colon != NULL && tn_u64_parse(colon + 1, &port) == 0 && port <= 65535)
        return -1;
    tn_text_init(&text, buf, sizeof buf);
    tn_cli_quote(&text, address);
    return tn_cli_fail(TN_EXIT_USAGE, "gate",
                       "--listen: %s has no port up to 65535; write HOST:PORT, as in "
                       "127.0.0.1:7423",
                       buf);
}

static int check(const struct tn_gate_options *options)
{
    const char *reason;

    if (options->fences == NULL)
        return tn_cli_fail(TN_EXIT_USAGE, "gate",
                           "--fences is missing: the file in which the tokens are kept");
    if (options->resource != NULL &&
        tn_name_check(options->resource, strlen(options->resource), &reason) < 0)
        return tn_cli_fail(TN_EXIT_USAGE, "gate", "--resource: %s", reason);
    return -1;
}

static int fail(int rc, const char *text)
{
    int status = TN_EXIT_UNAVAILABLE;

    if (rc == TENURE_E_DENIED)
        status = TN_EXIT_DENIED;
    else if (rc == TENURE_E_INVALID || rc == TENURE_E_UNSUPPORTED)
        status = TN_EXIT_USAGE;
    return tn_cli_fail(status, "gate", "%s", text);
}

static int serve(const struct tn_gate_options *options)
{
    struct tn_gate *gate = NULL;
    char buf[TN_CLI_LINE_MAX];
    struct tn_text error;

    bool is_new = access(options->fences, F_OK) != 0;
    tn_text_init(&error, buf, sizeof buf);
    int rc = tn_gate_open(options, &gate, &error);
    if (rc < 0)
        return fail(rc, buf);
    /* A path that is misspelt would forget all tokens silently. */
    if (is_new) {
        error.len = 0;
        tn_cli_quote(&error, options->fences);
        (void)tn_cli_fail(0, "gate", "%s is new: no token is known yet", buf);
    }
    printf("listening on port %d\n", tn_gate_port(gate));
    (void)fflush(stdout);
    tn_gate_run(gate);
    tn_gate_close(gate);
    return TN_EXIT_OK;
}

int tn_cli_gate(int argc, char **argv)
{
    static const char *const ways[] = { "path", "header", NULL };
    struct tn_gate_options gate = { .listen = "127.0.0.1:7423", .timeout = TN_SEC(30) };
    int by = TN_GATE_BY_PATH;
    struct tn_option options[] = {
        TN_STRING("upstream", 0, &gate.upstream, "URL", NULL,
                  "the server: http://HOST[:PORT]; without it nothing is forwarded"),
        TN_STRING("fences", 0, &gate.fences, "FILE", NULL, "where the tokens are kept"),
        TN_STRING("listen", 0, &gate.listen, "HOST:PORT", "127.0.0.1:7423", "where to listen"),
        TN_CHOICE("by", 0, &by, ways, "WAY", "path", "where the resource is"),
        TN_STRING("resource", 0, &gate.resource, "RESOURCE", NULL,
                  "the resource of all requests, in place of --by"),
        TN_FLAG("all", 0, &gate.all, "requests that only read need a token, too"),
        TN_DURATION("timeout", 0, &gate.timeout, TN_MS(10), TN_SEC(3600), "30s",
                    "how long the server may take"),
    };
    struct tn_command command = TN_COMMAND("gate", NULL, 0, options);

    int status = tn_cli_options(&command, argc, argv);
    gate.by = (enum tn_gate_by)by;
    if (status < 0)
        status = check(&gate);
    if (status < 0)
        status = check_listen(gate.listen);
    return status >= 0 ? status : serve(&gate);
}
