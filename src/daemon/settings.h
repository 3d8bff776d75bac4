/* settings.h - what tenured was told, and what follows from it before anything is opened.
 *
 * options.c reads the command line and the file of --config; settings.c fills in what nobody said
 * and checks all of it together. */
#ifndef TN_DAEMON_SETTINGS_H
#define TN_DAEMON_SETTINGS_H

#include "daemon/server.h"

enum {
    TN_STATUS_USAGE = 64,
    TN_STATUS_UNAVAILABLE = 69,
    TN_STATUS_DENIED = 77,
};

struct tn_settings {
    struct tn_server_config config;
    uint64_t sessions, leases, waiters, conns, peer_conns, slow, idle;
    char data[512], witness[540], socket[100], url[140];
    char prefixes[TN_UPSTREAMS_MAX][TN_UPSTREAM_PREFIX_MAX + 1];
    bool has_witness, only_check;
};

void tn_settings_init(struct tn_settings *settings);

/* Each returns -1 to go on, or the exit status, about which everything was printed. */
int tn_settings_take(struct tn_settings *settings, int argc, char **argv);
int tn_settings_complete(struct tn_settings *settings);

/* Print what is wrong with @word, and where it was read. Returns the exit status. */
int tn_option_bad(const char *format, const char *word);

#endif
