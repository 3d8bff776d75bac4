/* process.c - how the daemon's own process is, for INFO and /metrics. */
#define _GNU_SOURCE
#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/time.h"
#include "daemon/server.h"
#include "runtime/clock.h"

static uint64_t resident_bytes(void)
{
    unsigned long long size, resident = 0;
    FILE *file = fopen("/proc/self/statm", "re");

    if (file == NULL)
        return 0;
    if (fscanf(file, "%llu %llu", &size, &resident) != 2)
        resident = 0;
    (void)fclose(file);
    return resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

static uint64_t open_fds(void)
{
    DIR *folder = opendir("/proc/self/fd");
    uint64_t count = 0;

    if (folder == NULL)
        return 0;
    while (readdir(folder) != NULL)
        count++;
    (void)closedir(folder);
    return count > 3 ? count - 3 : 0; /* Without "." and "..", and the folder itself. */
}

void tn_process_read(const struct tn_server *server, struct tn_process *ret_process)
{
    struct rlimit files;
    struct rusage used;

    *ret_process = (struct tn_process) { .memory = resident_bytes(),
                                         .fds = open_fds(),
                                         .uptime = tn_boottime() - server->started };
    if (getrlimit(RLIMIT_NOFILE, &files) == 0)
        ret_process->fds_max = files.rlim_cur;
    if (getrusage(RUSAGE_SELF, &used) == 0)
        ret_process->cpu_seconds = (double)used.ru_utime.tv_sec + (double)used.ru_stime.tv_sec +
                                   (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
}
