/* serve.c - a model that several threads run, and that is exchanged for a newer export meanwhile.
 *
 *     cc serve.c $(pkg-config --cflags --libs trireme) -pthread -o serve
 *     ./serve model 1000                                 # runs, in each of four threads
 *
 * The feed must be one array of float32; it is fed with ones. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "trireme_serving.h"

enum { THREADS = 4 };

typedef struct server {
    tr_predictor *predictor;
    int           runs;
} server;

static void check(tr_status status)
{
    if (status == TR_OK)
        return;
    fprintf(stderr, "serve: %s\n", tr_error());
    exit(1);
}

/* One row of ones, as large as the model wants. */
static float *ones(tr_predictor *predictor, int64_t *dims, int *rank)
{
    tr_dtype dtype;
    int      lod_level;
    int64_t  count = 1;

    check(tr_predictor_feed_type(predictor, 0, &dtype, rank, dims, &lod_level));
    if (dtype != TR_FP32 || tr_predictor_feed_count(predictor) != 1) {
        fprintf(stderr, "serve: the model takes something other than one array of float32\n");
        exit(1);
    }
    for (int d = 0; d < *rank; d++)
        count *= dims[d] = dims[d] < 0 ? 1 : dims[d];
    float *data = malloc((size_t)count * sizeof *data);
    for (int64_t i = 0; data && i < count; i++)
        data[i] = 1;
    return data;
}

static void *run(void *payload)
{
    const server *server = payload;
    int64_t       dims[TR_MAX_RANK];
    int           rank;
    float        *data = ones(server->predictor, dims, &rank);
    const tr_feed feed = {.dtype = TR_FP32, .rank = rank, .dims = dims, .data = data};
    tr_tensor    *result = tr_tensor_new();

    for (int i = 0; i < server->runs; i++)
        check(tr_predictor_run(server->predictor, &feed, &result));
    printf("%g\n", (double)*(const float *)tr_tensor_data(result));
    tr_tensor_free(result);
    free(data);
    return NULL;
}

int main(int argc, char **argv)
{
    tr_predictor *predictor = NULL;
    pthread_t     thread[THREADS];
    bool          is_new;

    if (argc < 3) {
        fprintf(stderr, "usage: serve MODEL_DIRECTORY RUNS\n");
        return 2;
    }
    check(tr_predictor_load(&predictor, argv[1]));
    server all = {predictor, atoi(argv[2])};
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&thread[i], NULL, run, &all))
            return 1;
    check(tr_predictor_refresh(predictor, &is_new));       /* of a folder of exports; a saved model stays as it is */
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    tr_predictor_free(predictor);
    return 0;
}
