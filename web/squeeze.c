/* squeeze.c - packs the sandbox's module a fifth smaller than gzip does; unsqueeze.js unpacks it.
 *
 * usage: squeeze FILE TO
 *
 * Six models predict each bit, each from other bits before it; a mixer weighs them by how well they
 * did, and an arithmetic coder spends little on what was expected. The page makes the same
 * predictions, so all of it is integers, and what changes here changes there. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { MODELS = 6, SLOT_BITS = 18, SEEN_MOST = 24, INPUT_MOST = 1 << 20 };

/* Which of the last four bytes a model looks at. */
static const uint32_t masks[MODELS] = { 0xff, 0xffff, 0xffffff, 0xffffffff, 0xffff00, 0xf0f0ff };
static uint16_t odds[MODELS << SLOT_BITS]; /* Of a one, after what a model has seen. */
static uint8_t seen[MODELS << SLOT_BITS];  /* How often it has seen that. */
static int32_t weights[256][MODELS];       /* By the bits of this byte so far. */
static int stretched[4096];                /* ln(p / (1 - p)), p of 4096; in 256ths. */
static uint32_t slots[MODELS];
static int inputs[MODELS];

/* The inverse of stretched[]. */
static int squash(int value)
{
    static const int curve[33] = {
        1,    2,    3,    6,    10,   16,   27,   45,   73,   120,  194,
        310,  488,  747,  1101, 1546, 2047, 2549, 2994, 3348, 3607, 3785,
        3901, 3975, 4022, 4050, 4068, 4079, 4085, 4089, 4092, 4093, 4094
    };

    if (value > 2047 || value < -2047)
        return value > 0 ? 4094 : 1;
    int at = (value + 2048) >> 7, part = value & 127;
    return (curve[at] * (128 - part) + curve[at + 1] * part + 64) >> 7;
}

static void prepare(void)
{
    int next = 0;

    for (int value = -2047; value <= 2047; value++)
        while (next <= squash(value))
            stretched[next++] = value;
    while (next < 4096)
        stretched[next++] = 2047;
    for (size_t i = 0; i < MODELS << SLOT_BITS; i++)
        odds[i] = 1 << 15;
    for (size_t i = 0; i < 256 * MODELS; i++)
        weights[i / MODELS][i % MODELS] = 1 << 14;
}

/* The odds of a one, of 4096, after the four bytes @before and the bits of @byte, whose first is a
 * one that only marks where they begin. */
static int predict(uint32_t before, uint32_t byte)
{
    int64_t sum = 0;

    for (uint32_t k = 0; k < MODELS; k++) {
        uint32_t hash = (before & masks[k]) * 0x9e3779b1U + byte * 0x2545f491U;
        slots[k] = k << SLOT_BITS | (hash ^ hash >> 15) * 0x85ebca6bU >> (32 - SLOT_BITS);
        inputs[k] = stretched[odds[slots[k]] >> 4];
        sum += (int64_t)weights[byte][k] * inputs[k];
    }
    return squash((int)(sum / 65536));
}

static void learn(int bit, int expected, uint32_t byte)
{
    int error = (bit << 12) - expected;

    for (uint32_t k = 0; k < MODELS; k++) {
        uint32_t at = slots[k];
        weights[byte][k] += inputs[k] * error / 1024;
        odds[at] = (uint16_t)(odds[at] + (bit * 65535 - odds[at]) * 2 / (2 * seen[at] + 3));
        seen[at] = (uint8_t)(seen[at] + (seen[at] < SEEN_MOST));
    }
}

/* The range from low to high shrinks with each bit; bytes on which both agree are written. */
static void squeeze(const unsigned char *bytes, size_t len, FILE *to)
{
    uint32_t low = 0, high = UINT32_MAX, before = 0;

    for (int shift = 0; shift < 32; shift += 8)
        putc((int)(len >> shift & 0xff), to);
    for (size_t i = 0; i < len; i++) {
        uint32_t byte = 1;
        for (int place = 7; place >= 0; place--) {
            int bit = bytes[i] >> place & 1, expected = predict(before, byte);
            uint32_t middle = low + (high - low) / 4096 * (uint32_t)expected;
            if (bit)
                high = middle;
            else
                low = middle + 1;
            learn(bit, expected, byte);
            byte = byte << 1 | (uint32_t)bit;
            for (; (low ^ high) < 1 << 24; low <<= 8, high = high << 8 | 0xff)
                putc((int)(high >> 24), to);
        }
        before = before << 8 | bytes[i];
    }
    for (int shift = 24; shift >= 0; shift -= 8)
        putc((int)(high >> shift & 0xff), to);
}

int main(int argc, char **argv)
{
    static unsigned char bytes[INPUT_MOST];
    FILE *from = argc == 3 ? fopen(argv[1], "rb") : NULL, *to = NULL;
    int failed = 1;

    if (from != NULL) {
        size_t len = fread(bytes, 1, sizeof bytes, from);
        if (len < sizeof bytes && !ferror(from) && (to = fopen(argv[2], "wb")) != NULL) {
            prepare();
            squeeze(bytes, len, to);
            failed = ferror(to);
        }
    }
    if (to != NULL && fclose(to) != 0)
        failed = 1;
    if (failed)
        fprintf(stderr, "squeeze: usage: squeeze FILE TO, of a file below %d bytes\n", INPUT_MOST);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
