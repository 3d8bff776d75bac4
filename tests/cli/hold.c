/* hold.c - for the tests of the embedded store: holds its write lock until it is killed.
 *
 * usage: hold FILE
 *
 * Prints "held" when it has the lock. A process that is stopped inside a transaction is this one
 * after SIGSTOP. */
#include <sqlite3.h>
#include <stdio.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    sqlite3 *db = NULL;

    if (argc != 2 || sqlite3_open_v2(argv[1], &db, SQLITE_OPEN_READWRITE, NULL) != SQLITE_OK)
        return 1;
    (void)sqlite3_busy_timeout(db, 10000);
    if (sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL) != SQLITE_OK)
        return 2;
    printf("held\n");
    (void)fflush(stdout);
    for (;;)
        (void)pause();
}
