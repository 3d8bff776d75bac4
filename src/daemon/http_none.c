/* http_none.c - stands in for http.c where libmicrohttpd was not there when this was built. */
#include "daemon/server.h"

int tn_http_open(struct tn_server *server, const char *where, struct tn_text *reterr)
{
    (void)server;
    tn_text_addf(reterr, "--http %s: this tenured was built without libmicrohttpd", where);
    return TENURE_E_UNSUPPORTED;
}

void tn_http_run(struct tn_server *server)
{
    (void)server;
}

int tn_http_port(const struct tn_server *server)
{
    (void)server;
    return 0;
}

void tn_http_close(struct tn_server *server)
{
    (void)server;
}

void tn_http_send(struct tn_conn *conn, size_t len)
{
    (void)conn;
    (void)len;
}

void tn_http_conn_closed(struct tn_conn *conn)
{
    (void)conn;
}

void tn_http_sweep(struct tn_conn *conn)
{
    (void)conn;
}

void tn_http_quiesce(struct tn_server *server)
{
    (void)server;
}

bool tn_relay_open(struct tn_conn *conn)
{
    (void)conn;
    return false;
}

void tn_relay_take(struct tn_conn *conn, const char *bytes, size_t len)
{
    (void)conn;
    (void)bytes;
    (void)len;
}

void tn_relay_drained(struct tn_conn *conn)
{
    (void)conn;
}

void tn_relay_close(struct tn_conn *conn)
{
    (void)conn;
}
