/* bench_transport.c - what the parameter server costs over the bare transport. Two programs in one file:
 *
 *     mpirun -np 2 bench_transport raw                          bare MPI loops
 *     mpirun -np 1 trireme-pserver : -np 1 bench_transport job  the same through a job
 *
 * Each prints one line of JSON. benchmarks/bench_transport.py runs both in turn and compares the medians. */
#include "pserver/trireme_dist.h"

#include <mpi.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { LARGE = 16 << 20, CHUNK = 256 << 10, CHUNKS = LARGE / CHUNK, IN_FLIGHT = 16, ROUNDS = 40, SMALL_COUNT = 2000,
       SMALL_STEPS = 10 };

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void print(const char *mode, double round_trip, double push, double pull)
{
    printf("{\"mode\": \"%s\", \"push_ack_8B_us\": %.3f, \"push_16MiB_GBps\": %.3f, \"pull_16MiB_GBps\": %.3f}\n", mode,
           round_trip * 1e6, LARGE / push * 1e-9, LARGE / pull * 1e-9);
}

/* == bare MPI ==================================================================================== */

static double ping(int rank, char *buffer)
{
    const double from = now();

    for (int i = 0; i < SMALL_COUNT * SMALL_STEPS; i++) {
        if (rank == 1)
            MPI_Send(buffer, 8, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
        MPI_Recv(buffer, 8, MPI_BYTE, 1 - rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (rank == 0)
            MPI_Send(buffer, 8, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
    }
    return (now() - from) / (SMALL_COUNT * SMALL_STEPS);
}

static void send_large(char *from, int to)
{
    MPI_Request request[CHUNKS];

    for (int i = 0; i < CHUNKS; i++) {
        if (i >= IN_FLIGHT)
            MPI_Wait(&request[i - IN_FLIGHT], MPI_STATUS_IGNORE);
        MPI_Isend(from + (size_t)i * CHUNK, CHUNK, MPI_BYTE, to, 1, MPI_COMM_WORLD, &request[i]);
    }
    MPI_Waitall(IN_FLIGHT, request + CHUNKS - IN_FLIGHT, MPI_STATUSES_IGNORE);
    MPI_Recv(from, 0, MPI_BYTE, to, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

/* Into 16 buffers that stay in cache, from there added to `sum`; or straight into `sum`. */
static void receive_large(float *sum, char *buffers, int from, int is_added)
{
    MPI_Request request[IN_FLIGHT];

    for (int i = 0; i < CHUNKS + IN_FLIGHT; i++) {
        char *const at = is_added ? buffers + (size_t)(i % IN_FLIGHT) * CHUNK : (char *)sum + (size_t)i * CHUNK;
        if (i >= IN_FLIGHT) {
            MPI_Wait(&request[i % IN_FLIGHT], MPI_STATUS_IGNORE);
            const float *part = (const float *)at;
            float       *to = sum + (size_t)(i - IN_FLIGHT) * (CHUNK / 4);
            for (int k = 0; is_added && k < CHUNK / 4; k++)
                to[k] += part[k];
        }
        if (i < CHUNKS)
            MPI_Irecv(at, CHUNK, MPI_BYTE, from, 1, MPI_COMM_WORLD, &request[i % IN_FLIGHT]);
    }
    MPI_Send(buffers, 0, MPI_BYTE, from, 2, MPI_COMM_WORLD);
}

static double best_large(int rank, int sender, float *data, char *buffers, int is_added)
{
    double best = 1e9;

    for (int i = 0; i < ROUNDS; i++) {
        MPI_Barrier(MPI_COMM_WORLD);
        const double from = now();
        if (rank == sender)
            send_large((char *)data, 1 - rank);
        else
            receive_large(data, buffers, 1 - rank, is_added);
        const double took = now() - from;
        best = took < best ? took : best;
    }
    return best;
}

static int run_raw(void)
{
    int    rank;
    float *data = calloc(1, LARGE);
    char  *buffers = calloc(IN_FLIGHT, CHUNK);

    MPI_Init(NULL, NULL);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    const double round_trip = ping(rank, buffers);
    const double push = best_large(rank, 1, data, buffers, 1), pull = best_large(rank, 0, data, buffers, 0);
    if (rank == 1)
        print("raw", round_trip, push, pull);
    MPI_Finalize();
    return 0;
}

/* == a job ======================================================================================= */

static void must(tr_status status)
{
    if (status == TR_OK)
        return;
    fprintf(stderr, "bench_transport: %s\n", tr_error());
    exit(1);
}

/* One large block, and many of 8 bytes, so that many can be pushed one after the other within a step. */
static void set_up(tr_job *job, float *data)
{
    static char         names[SMALL_COUNT + 1][2][24];
    static tr_job_block blocks[SMALL_COUNT + 1];
    static tr_job_value values[SMALL_COUNT + 1];
    static const int64_t dims[2] = {2, LARGE / 4};
    tr_program         *program = tr_program_new();
    tr_job_program      packed;
    void               *bytes;

    for (int i = 0; i <= SMALL_COUNT; i++) {
        snprintf(names[i][0], sizeof names[i][0], "p%d", i);
        snprintf(names[i][1], sizeof names[i][1], "p%d@GRAD", i);
        for (int k = 0; k < 2; k++) {
            tr_var_desc *var = tr_block_create_var(tr_program_block(program, 0), names[i][k]);
            tr_var_desc_set_kind(var, TR_KIND_TENSOR);
            tr_var_desc_set_dtype(var, TR_FP32);
            must(tr_var_desc_set_shape(var, 1, &dims[i == SMALL_COUNT]));
            tr_var_desc_set_persistable(var, k == 0);
        }
        const int64_t size = i == SMALL_COUNT ? LARGE : 8;
        blocks[i] = (tr_job_block){names[i][0], names[i][1], 0, TR_FP32, size};
        values[i] = (tr_job_value){0, names[i][0], TR_FP32, 1, &dims[i == SMALL_COUNT], data};
    }
    must(tr_program_serialize(&bytes, &packed.size, program));
    packed.bytes = bytes;
    const tr_job_spec spec = {"sync", 1, &packed, SMALL_COUNT + 1, blocks, SMALL_COUNT + 1, values, 0, NULL};
    must(tr_job_setup(job, &spec));
    tr_free(bytes);
    tr_program_free(program);
}

static int run_job(void)
{
    tr_job   *job = NULL;
    float    *data = calloc(1, LARGE), *param = calloc(1, LARGE);
    void     *to = param;
    double    round_trip = 0, push = 1e9, pull = 1e9;
    const int large = SMALL_COUNT;
    tr_ticket ticket;

    must(tr_job_start(&job, TR_ROLE_TRAINER, NULL));
    set_up(job, data);
    for (int step = 0; step < ROUNDS; step++) {
        double from = now();
        for (int i = 0; i < SMALL_COUNT; i++) {
            must(tr_job_push(job, i, data, 8, 1, &ticket));
            if (step < SMALL_STEPS)
                must(tr_job_wait(job, ticket));
        }
        must(tr_job_wait(job, ticket));
        round_trip += step < SMALL_STEPS ? now() - from : 0;
        from = now();
        must(tr_job_push(job, large, data, LARGE, 1, &ticket));
        must(tr_job_wait(job, ticket));
        const double pushed = now() - from;
        must(tr_job_step_end(job, &ticket));
        must(tr_job_wait(job, ticket));
        from = now();
        must(tr_job_pull(job, 1, &large, &to, &ticket));
        must(tr_job_wait(job, ticket));
        const double pulled = now() - from;
        push = pushed < push ? pushed : push;
        pull = pulled < pull ? pulled : pull;
    }
    must(tr_job_free(job));
    print("job", round_trip / (SMALL_COUNT * SMALL_STEPS), push, pull);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 2 && !strcmp(argv[1], "raw"))
        return run_raw();
    if (argc == 2 && !strcmp(argv[1], "job"))
        return run_job();
    fprintf(stderr, "usage: bench_transport raw | job (see the head of bench_transport.c)\n");
    return 2;
}
