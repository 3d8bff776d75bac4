/* postgres.h - leases in a PostgreSQL database: postgres://user@host/database?options
 *
 * The URL is libpq's, and so is the environment (PGPASSFILE, PGSSLROOTCERT, ...), with two
 * differences: sslmode is verify-full unless the URL says otherwise, and two options are ours:
 *
 *   listen=off          do not listen for news (behind a pooler); listen=HOST:PORT listens there
 *   durability=relaxed  accept a server with fsync off; the class is advisory then
 *
 * Class strict: what was answered is flushed. Nothing depends on the server's clock. Guarantees,
 * layout and what is refused: docs/stores/postgres.md. */
#ifndef TN_STORES_POSTGRES_POSTGRES_H
#define TN_STORES_POSTGRES_POSTGRES_H

#include "runtime/store.h"

extern const struct tn_store_ops tn_postgres_store_ops;
extern const struct tn_store_ops tn_postgresql_store_ops; /* The same, as libpq also spells it. */

#endif
