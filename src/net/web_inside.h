/* web_inside.h - what the parts of the HTTP client share: web.c drives libcurl, web_prepare.c tells
 * it what to send. */
#ifndef TN_NET_WEB_INSIDE_H
#define TN_NET_WEB_INSIDE_H

#include <curl/curl.h>
#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

#include "net/web.h"

struct tn_web {
    uv_loop_t *loop;
    CURLM *multi;
    struct tn_web_work *works;
    struct tn_web_req *failed;     /* There was no memory for their work. */
    struct tn_web_options options; /* Its texts are the client's own. */
    uv_timer_t timer;
    uv_idle_t turn;
    unsigned handles; /* Of the loop. */
    bool doubtful;    /* The last request had no answer: kept connections may be dead. */
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

/* NULL: there is none. The caller frees it with curl_free. */
char *tn_web_url_part(CURLU *url, CURLUPart part, unsigned flags);

#endif
