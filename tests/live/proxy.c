/* proxy.c - a TCP proxy on loopback that hurts its connections on request.
 *
 * usage: proxy PORT          prints the port it listens on; PORT is where the server is
 *
 * Words on stdin say what it does from then on, to old connections and to new ones; each is printed
 * once it holds:
 *   pass     forwards                       cut      closes all, and lets new ones through
 *   stall    forwards nothing, half-open    refuse   closes all, and every new one at once
 *   up/down  forwards only to / only from the server; what goes the other way is lost
 *   trickle [N]  forwards N bytes per second (50) of what the server says
 *   reset    leaves unread what the client says and closes, which resets the connection
 *   mutate [SEED]  damages every third piece of what the server says, at random
 *   damaged  prints in how many pieces it has done so
 *   echo [N]  lets nothing through; whatever the client says, its answer is the last piece of at
 *            least N bytes (1) that the server has said before
 * It ends when stdin does. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/prng.h"
#include "base/time.h"
#include "runtime/clock.h"

enum { PAIRS = 128, PIECE = 65536, TRICKLE = 50, TICK_MS = 20 };
enum mode { PASS, STALL, UP, DOWN, TRICKLING, REFUSE, RESET, MUTATE, ECHO };
enum side { CLIENT, SERVER };

/* What a server has said lately, for those who say it again. */
enum { HISTORY = 8, HISTORY_PIECE = 4096 };
struct history {
    char piece[HISTORY][HISTORY_PIECE];
    size_t len[HISTORY];
    unsigned count;
};

static struct {
    int side[2];
    bool lossy; /* Something was lost: TCP would not let it live on as if nothing was. */
    struct history said;
} pairs[PAIRS];
static unsigned count;
static enum mode mode = PASS;
static int64_t rate;        /* TRICKLING: bytes per second, */
static tenure_ns since;     /* from then on; */
static int64_t let_through; /* so many of each connection's since. */

