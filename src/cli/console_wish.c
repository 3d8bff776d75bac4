/* console_wish.c - a hand-over that the page asks for, on any store; console.h has the contract.
 *
 * Happy path: read who holds the name, open a session, leave the note that names this term
 * (core/note.h), answer the page; when a later term is seen, or after WISH_TTL, end the session and
 * with it the note. The page follows the lease itself.
 * What can fail: the term is another one by now, another wish is in force, the store is away. The
 * console may end before: then the note ends with its TTL. */
#define _GNU_SOURCE
#include "cli/console.h"

#ifdef TENURE_CONSOLE

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/time.h"
#include "runtime/note_name.h"
#include "runtime/random.h"

#define WISH_TTL TN_SEC(30)

struct console_wish {
    struct tn_store_req req; /* First; one at a time. */
    struct tn_list_node node;
    struct tn_console *console;
    tn_wish_done *done; /* NULL: it has been called. */
    void *arg;
    uint64_t token;
    bool busy;   /* The request is under way. */
    bool over;   /* The note is of no use any more. */
    bool opened; /* There is a session to end. */
    tenure_ns until;
    struct tn_secret session, term;
    char name[TN_NAME_MAX + 1], note[TN_NAME_MAX + 1], text[64];
};

static struct console_wish *wish_of(struct tn_list_node *node)
{
    return (struct console_wish *)((char *)node - offsetof(struct console_wish, node));
}

static void answer(struct console_wish *wish, int status, enum tn_answer answer, const char *text)
{
    tn_wish_done *done = wish->done;

    wish->done = NULL;
    if (done != NULL)
        done(wish->arg, status, answer, text);
}

static void submit(struct console_wish *wish, enum tn_op_kind kind,
                   void (*done)(struct tn_store_req *))
{
    const struct tn_store_ops *ops = wish->console->store->ops;
    struct tn_op op = { .kind = kind };

    if (kind == TN_OP_READ || kind == TN_OP_ACQUIRE) {
        op.name = kind == TN_OP_READ ? wish->name : wish->note;
        op.name_len = (uint32_t)strlen(op.name);
    }
    if (kind != TN_OP_READ)
        op.session = wish->session;
    if (kind == TN_OP_ACQUIRE)
        op.term = wish->term;
    if (kind == TN_OP_ACQUIRE || kind == TN_OP_OPEN) {
        op.label = wish->text;
        op.label_len = (uint32_t)strlen(wish->text);
    }
    if (kind == TN_OP_OPEN) {
        op.ttl = WISH_TTL < ops->ttl_min ? ops->ttl_min : WISH_TTL;
        op.ttl = op.ttl > ops->ttl_max ? ops->ttl_max : op.ttl;
        op.seq = (ops->caps & TN_STORE_BOUND) != 0;
    }
    wish->req = (struct tn_store_req) { .op = op, .done = done };
    wish->busy = true;
    tn_store_submit(wish->console->store, &wish->req);
}

static void wish_free(struct console_wish *wish)
{
    tn_list_remove(&wish->node);
    free(wish);
}

static void hear_closed(struct tn_store_req *req)
{
    wish_free((struct console_wish *)req);
}

/* No further step, and what there is of the note ends. */
static void end(struct console_wish *wish)
{
    if (wish->opened && !wish->console->ending)
        submit(wish, TN_OP_CLOSE, hear_closed);
    else
        wish_free(wish);
}

/* Whether the step has failed; then that is told. */
static bool has_failed(struct console_wish *wish)
{
    if (wish->req.status == 0)
        return false;
    answer(wish, wish->req.status, TN_ANSWER_OK, wish->req.error);
    return true;
}

static void hear_acquired(struct tn_store_req *req)
{
    struct console_wish *wish = (struct console_wish *)req;

    wish->busy = false;
    if (!has_failed(wish) && req->answer == TN_ANSWER_GRANTED) {
        wish->until = tn_console_now(wish->console) + WISH_TTL;
        answer(wish, 0, TN_ANSWER_OK, "");
        if (!wish->over)
            return;
    }
    if (wish->done != NULL) {
        char text[TN_LABEL_MAX + 80];
        (void)snprintf(text, sizeof text, "another operator's wish is in force: %.*s",
                       (int)req->record.label_len, req->record.label);
        if (req->answer == TN_ANSWER_HELD)
            answer(wish, 0, TN_ANSWER_HELD, text);
        else
            answer(wish, TENURE_E_UNAVAILABLE, TN_ANSWER_OK, "the store did not take the note");
    }
    end(wish);
}

static void hear_opened(struct tn_store_req *req)
{
    struct console_wish *wish = (struct console_wish *)req;

    wish->opened = true; /* Perhaps, if it has failed. */
    if (has_failed(wish))
        end(wish);
    else
        submit(wish, TN_OP_ACQUIRE, hear_acquired);
}

static void hear_holder(struct tn_store_req *req)
{
    struct console_wish *wish = (struct console_wish *)req;

    if (has_failed(wish)) {
        end(wish);
    } else if (!req->record.held || req->record.token != wish->token) {
        answer(wish, 0, TN_ANSWER_STALE, "");
        end(wish);
    } else {
        submit(wish, TN_OP_OPEN, hear_opened);
    }
}

bool tn_wish_handover(struct tn_console *console, const char *name, uint64_t token,
                      tn_wish_done *done, void *arg)
{
    struct console_wish *wish = calloc(1, sizeof *wish);

    if (wish == NULL)
        return false;
    wish->console = console;
    wish->token = token;
    wish->until = TN_NEVER;
    wish->done = done;
    wish->arg = arg;
    memcpy(wish->name, name, strlen(name) + 1);
    (void)snprintf(wish->text, sizeof wish->text, "handover token=%" PRIu64, token);
    if (!tn_note_name_ask(name, wish->note) || tn_random_secret(&wish->session) != 0 ||
        tn_random_secret(&wish->term) != 0) {
        free(wish);
        return false;
    }
    tn_list_add(&console->wishes, &wish->node);
    submit(wish, TN_OP_READ, hear_holder);
    return true;
}

void tn_wish_see(struct tn_console *console, const char *name, const struct tn_store_record *record)
{
    struct tn_list_node *ends = &console->wishes.ends;

    for (struct tn_list_node *node = ends->next; node != ends; node = node->next)
        if (record->token > wish_of(node)->token && strcmp(wish_of(node)->name, name) == 0)
            wish_of(node)->over = true;
}

void tn_wish_tick(struct tn_console *console)
{
    struct tn_list_node *ends = &console->wishes.ends;
    tenure_ns now = tn_console_now(console);

    for (struct tn_list_node *node = ends->next, *next; node != ends; node = next) {
        struct console_wish *wish = wish_of(node);
        next = node->next;
        if (!wish->busy && (wish->over || now >= wish->until))
            end(wish);
    }
}

void tn_wish_close(struct tn_console *console)
{
    struct tn_list_node *ends = &console->wishes.ends;

    while (ends->next != NULL && ends->next != ends)
        wish_free(wish_of(ends->next));
}

#else
extern int tn_no_console_wish; /* Without the page nobody wishes. */
#endif
