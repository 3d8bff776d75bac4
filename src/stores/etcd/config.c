/* config.c - reading an etcd: URL. */
#include "stores/etcd/config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void read_environment(struct tn_net_url *url)
{
    const char *user = getenv("TENURE_ETCD_USER");
    const char *password = getenv("TENURE_ETCD_PASSWORD");

    if (url->user[0] == '\0' && user != NULL)
        (void)snprintf(url->user, sizeof url->user, "%s", user);
    if (url->password[0] == '\0' && password != NULL)
        (void)snprintf(url->password, sizeof url->password, "%s", password);
}

int tn_etcd_config_parse(struct tn_etcd_config *ret_config, const char *rest, bool tls,
                         struct tn_text *reterr)
{
    const struct tn_net_form form = {
        .scheme = "etcd",
        .usage = "etcd://HOST[:PORT][,HOST[:PORT]...][/PREFIX]",
        .port = "2379",
        .tls = "etcds",
        .with_tls = tls,
    };
    struct tn_net_url url;

    int rc = tn_net_url_parse(&url, &form, rest, reterr);
    if (rc < 0)
        return rc;
    read_environment(&url);
    if (url.password[0] != '\0' && url.user[0] == '\0') {
        tn_text_addf(reterr, "etcd: a password without a user; write %s", form.usage);
        return TENURE_E_INVALID;
    }
    size_t len = strlen(url.path);
    while (len > 0 && url.path[len - 1] == '/')
        len--;
    ret_config->url = url;
    (void)snprintf(ret_config->prefix, sizeof ret_config->prefix, "%.*s%s", (int)len, url.path,
                   len > 0 ? "/" : "");
    return 0;
}
