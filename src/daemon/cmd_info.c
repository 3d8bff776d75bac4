/* cmd_info.c - HELLO and INFO: what a client and an operator want to know first. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/time.h"
#include "daemon/server.h"

const char tn_daemon_version[] = TENURE_VERSION;

static void reply_hello(struct tn_call *call)
{
    struct tn_resp_out *out = tn_reply(call, 512);

    if (out == NULL)
        return;
    tn_resp_put_map(out, 7);
    tn_resp_put_text(out, "server");
    tn_resp_put_text(out, "tenured");
    tn_resp_put_text(out, "version");
    tn_resp_put_text(out, tn_daemon_version);
    tn_resp_put_text(out, "proto");
    tn_resp_put_int(out, out->resp3 ? 3 : 2);
    tn_resp_put_text(out, "id");
    tn_resp_put_u64(out, call->conn->id);
    tn_resp_put_text(out, "mode");
    tn_resp_put_text(out, call->server->agent != NULL ? "agent" : "standalone");
    tn_resp_put_text(out, "role");
    tn_resp_put_text(out, "master"); /* Redis's word, which its clients look for. */
    tn_resp_put_text(out, "modules");
    tn_resp_put_array(out, 0);
}

/* HELLO [2|3 [AUTH USER PASSWORD] [SETNAME NAME]] */
void tn_cmd_hello(struct tn_call *call)
{
    uint64_t proto = call->conn->out.resp3 ? 3 : 2;

    if (call->count > 1 && (!tn_word_u64(call, 1, "the protocol's version", &proto)))
        return;
    if (proto != 2 && proto != 3) {
        tn_reply_error(call, "NOPROTO this daemon speaks versions 2 and 3");
        return;
    }
    for (uint32_t i = 2; i < call->count; i++) {
        if (tn_resp_is(&call->words[i], "AUTH") && i + 2 < call->count) {
            if (!tn_authenticate(call, i + 1))
                return;
            i += 2;
            continue;
        }
        if (!tn_resp_is(&call->words[i], "SETNAME") || i + 1 >= call->count) {
            tn_reply_error(call, "ERR usage: HELLO [2|3 [AUTH USER PASSWORD] [SETNAME NAME]]");
            return;
        }
        i++;
    }
    call->conn->out.resp3 = proto == 3;
    reply_hello(call);
}

static void add_line(struct tn_text *text, const char *name, uint64_t value)
{
    tn_text_addf(text, "%s:%" PRIu64 "\r\n", name, value);
}

void tn_cmd_info(struct tn_call *call)
{
    const struct tn_server *server = call->server;
    struct tn_table_counts counts;
    char buf[8192]; /* With 16 upstreams. */
    struct tn_process process;
    struct tn_text text;
    struct tn_resp_out *out;

    if (!tn_may(call, TN_OBSERVE, NULL, 0))
        return;
    tn_table_count(server->state.table, &counts);
    tn_text_init(&text, buf, sizeof buf);
    tn_process_read(server, &process);
    tn_text_addf(&text, "# Server\r\ntenured_version:%s\r\nprocess_id:%ld\r\n", tn_daemon_version,
                 (long)getpid());
    add_line(&text, "uptime_in_seconds", (uint64_t)(process.uptime / TN_SEC(1)));
    const char *dir = server->config.journal.dir != NULL ? server->config.journal.dir : "";
    tn_text_add(&text, "data_directory:");
    tn_text_escape(&text, dir, strlen(dir));
    tn_text_add(&text, "\r\n\r\n# Process\r\n");
    add_line(&text, "used_memory_rss", process.memory);
    add_line(&text, "open_fds", process.fds);
    add_line(&text, "max_fds", process.fds_max);
    tn_text_addf(&text, "used_cpu_seconds:%.3f\r\n", process.cpu_seconds);
    tn_text_add(&text, "\r\n# Leases\r\n");
    add_line(&text, "sessions", counts.sessions);
    add_line(&text, "names", counts.leases);
    add_line(&text, "waiters", counts.waiters);
    add_line(&text, "fences", server->state.fences.count);
    add_line(&text, "fences_removed", server->state.fences.removed);
    add_line(&text, "highest_token", tn_table_token(server->state.table));
    tn_text_add(&text, "\r\n# Clients\r\n");
    add_line(&text, "connected_clients", server->conn_count);
    add_line(&text, "maxclients", server->config.conns_max);
    add_line(&text, "watches", server->watch_count);
    tn_text_add(&text, "\r\n# Stats\r\n");
    add_line(&text, "total_connections_received", server->next_id);
    add_line(&text, "total_commands_processed", server->count.commands);
    add_line(&text, "grants", server->count.grants);
    add_line(&text, "renewals", server->count.renewals);
    add_line(&text, "refusals", server->count.refusals);
    add_line(&text, "sessions_expired", server->count.expired);
    tn_agent_info(call->server, &text);
    tn_text_add(&text, "\r\n# Journal\r\n");
    add_line(&text, "journal_flushes", server->journal.flushes);
    add_line(&text, "journal_frame", server->journal.seq);
    add_line(&text, "journal_bytes", server->journal.grown_bytes);
    add_line(&text, "disk_full", server->journal.disk_full);
    out = tn_reply(call, sizeof buf + TN_RESP_HEAD_MAX);
    if (out != NULL)
        tn_resp_put_bulk(out, buf, text.len);
}
