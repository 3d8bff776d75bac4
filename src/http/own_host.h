/* own_host.h - whether a request comes from a page of ours, and not from one of another site.
 *
 * A page from elsewhere can have its name turned to 127.0.0.1 (DNS rebinding), and its requests
 * then come from here. The browser still sends that name in Host. Pure. Threads: any. */
#ifndef TN_HTTP_OWN_HOST_H
#define TN_HTTP_OWN_HOST_H

#include <stdbool.h>

#include "wire/http.h"

/* Whether @host, the field Host of a request, is "localhost" or an address of the loopback, each
 * with or without a port. */
bool tn_own_host(const char *host);

/* Why the request is refused: its Host, Origin or Sec-Fetch-Site is another site's. NULL: it is
 * not. With @secure the certificate vouches for the name in Host. A link from elsewhere may lead to
 * a @page: opening it does nothing yet. */
const char *tn_own_request(const struct tn_http_head *head, bool secure, bool page);

#endif
