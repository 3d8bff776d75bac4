/* fence.c - how long the pure check takes, in nanoseconds: under 10 is promised.
 *
 * Prints the fastest and the median of many rounds, because a machine that does other things too
 * only ever makes it slower. Exit status 1 when even the fastest round took too long. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "tenure/fence.h"

enum { ROUNDS = 201, CALLS = 1000000, PROMISED_NS = 10 };

static double now_ns(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static int compare(const void *one, const void *two)
{
    double a = *(const double *)one, b = *(const double *)two;

    return (a > b) - (a < b);
}

int main(void)
{
    struct tenure_fence fence = { 0 };
    double rounds[ROUNDS];
    unsigned refused = 0;

    for (int i = 0; i < ROUNDS; i++) {
        double begun = now_ns();

        /* One of three is admitted, the two after it come from before. */
        for (uint64_t call = 3; call < CALLS + 3; call++)
            refused += tenure_fence_admit(&fence, (uint64_t)i * CALLS + call - call % 3 * 2) != 0;
        rounds[i] = (now_ns() - begun) / CALLS;
    }
    qsort(rounds, ROUNDS, sizeof rounds[0], compare);
    printf("pure check: fastest %.1f ns, median %.1f ns, promised under %d ns (%u refused)\n",
           rounds[0], rounds[ROUNDS / 2], PROMISED_NS, refused);
    return rounds[0] < PROMISED_NS ? EXIT_SUCCESS : EXIT_FAILURE;
}
