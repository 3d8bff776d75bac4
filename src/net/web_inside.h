/* web_inside.h - what the parts of the HTTP client share: web.c drives libcurl, web_prepare.c tells
 * it what to send. */
#ifndef TN_NET_WEB_INSIDE_H
#define TN_NET_WEB_INSIDE_H

#include <curl/curl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "net/web.h"

enum { TN_WEB_QUIETS = 8 };

/* A host that asks for fewer requests. */
struct tn_web_quiet {
    char where[272]; /* Empty: none. */
    char why[TN_ERROR_TEXT];
    uint64_t until_ms, urgent_ms; /* By the loop's clock: until when nothing is sent there. */
    unsigned times;               /* In a row. */
};

struct tn_web {
    uv_loop_t *loop;
    CURLM *multi;
    struct tn_web_work *works;
    struct tn_web_req *failed;     /* There was no memory for their work. */
    struct tn_web_options options; /* Its texts are the client's own. */
    uv_timer_t timer;
    uv_idle_t turn;
    unsigned handles; /* Of the loop. */
    struct tn_web_quiet quiets[TN_WEB_QUIETS];
    bool doubtful; /* The last request had no answer: kept connections may be dead. */
    bool closing;
    void (*closed)(void *arg);
    void *closed_arg;
};

struct tn_web_work {
    struct tn_web_work *next;
    struct tn_web *web;
    struct tn_web_req *req;
    CURL *easy;
    struct curl_slist *headers;
    size_t size;    /* Of the body's memory. */
    unsigned sends; /* How often the request went out, or was about to. */
    int fault;      /* Found before it was handed to libcurl; 0: none. */
    bool hushed;    /* Not sent, because the host wants to be left alone; the error says so. */
    bool added;     /* libcurl has it. */
    bool cancelled; /* Or the stream's reader had enough. */
    bool too_long;  /* The body. */
    bool out_of_memory;
    bool idempotent;
    char detail[CURL_ERROR_SIZE];
    char where[272];
};

/* Fills in the handle of a request; @work->fault tells what is wrong with it. */
void tn_web_prepare(struct tn_web_work *work);

/* Why a request to the host @where is not to be sent now; NULL: it may be. */
const char *tn_web_hush(struct tn_web *web, const struct tn_web_req *req, const char *where);
/* The host has answered well. */
void tn_web_end_quiet(struct tn_web *web, const char *where);

/* NULL: there is none. The caller frees it with curl_free. */
char *tn_web_url_part(CURLU *url, CURLUPart part, unsigned flags);

#endif
