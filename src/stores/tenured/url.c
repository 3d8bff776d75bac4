/* url.c - what a URL of a tenured says. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/socket_path.h"
#include "stores/tenured/private.h"

/* A password on a command line is seen by everybody on the host; the environment is not. */
static void read_environment(struct tn_net_url *url)
{
    const char *user = getenv("TENURE_TENURED_USER");
    const char *password = getenv("TENURE_TENURED_PASSWORD");

    if (url->user[0] == '\0' && user != NULL)
        (void)snprintf(url->user, sizeof url->user, "%s", user);
    if (url->password[0] == '\0' && password != NULL)
        (void)snprintf(url->password, sizeof url->password, "%s", password);
}

static int parse_local(struct tn_tenured_url *ret_url, const char *rest, struct tn_text *reterr)
{
    struct tn_tenured_url url = { .local = true, .net = { .count = 1 } };
    char path[200];

    (void)snprintf(path, sizeof path, "%s", rest);
    if (rest[0] == '\0' && tn_socket_folder(path, sizeof path - sizeof "/" TN_SOCKET_NAME))
        (void)snprintf(path + strlen(path), sizeof "/" TN_SOCKET_NAME, "/%s", TN_SOCKET_NAME);
    if (!tn_endpoint_local(&url.net.endpoints[0], path)) {
        tn_text_add(reterr, "unix: the path is too long for a socket; write unix:PATH with at most "
                            "107 bytes, or unix: for your own daemon");
        return TENURE_E_INVALID;
    }
    *ret_url = url;
    return 0;
}

int tn_tenured_url_parse(struct tn_tenured_url *ret_url, const char *scheme, const char *rest,
                         struct tn_text *reterr)
{
    struct tn_net_form form = {
        .scheme = "tenured",
        .usage = "tenured://HOST[:PORT]",
        .port = "7420",
        .tls = "tenureds",
        .with_tls = strcmp(scheme, "tenureds") == 0,
    };
    struct tn_tenured_url url = { .tls = form.with_tls };
    const char *wrong = NULL;

    if (strcmp(scheme, "unix") == 0)
        return parse_local(ret_url, rest, reterr);
    int rc = tn_net_url_parse(&url.net, &form, rest, reterr);
    if (rc < 0)
        return rc;
    read_environment(&url.net);
    if (url.net.count > 1)
        wrong = "one host only, because two daemons do not share their leases";
    else if (url.net.path[0] != '\0')
        wrong = "nothing behind the host";
    else if (url.net.password[0] != '\0' && url.net.user[0] == '\0')
        wrong = "a password without a user";
    if (wrong != NULL) {
        tn_text_addf(reterr, "tenured: %s; write %s", wrong, form.usage);
        return TENURE_E_INVALID;
    }
    *ret_url = url;
    return 0;
}
