/* bench_compress.c - what compressing gradients costs: encoding and decoding beside memcpy, one core, GB of gradient a second.
 *
 *     bench_compress [VALUES]
 *
 * A gradient of VALUES (4 million) float32 in pieces of 512 KiB, as a job cuts them; CPU time, the median of some rounds. One line
 * of JSON for each method: bytes on the wire for each value, GB/s of encoding (with the residual) and of decoding. */
#include "framework/tensors/random.h"
#include "pserver/wire/compress.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { PIECE = 131072, ROUNDS = 11 };

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);        /* what other processes take does not count */
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *x)
{
    qsort(x, ROUNDS, sizeof *x, ascending);
    return x[ROUNDS / 2];
}

typedef struct arrays {
    int64_t  count;
    float   *gradient, *residual, *out;
    uint8_t *payload;
} arrays;

static void *memory(int64_t bytes)
{
    void *p = aligned_alloc(64, ((size_t)bytes + 63) & ~(size_t)63);
    if (!p) {
        fprintf(stderr, "bench_compress: no memory for %lld bytes\n", (long long)bytes);
        exit(1);
    }
    return memset(p, 1, (size_t)bytes);
}

static void measure_copy(const arrays *a)
{
    double seconds[ROUNDS];

    for (int r = 0; r < ROUNDS; r++) {
        const double from = now();
        memcpy(a->out, a->gradient, (size_t)a->count * sizeof *a->out);
        seconds[r] = now() - from;
    }
    printf("{\"method\": \"memcpy\", \"bytes_per_value\": 4, \"gb_per_second\": %.2f}\n",
           4e-9 * (double)a->count / median(seconds));
}

static void measure(const arrays *a, const char *text)
{
    double      encode[ROUNDS], decode[ROUNDS];
    uint64_t    bytes = 0;
    tr_compress c;

    if (tr_compress_parse(&c, text) != TR_OK)
        exit(1);
    memset(a->residual, 0, (size_t)a->count * sizeof *a->residual);
    for (int r = 0; r < ROUNDS; r++) {
        encode[r] = decode[r] = 0;
        bytes = 0;
        for (int64_t at = 0; at < a->count; at += PIECE) {
            const int64_t n = a->count - at < PIECE ? a->count - at : PIECE;
            uint8_t      *payload = a->payload + at * 5;
            const double  from = now();
            bytes += tr_compress_encode(&c, payload, a->gradient + at, a->residual + at, n);
            const double middle = now();
            tr_compress_decode(&c, a->out + at, payload, n);
            encode[r] += middle - from;
            decode[r] += now() - middle;
        }
    }
    printf("{\"method\": \"%s\", \"bytes_per_value\": %.3f, \"encode_gb_per_second\": %.2f, \"decode_gb_per_second\": %.2f}\n", text,
           (double)bytes / (double)a->count, 4e-9 * (double)a->count / median(encode), 4e-9 * (double)a->count / median(decode));
}

int main(int argc, char **argv)
{
    static const char *const methods[] = {"fp16", "bf16", "int8", "topk(0.001)", "topk(0.01)", "topk(0.1)"};
    arrays                   a = {.count = argc > 1 ? atoll(argv[1]) : 4 << 20};

    if (a.count < 1) {
        fprintf(stderr, "usage: bench_compress [VALUES]\n");
        return 2;
    }
    a.gradient = memory(a.count * 4);
    a.residual = memory(a.count * 4);
    a.out = memory(a.count * 4);
    a.payload = memory(a.count * 5 + 64);
    tr_random_normal_f32(a.gradient, a.count, 1, 0, 0, 1e-3f);
    measure_copy(&a);
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
        measure(&a, methods[i]);
    free(a.gradient);
    free(a.residual);
    free(a.out);
    free(a.payload);
    return 0;
}
