/* events.h - what happens in an election, one JSON object per line, for `elect` and `watch`.
 *
 *     {"event":"won","name":"report","holder":"web1-4711","token":7,"reason":null} */
#ifndef TN_CLI_EVENTS_H
#define TN_CLI_EVENTS_H

#include "tenure/tenure.h"

/* Let @event of @name be a line of tn_cli_line. @label is our own, and so is @slot of a semaphore,
 * else 0. Events that scripts do not know of are left out. False: nobody reads any more. */
bool tn_cli_event_print(const char *name, const char *label, const struct tenure_event *event,
                        uint32_t slot);

/* Say on stderr that the name was not led with the token of @event, why, and what is done now. */
void tn_cli_refused_print(const char *verb, const char *name, const struct tenure_event *event,
                          const char *then);

#endif
