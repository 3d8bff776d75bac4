/* proxy.c - a TCP proxy on loopback that breaks connections on request.
 *
 * usage: proxy PORT          prints the port it listens on; PORT is where the server is
 *
 * Words on stdin say what it does from then on, to old connections and to new ones:
 *   pass     forwards                       cut      closes all, and lets new ones through
 *   stall    forwards nothing, half-open    up/down  forwards only to / only from the server
 *   trickle  a few bytes at a time          refuse   closes all, and every new one at once
 * It ends when stdin does. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PAIRS = 64, PIECE = 65536, TRICKLE = 16, TRICKLE_MS = 5 };
enum mode { PASS, STALL, UP, DOWN, TRICKLING, REFUSE };

static struct {
    int side[2]; /* Client, server. */
} pairs[PAIRS];
static unsigned count;
static enum mode mode = PASS;

static struct sockaddr_in loopback(uint16_t port)
{
    return (struct sockaddr_in) { .sin_family = AF_INET,
                                  .sin_port = htons(port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
}

static void drop(unsigned i)
{
    (void)close(pairs[i].side[0]);
    (void)close(pairs[i].side[1]);
    pairs[i] = pairs[--count];
}

static void take_in(int listener, uint16_t port)
{
    struct sockaddr_in to = loopback(port);
    int client = accept(listener, NULL, NULL);
    int server = socket(AF_INET, SOCK_STREAM, 0);

    if (client >= 0 && server >= 0 && mode != REFUSE && count < PAIRS &&
        connect(server, (struct sockaddr *)&to, sizeof to) == 0) {
        pairs[count].side[0] = client;
        pairs[count++].side[1] = server;
        return;
    }
    (void)close(client);
    (void)close(server);
}

/* Whether what comes from @side goes on to the other. */
static bool passes(int side)
{
    return mode == PASS || mode == TRICKLING || (mode == UP && side == 0) ||
           (mode == DOWN && side == 1);
}

/* False: the connection is over. */
static bool forward(unsigned i, int side)
{
    static char piece[PIECE];
    ssize_t len = read(pairs[i].side[side], piece, mode == TRICKLING ? TRICKLE : sizeof piece);

    for (ssize_t at = 0; at < len && passes(side);) {
        ssize_t sent = write(pairs[i].side[!side], piece + at, (size_t)(len - at));
        if (sent <= 0)
            return false;
        at += sent;
    }
    return len > 0;
}

/* False: no more words. */
static bool hear_word(void)
{
    static const char *const words[] = { "pass", "stall", "up", "down", "trickle", "refuse" };
    char word[64];

    if (fgets(word, sizeof word, stdin) == NULL)
        return false;
    word[strcspn(word, "\n")] = '\0';
    bool cut = strcmp(word, "cut") == 0 || strcmp(word, "refuse") == 0;
    for (unsigned i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strcmp(word, words[i]) == 0)
            mode = (enum mode)i;
    while (cut && count > 0)
        drop(0);
    printf("%s\n", word);
    return fflush(stdout) == 0;
}

/* While nothing passes, what arrives is left where it is; one way, it is read and lost. */
static void serve(int listener, uint16_t port)
{
    for (;;) {
        struct pollfd fds[2 + 2 * PAIRS] = { { .fd = 0, .events = POLLIN },
                                             { .fd = listener, .events = POLLIN } };
        unsigned polled = mode == STALL ? 0 : count;
        for (unsigned i = 0; i < 2 * polled; i++)
            fds[2 + i] = (struct pollfd) { .fd = pairs[i / 2].side[i % 2], .events = POLLIN };
        if (poll(fds, 2 + 2 * polled, -1) < 0)
            return;
        if (fds[0].revents != 0 && !hear_word())
            return;
        if (fds[0].revents == 0) {
            for (unsigned i = 2 * polled; i > 0; i--) {
                if (fds[1 + i].revents != 0 && !forward((i - 1) / 2, (int)((i - 1) % 2))) {
                    drop((i - 1) / 2);
                    break; /* Another has taken its place. */
                }
            }
        }
        if (fds[1].revents != 0)
            take_in(listener, port);
        if (mode == TRICKLING)
            (void)poll(NULL, 0, TRICKLE_MS);
    }
}

int main(int argc, char **argv)
{
    struct sockaddr_in at = loopback(0);
    socklen_t len = sizeof at;
    int listener = socket(AF_INET, SOCK_STREAM, 0);

    if (argc != 2 || listener < 0 || bind(listener, (struct sockaddr *)&at, len) != 0 ||
        listen(listener, 16) != 0 || getsockname(listener, (struct sockaddr *)&at, &len) != 0) {
        (void)fprintf(stderr, "usage: proxy PORT\n");
        return 64;
    }
    (void)setvbuf(stdin, NULL, _IONBF, 0);
    printf("%d\n", ntohs(at.sin_port));
    (void)fflush(stdout);
    serve(listener, (uint16_t)strtoul(argv[1], NULL, 10));
    return 0;
}