static struct sockaddr_in loopback(uint16_t port)
{
    return (struct sockaddr_in) { .sin_family = AF_INET,
                                  .sin_port = htons(port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
}

static void drop(unsigned i)
{
    (void)close(pairs[i].side[CLIENT]);
    (void)close(pairs[i].side[SERVER]);
    pairs[i] = pairs[--count];
}

static void take_in(int listener, uint16_t port)
{
    struct sockaddr_in to = loopback(port);
    int client = accept(listener, NULL, NULL);
    int server = socket(AF_INET, SOCK_STREAM, 0);

    if (client >= 0 && server >= 0 && mode != REFUSE && count < PAIRS &&
        connect(server, (struct sockaddr *)&to, sizeof to) == 0) {
        pairs[count].side[CLIENT] = client;
        pairs[count].side[SERVER] = server;
        pairs[count].said.count = 0;
        pairs[count++].lossy = false;
        return;
    }
    (void)close(client);
    (void)close(server);
}

/* --- Damage ----------------------------------------------------------------------------------- */

static struct tn_prng prng;
static unsigned damaged;
static size_t echo_min;

static void remember(struct history *said, const char *piece, size_t len)
{
    unsigned at = said->count % HISTORY;

    if (len > HISTORY_PIECE)
        return;
    memcpy(said->piece[at], piece, len);
    said->len[at] = len;
    said->count++;
}

/* The newest of at least @least bytes; HISTORY: none. */
static unsigned recall(const struct history *said, size_t least)
{
    for (unsigned back = 1; back <= HISTORY && back <= said->count; back++) {
        unsigned at = (said->count - back) % HISTORY;
        if (said->len[at] >= least)
            return at;
    }
    return HISTORY;
}

static size_t draw(size_t below)
{
    return below > 0 ? (size_t)tn_prng_below(&prng, below) : 0;
}

static void scribble(char *piece, size_t len)
{
    for (size_t i = 0; i < len; i++)
        piece[i] = (char)draw(256);
}

/* A number that a length, a count or a code would not be; or any. */
static void write_number(char *piece, size_t len, size_t at)
{
    static const uint32_t numbers[] = { 0,          1,          15,       0xffffffff,
                                        0x7fffffff, 0x80000000, 0x100000, 0xfffffff8 };
    uint32_t number = draw(2) == 0 ? numbers[draw(8)] : (uint32_t)tn_prng_next(&prng);

    for (size_t i = 0; i < 4 && at + i < len; i++)
        piece[at + i] = (char)(number >> (24 - 8 * i));
}

/* Returns the new length; @piece has room for PIECE bytes. */
static size_t damage(char *piece, size_t len, const struct history *said)
{
    size_t at = draw(len), span = draw(len - at), extra = 1 + draw(64);
    unsigned old = (unsigned)draw(HISTORY);

    if (len < 4 || len > PIECE / 2 || draw(3) != 0)
        return len;
    damaged++;
    switch (draw(9)) {
    case 0: /* Bytes. */
        for (size_t i = draw(8); i < 8; i++)
            piece[draw(len)] ^= (char)(1 << draw(8));
        return len;
    case 1: /* The end is missing. */
        return at;
    case 2:
        scribble(piece, len);
        return len;
    case 3: /* Something in between. */
        memmove(piece + at + extra, piece + at, len - at);
        scribble(piece + at, extra);
        return len + extra;
    case 4: /* Lengths, the first one most of all. */
        write_number(piece, len, 0);
        return len;
    case 5: /* To what it is an answer. */
        write_number(piece, len, 4);
        return len;
    case 6: /* Twice. */
        memcpy(piece + len, piece, len);
        return 2 * len;
    case 7: /* An old one instead. */
        if (old >= said->count)
            return 0;
        memcpy(piece, said->piece[old], said->len[old]);
        return said->len[old];
    default:
        write_number(piece, len, at);
        memmove(piece + at, piece + at + span / 2, len - at - span / 2);
        return len - span / 2;
    }
}

/* Instead of what was said: in @piece what is passed on, its length is returned. */
static size_t pervert(unsigned i, enum side side, char *piece, size_t len)
{
    const struct history *said = &pairs[i].said;

    if (side == SERVER && mode == MUTATE) {
        size_t left = damage(piece, len, said);
        pairs[i].lossy = pairs[i].lossy || left != len;
        return left;
    }
    if (mode == ECHO) {
        unsigned at = recall(said, echo_min);
        pairs[i].lossy = true;
        if (side == CLIENT && at < HISTORY)
            (void)send(pairs[i].side[CLIENT], said->piece[at], said->len[at], MSG_NOSIGNAL);
        return 0;
    }
    if (side == SERVER)
        remember(&pairs[i].said, piece, len);
    return len;
}

/* Up to @most bytes from @side to the other. False: the connection is over. */
static bool forward(unsigned i, enum side side, size_t most)
{
    static char piece[PIECE];

    if (mode == RESET)
        return false;
    ssize_t len = read(pairs[i].side[side], piece, most < sizeof piece ? most : sizeof piece);
    bool lost = mode == (side == CLIENT ? DOWN : UP);
    ssize_t rest = len > 0 ? (ssize_t)pervert(i, side, piece, (size_t)len) : len;

    for (ssize_t at = 0; at < rest && !lost;) {
        ssize_t sent = send(pairs[i].side[!side], piece + at, (size_t)(rest - at), MSG_NOSIGNAL);
        if (sent <= 0)
            return false;
        at += sent;
    }
    pairs[i].lossy = pairs[i].lossy || lost;
    return len > 0;
}

/* False: no more words. */
static bool hear_word(void)
{
    static const char *const words[] = { "pass",   "stall", "up",     "down", "trickle",
                                         "refuse", "reset", "mutate", "echo" };
    char line[64], word[64];

    if (fgets(line, sizeof line, stdin) == NULL)
        return false;
    line[strcspn(line, "\n")] = '\0';
    (void)snprintf(word, sizeof word, "%.*s", (int)strcspn(line, " "), line);
    if (strcmp(word, "damaged") == 0) {
        printf("damaged %u\n", damaged);
        return fflush(stdout) == 0;
    }
    bool cut = strcmp(word, "cut") == 0 || strcmp(word, "refuse") == 0;
    for (unsigned i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strcmp(word, words[i]) == 0)
            mode = (enum mode)i;
    if (mode == TRICKLING) {
        rate = line[strlen(word)] != '\0' ? strtol(line + strlen(word), NULL, 10) : TRICKLE;
        since = tn_boottime();
        let_through = 0;
    }
    if (mode == MUTATE)
        tn_prng_seed(&prng, strtoul(line + strlen(word), NULL, 10));
    if (mode == ECHO)
        echo_min = line[strlen(word)] != '\0' ? strtoul(line + strlen(word), NULL, 10) : 1;
    for (unsigned i = count; i > 0; i--)
        if (cut || (mode == PASS && pairs[i - 1].lossy))
            drop(i - 1);
    printf("%s\n", line);
    return fflush(stdout) == 0;
}

/* Which side is waited for: a server that trickles has its own time. */
static short wanted(unsigned slot)
{
    return mode == STALL || (mode == TRICKLING && slot % 2 == SERVER) ? 0 : POLLIN;
}

static void serve_pairs(const struct pollfd *fds)
{
    int64_t due = 0;

    if (mode == TRICKLING)
        due = (tn_boottime() - since) / TN_MS(1) * rate / 1000 - let_through;
    let_through += due;
    for (unsigned i = count; i > 0; i--) {
        const struct pollfd *pair = &fds[2 * (i - 1)];
        struct pollfd said = { .fd = pairs[i - 1].side[SERVER], .events = POLLIN };
        bool alive = pair[CLIENT].revents == 0 || forward(i - 1, CLIENT, PIECE);
        if (alive && pair[SERVER].revents != 0)
            alive = forward(i - 1, SERVER, PIECE);
        if (alive && due > 0 && poll(&said, 1, 0) > 0)
            alive = forward(i - 1, SERVER, (size_t)due);
        if (!alive)
            drop(i - 1); /* Those behind it have been served. */
    }
}

/* While nothing passes, what arrives is left where it is. */
static void serve(int listener, uint16_t port)
{
    for (;;) {
        struct pollfd fds[2 + 2 * PAIRS] = { { .fd = STDIN_FILENO, .events = POLLIN },
                                             { .fd = listener, .events = POLLIN } };
        for (unsigned i = 0; i < 2 * count; i++) {
            short events = wanted(i);
            fds[2 + i] = (struct pollfd) { .fd = events != 0 ? pairs[i / 2].side[i % 2] : -1,
                                           .events = events };
        }
        if (poll(fds, 2 + 2 * count, mode == TRICKLING ? TICK_MS : -1) < 0)
            return;
        if (fds[0].revents != 0) {
            if (!hear_word())
                return;
            continue; /* The pairs may be others now. */
        }
        serve_pairs(fds + 2);
        if (fds[1].revents != 0)
            take_in(listener, port);
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
