/* blame.c - why the database did not do what it was asked, in one line with a remedy.
 *
 * libpq gives a failed connection no code, only text; where it is not in English, the cause is told
 * as the server told it, and no remedy. No password is ever part of it: libpq and the server do not
 * repeat it. */
#include <string.h>

#include "stores/postgres/private.h"

static const struct {
    const char *sign;
    int code;
    const char *remedy;
} signs[] = {
    { "password authentication failed", TENURE_E_DENIED,
      "check the user and the password (PGPASSFILE keeps it out of the URL)" },
    { "no password supplied", TENURE_E_DENIED,
      "give a password, best in the file PGPASSFILE names" },
    { "authentication failed", TENURE_E_DENIED,
      "the server's pg_hba.conf says who may log in how" },
    { "no pg_hba.conf entry", TENURE_E_DENIED, "the server's pg_hba.conf must let this user in" },
    { "permission denied for database", TENURE_E_DENIED, "GRANT CONNECT ON DATABASE to this user" },
    { "is not permitted to log in", TENURE_E_DENIED, "ALTER ROLE ... LOGIN" },
    { "does not support SSL", TENURE_E_UNAVAILABLE,
      "turn ssl on there, or say sslmode=disable in the URL if the network is trusted" },
    { "root certificate file", TENURE_E_UNAVAILABLE,
      "say sslrootcert=FILE in the URL, or sslmode=require to verify nothing" },
    { "certificate verify failed", TENURE_E_UNAVAILABLE,
      "sslrootcert must name the CA of the server's certificate" },
    { "does not match host name", TENURE_E_UNAVAILABLE,
      "connect by the name in the server's certificate" },
    { "Connection refused", TENURE_E_UNAVAILABLE, "is the server running there?" },
    { "role \"", TENURE_E_DENIED, "check the user in the URL" },
    { "database \"", TENURE_E_UNAVAILABLE, "create it, or check the name in the URL" },
};

/* The message without libpq's preamble and beyond the first line. */
static void add_cause(const char *said, struct tn_text *ret_text)
{
    const char *cuts[] = { " failed: ", "FATAL:  ", "ERROR:  " };

    for (size_t i = 0; i < sizeof cuts / sizeof cuts[0]; i++) {
        const char *cut = strstr(said, cuts[i]);
        if (cut != NULL && cut < said + strcspn(said, "\n"))
            said = cut + strlen(cuts[i]);
    }
    tn_text_escape(ret_text, said, strcspn(said, "\n"));
}

int tn_pg_blame_connection(const struct tn_pg_host *host, const PGconn *conn,
                           struct tn_text *ret_text)
{
    const char *said = PQerrorMessage(conn);

    tn_text_add(ret_text, "postgres ");
    tn_text_escape(ret_text, host->name[0] != '\0' ? host->name : host->addr,
                   strlen(host->name[0] != '\0' ? host->name : host->addr));
    tn_text_add(ret_text, ":");
    tn_text_escape(ret_text, host->port, strlen(host->port));
    tn_text_add(ret_text, ": ");
    add_cause(said, ret_text);
    for (size_t i = 0; i < sizeof signs / sizeof signs[0]; i++) {
        if (strstr(said, signs[i].sign) == NULL)
            continue;
        tn_text_addf(ret_text, "; %s", signs[i].remedy);
        return signs[i].code;
    }
    return TENURE_E_UNAVAILABLE;
}

int tn_pg_blame_statement(const PGresult *result, struct tn_text *ret_text)
{
    const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    const char *said = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);

    if (state == NULL)
        state = "";
    if (said == NULL)
        said = "no reason given";
    tn_text_add(ret_text, "postgres: ");
    tn_text_escape(ret_text, said, strlen(said));
    if (strcmp(state, "42501") == 0) {
        tn_text_add(ret_text, "; GRANT USAGE ON SCHEMA tenure to this user");
        return TENURE_E_DENIED;
    }
    if (strcmp(state, "25006") == 0)
        tn_text_add(ret_text, "; connect to the primary, not to a read-only replica");
    return TENURE_E_UNAVAILABLE;
}
