/* hold.c - for the tests of the embedded store: holds its write lock until it is killed.
 *
 * usage: hold FILE [SQL]
 *
 * Prints "held" when it has the lock. A process that is stopped inside a transaction is this one
 * after SIGSTOP. With SQL it stands inside COMMIT: the journal is flushed, and the file has the new
 * pages already, so that its end leaves a hot journal. */
#include <sqlite3.h>
#include <stdio.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    sqlite3 *db = NULL;

    if (argc < 2 || argc > 3 ||
        sqlite3_open_v2(argv[1], &db, SQLITE_OPEN_READWRITE, NULL) != SQLITE_OK)
        return 1;
    (void)sqlite3_busy_timeout(db, 10000);
    if (sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL) != SQLITE_OK)
        return 2;
    if (argc == 3 && (sqlite3_exec(db, argv[2], NULL, NULL, NULL) != SQLITE_OK ||
                      sqlite3_db_cacheflush(db) != SQLITE_OK))
        return 3;
    printf("held\n");
    (void)fflush(stdout);
    for (;;)
        (void)pause();
}
