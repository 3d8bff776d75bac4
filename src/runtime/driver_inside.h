/* driver_inside.h - what the files of the driver share: driver.c has requests, the loop and the
 * driver's life, driver_seats.c the names, driver_news.c what the store tells of them. */
#ifndef TN_RUNTIME_DRIVER_INSIDE_H
#define TN_RUNTIME_DRIVER_INSIDE_H

#include "runtime/driver.h"

struct tn_driver_req {
    struct tn_store_req req;
    struct tn_request request;
    struct tn_driver *driver;
    struct tn_driver_seat *seat; /* NULL: the session's, or the seat has left. */
    struct tn_driver_req *next;  /* In the outbox. */
    struct tn_driver_req *seat_next, **seat_prev;
    char name[];
};

static inline struct tn_driver_seat *tn_driver_seat_of(struct tn_seat *seat)
{
    return (struct tn_driver_seat *)(void *)seat; /* Its first member. */
}

static inline tenure_ns tn_driver_now(const struct tn_driver *driver)
{
    tenure_ns at = tn_clock_now(&driver->clock);
    return at > driver->candidate.now ? at : driver->candidate.now;
}

/* --- driver.c --- */
struct tn_secret tn_driver_term_secret(const struct tn_driver *driver,
                                       const struct tn_driver_seat *seat, uint64_t gen);

/* --- driver_seats.c --- */
/* The first of those whose names share a bucket with @name. */
struct tn_driver_seat **tn_driver_bucket(const struct tn_driver *driver, const char *name);
/* The loop's thread has something to do for it. */
void tn_driver_add_chore(struct tn_driver *driver, struct tn_driver_seat *seat);
/* Out of the candidate; the loop's thread disposes of it. */
void tn_driver_remove_seat(struct tn_driver *driver, struct tn_driver_seat *seat);
/* Before anything is sent under @gen, and once more when there is a token. */
void tn_driver_note_in_ledger(struct tn_driver *driver, struct tn_driver_seat *seat, uint64_t gen,
                              uint64_t token);
/* If it is leaving and has nothing to give back. */
void tn_driver_remove_if_idle(struct tn_driver *driver, struct tn_driver_seat *seat);
/* After a step that may have made any of them idle. */
void tn_driver_sweep_leaving(struct tn_driver *driver);

/* --- driver_news.c --- */
/* What the store says, in the candidate's words; @seat NULL: nobody's record. */
struct tn_record tn_driver_read_record(const struct tn_driver *driver,
                                       const struct tn_driver_seat *seat,
                                       const struct tn_store_record *record);
/* Whose label it is, before the candidate decides whether it is news. */
void tn_driver_note_leader(struct tn_driver_seat *seat, const struct tn_store_record *record);

#endif
