/* bench_transport.c - what the parameter server costs over the bare transport and memory. Its sides are modes of one program:
 *
 *     mpirun -np 2 bench_transport raw                                bare MPI loops; triad
 *     mpirun -np 1 trireme-pserver : -np 1 bench_transport MODE       the same through a job
 *
 *     push    pushes and pulls without an optimizer: round trips, small requests, 16 MiB, bytes on the wire
 *     sgd     16 MiB pushed and applied, by the operator sgd
 *     adam    the same by adam
 *     step    (two trainers) steps of a millisecond of computing, 64 KiB pushed and pulled
 *     overlap 8 layers of 2 MiB, SGD: gradients leave as they come, a layer is computed when its parameters are here
 *     idle    (two servers, two trainers) round trips, and the processor time of ranks that wait
 *
 * Each prints one line of JSON. benchmarks/bench_transport.py runs all in turn and compares them. What is told of repeated
 * measurements is their lower quartile, on all sides: other programs want the processors, too. */
#include "framework/base/compiler.h"
#include "framework/base/memory.h"
#include "framework/base/status.h"
#include "pserver/trireme_dist.h"

#include <mpi.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { LARGE = 16 << 20, CHUNK = 256 << 10, CHUNKS = LARGE / CHUNK, IN_FLIGHT = 16, ROUNDS = 40, SMALL_COUNT = 2000, SMALL_STEPS = 10,
       REQUEST = 1024, STEP_BYTES = 64 << 10, STEPS = 200, PINGS = SMALL_COUNT * SMALL_STEPS };

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* == samples ===================================================================================== */

typedef struct samples {
    int    count;
    double seconds[PINGS];             /* of the first ones */
} samples;

static void note(samples *s, double seconds)
{
    if (s->count < PINGS)
        s->seconds[s->count++] = seconds;
}

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double good(samples *s)
{
    qsort(s->seconds, (size_t)s->count, sizeof *s->seconds, ascending);
    return s->count ? s->seconds[s->count / 4] : 0;
}

/* An array as tensors have them. Zeros that are there: not the one page of zeros that stands for what was never written. */
static float *touched(size_t bytes)
{
    float *out = tr__array_alloc(bytes);

    memset(out, 1, bytes);
    memset(out, 0, bytes);
    return out;
}

/* Write an array as computing does: a gradient is new in each step, and lies in the caches of the processor that made it. */
static void renew(float *out, size_t bytes)
{
    memset(out, 0, bytes);
    __asm__ volatile("" : : "r"(out) : "memory");      /* the compiler may not drop what nobody reads here */
}

/* == bare MPI ==================================================================================== */

static double ping(int rank, char *buffer)
{
    static samples s;

    for (int i = 0; i < PINGS; i++) {
        const double from = now();
        if (rank == 1)
            MPI_Send(buffer, 8, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
        MPI_Recv(buffer, 8, MPI_BYTE, 1 - rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (rank == 0)
            MPI_Send(buffer, 8, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
        note(&s, now() - from);
    }
    return good(&s);
}

/* Requests of 1 KB, each answered by 8 bytes. Seconds for one. */
static double request_small(int rank, char *buffer)
{
    static samples s;
    MPI_Request    request[IN_FLIGHT];
    char           answer[IN_FLIGHT][8];

    for (int batch = 0; batch < ROUNDS; batch++) {
        const double from = now();
        for (int i = 0; i < SMALL_COUNT; i++) {
            if (rank == 0) {
                MPI_Recv(buffer, REQUEST, MPI_BYTE, 1, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
                MPI_Send(buffer, 8, MPI_BYTE, 1, 4, MPI_COMM_WORLD);
                continue;
            }
            if (i >= IN_FLIGHT)
                MPI_Wait(&request[i % IN_FLIGHT], MPI_STATUS_IGNORE);
            MPI_Irecv(answer[i % IN_FLIGHT], 8, MPI_BYTE, 0, 4, MPI_COMM_WORLD, &request[i % IN_FLIGHT]);
            MPI_Send(buffer, REQUEST, MPI_BYTE, 0, 3, MPI_COMM_WORLD);
        }
        if (rank == 1)
            MPI_Waitall(IN_FLIGHT, request, MPI_STATUSES_IGNORE);
        note(&s, (now() - from) / SMALL_COUNT);
    }
    return good(&s);
}

static void send_large(char *from, int to, int in_flight)
{
    MPI_Request request[CHUNKS];

    for (int i = 0; i < CHUNKS; i++) {
        if (i >= in_flight)
            MPI_Wait(&request[i - in_flight], MPI_STATUS_IGNORE);
        MPI_Isend(from + (size_t)i * CHUNK, CHUNK, MPI_BYTE, to, 1, MPI_COMM_WORLD, &request[i]);
    }
    MPI_Waitall(in_flight, request + CHUNKS - in_flight, MPI_STATUSES_IGNORE);
    MPI_Recv(from, 0, MPI_BYTE, to, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

/* Into as many buffers, from there added to `sum`; or straight into `sum`. */
static void receive_large(float *sum, char *buffers, int from, int is_added, int in_flight)
{
    MPI_Request request[IN_FLIGHT];

    for (int i = 0; i < CHUNKS + in_flight; i++) {
        char *const at = is_added ? buffers + (size_t)(i % in_flight) * CHUNK : (char *)sum + (size_t)i * CHUNK;
        if (i >= in_flight) {
            MPI_Wait(&request[i % in_flight], MPI_STATUS_IGNORE);
            const float *part = (const float *)at;
            float       *to = sum + (size_t)(i - in_flight) * (CHUNK / 4);
            for (int k = 0; is_added && k < CHUNK / 4; k++)
                to[k] += part[k];
        }
        if (i < CHUNKS)
            MPI_Irecv(at, CHUNK, MPI_BYTE, from, 1, MPI_COMM_WORLD, &request[i % in_flight]);
    }
    MPI_Send(buffers, 0, MPI_BYTE, from, 2, MPI_COMM_WORLD);
}

static double lesser(double a, double b)
{
    return a < b ? a : b;
}

/* Push and pull in turn, from and to memory of their own, as a job does. Few buffers stay in the second cache, and many hide a late
 * receiver. Which is faster depends on the machine, so each is tried, and the best counts. */
static void time_large(int rank, char *buffers, double *push, double *pull)
{
    static const int depths[] = {2, 4, IN_FLIGHT};
    enum { DEPTHS = sizeof depths / sizeof *depths };
    static samples pushes[DEPTHS], pulls[DEPTHS];
    float         *gradient = touched(LARGE), *parameter = touched(LARGE);

    for (int i = 0; i < 2 * ROUNDS * DEPTHS; i++) {
        const int sender = i % 2 ? 0 : 1, d = i / 2 % DEPTHS;
        if (rank == 1 && sender)
            renew(gradient, LARGE);
        MPI_Barrier(MPI_COMM_WORLD);
        const double from = now();
        if (rank == sender)
            send_large((char *)(sender ? gradient : parameter), 1 - rank, depths[d]);
        else
            receive_large(sender ? gradient : parameter, buffers, 1 - rank, sender, depths[d]);
        note(sender ? &pushes[d] : &pulls[d], now() - from);
    }
    *push = good(&pushes[0]);
    *pull = good(&pulls[0]);
    for (int d = 1; d < DEPTHS; d++) {
        *push = lesser(*push, good(&pushes[d]));
        *pull = lesser(*pull, good(&pulls[d]));
    }
    free(gradient);
    free(parameter);
}

TR_CLONES static void triad_once(float *restrict a, const float *restrict b, const float *restrict c, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        a[i] = b[i] + 3 * c[i];
}

/* Bytes a second of one thread, out of cache: three for each element, as an update in place moves them. */
static double triad(void)
{
    enum { BYTES = 64 << 20 };
    static samples s;
    float         *a = touched(3 * (size_t)BYTES), *b = a + BYTES / 4, *c = b + BYTES / 4;

    for (int i = 0; i < ROUNDS / 4; i++) {
        const double from = now();
        triad_once(a, b, c, BYTES / 4);
        note(&s, now() - from);
    }
    free(a);
    return 3.0 * BYTES / good(&s);
}

static int run_raw(void)
{
    int    rank;
    char  *buffers = calloc(IN_FLIGHT, CHUNK);
    double push, pull;

    MPI_Init(NULL, NULL);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    const double round_trip = ping(rank, buffers), request = request_small(rank, buffers);
    time_large(rank, buffers, &push, &pull);
    if (rank == 1)
        printf("{\"round_trip_us\": %.3f, \"requests_M\": %.4f, \"push_GBps\": %.3f, \"pull_GBps\": %.3f, \"triad_GBps\": %.3f}\n",
               round_trip * 1e6, 1e-6 / request, LARGE / push * 1e-9, LARGE / pull * 1e-9, triad() * 1e-9);
    MPI_Finalize();
    return 0;
}

static int run_start(void)
{
    MPI_Init(NULL, NULL);
    MPI_Finalize();
    return 0;
}

/* == a job: what its servers do ================================================================== */

static void must(tr_status status)
{
    if (status == TR_OK)
        return;
    fprintf(stderr, "bench_transport: %s\n", tr_error());
    exit(1);
}

enum { BLOCKS = 2 * SMALL_COUNT + 1, STATES = 2 };

/* What is told to the servers, as it grows. */
typedef struct plan {
    int          servers, block_count, value_count;
    tr_program  *program[2];
    tr_job_block block[BLOCKS];
    tr_job_value value[BLOCKS + STATES + 4];
    int64_t      dims[BLOCKS + STATES + 4];
    char         name[BLOCKS][2][24];
    const float *zeros;
} plan;

static void add_var(plan *p, int server, const char *name, int64_t count, bool is_kept, const float *value)
{
    tr_var_desc *var = tr_block_create_var(tr_program_block(p->program[server], 0), name);

    tr_var_desc_set_kind(var, TR_KIND_TENSOR);
    tr_var_desc_set_dtype(var, TR_FP32);
    must(tr_var_desc_set_shape(var, 1, &count));
    tr_var_desc_set_persistable(var, is_kept);
    if (!is_kept)
        return;
    p->dims[p->value_count] = count;
    p->value[p->value_count] = (tr_job_value){server, name, TR_FP32, 1, &p->dims[p->value_count], value};
    p->value_count++;
}

static int add_block(plan *p, int server, int64_t bytes)
{
    const int index = p->block_count++;

    snprintf(p->name[index][0], sizeof p->name[index][0], "p%d", index);
    snprintf(p->name[index][1], sizeof p->name[index][1], "p%d@GRAD", index);
    add_var(p, server, p->name[index][0], bytes / 4, true, p->zeros);
    add_var(p, server, p->name[index][1], bytes / 4, false, NULL);
    p->block[index] = (tr_job_block){p->name[index][0], p->name[index][1], server, TR_FP32, bytes};
    return index;
}

static void set_one(tr_op_desc *op, const char *slot, const char *name, bool is_output)
{
    (is_output ? tr_op_desc_set_output : tr_op_desc_set_input)(op, slot, 1, &name);
}

/* Let an optimizer update a block. */
static void add_optimizer(plan *p, int index, const char *type)
{
    static const float tenth = 0.1f;
    tr_block          *block = tr_program_block(p->program[p->block[index].server], 0);
    tr_op_desc        *op = tr_op_desc_new(type);
    const int          server = p->block[index].server;

    if (!tr_block_find_var(block, "rate"))
        add_var(p, server, "rate", 1, true, &tenth);
    set_one(op, "Param", p->name[index][0], false);
    set_one(op, "Grad", p->name[index][1], false);
    set_one(op, "LearningRate", "rate", false);
    set_one(op, "ParamOut", p->name[index][0], true);
    if (!strcmp(type, "adam")) {
        add_var(p, server, "m1", p->block[index].bytes / 4, true, p->zeros);
        add_var(p, server, "m2", p->block[index].bytes / 4, true, p->zeros);
        add_var(p, server, "beta1", 1, true, &tenth);
        add_var(p, server, "beta2", 1, true, &tenth);
        set_one(op, "Moment1", "m1", false);
        set_one(op, "Moment2", "m2", false);
        set_one(op, "Beta1Pow", "beta1", false);
        set_one(op, "Beta2Pow", "beta2", false);
        set_one(op, "Moment1Out", "m1", true);
        set_one(op, "Moment2Out", "m2", true);
    }
    tr_op_desc_set_string(op, "op_pointwise_on", p->name[index][0], strlen(p->name[index][0]));
    must(tr_block_insert_op(block, -1, op));
}

static plan *plan_new(const tr_job *job, const float *zeros)
{
    plan *p = calloc(1, sizeof *p);

    p->servers = tr_job_servers(job);
    p->zeros = zeros;
    for (int i = 0; i < p->servers; i++)
        p->program[i] = tr_program_new();
    return p;
}

static void set_up(tr_job *job, plan *p)
{
    tr_job_program packed[2];

    for (int i = 0; i < p->servers; i++) {
        void *bytes;
        must(tr_program_serialize(&bytes, &packed[i].size, p->program[i]));
        packed[i].bytes = bytes;
    }
    const tr_job_spec spec = {"sync", p->servers, packed, p->block_count, p->block, p->value_count, p->value, 0, NULL};
    must(tr_job_setup(job, &spec));
    for (int i = 0; i < p->servers; i++) {
        tr_free((void *)(uintptr_t)packed[i].bytes);
        tr_program_free(p->program[i]);
    }
    free(p);
}

/* == a job: pushes and pulls ===================================================================== */

static tr_job *job;
static float  *data, *param;

static void end_step(void)
{
    tr_ticket ticket;

    must(tr_job_step_end(job, &ticket));
    must(tr_job_wait(job, ticket));
}

static double push_one(int block, int64_t bytes)
{
    const double from = now();
    tr_ticket    ticket;

    must(tr_job_push(job, block, data, bytes, 1, &ticket));
    must(tr_job_wait(job, ticket));
    return now() - from;
}

static double pull_one(int block)
{
    const double from = now();
    void        *to = param;
    tr_ticket    ticket;

    must(tr_job_pull(job, 1, &block, &to, &ticket));
    must(tr_job_wait(job, ticket));
    return now() - from;
}

/* Push the blocks from `first` on, so many of them on their way at a time. Seconds for one. */
static double push_many(int first, int64_t bytes)
{
    tr_ticket    ticket[IN_FLIGHT];
    const double from = now();

    for (int i = 0; i < SMALL_COUNT; i++) {
        if (i >= IN_FLIGHT)
            must(tr_job_wait(job, ticket[i % IN_FLIGHT]));
        must(tr_job_push(job, first + i, data, bytes, 1, &ticket[i % IN_FLIGHT]));
    }
    must(tr_job_wait(job, tr_job_last_ticket(job)));
    return (now() - from) / SMALL_COUNT;
}

/* How many times what the values need is on the wire, but for 64 bytes a message. */
static double on_the_wire(const tr_job_stats *before, const tr_job_stats *after, double needed)
{
    const double messages = (double)(after->messages_sent - before->messages_sent);
    return ((double)(after->bytes_sent - before->bytes_sent) - 64 * messages) / needed;
}

static void run_push(void)
{
    static samples trip, request, push, pull;
    plan          *p = plan_new(job, data);
    tr_job_stats   before, after;
    double         wire = 0;

    for (int i = 0; i < 2 * SMALL_COUNT; i++)
        add_block(p, 0, i < SMALL_COUNT ? 8 : REQUEST);
    const int large = add_block(p, 0, LARGE);
    set_up(job, p);
    for (int step = 0; step < ROUNDS; step++) {
        for (int i = 0; i < SMALL_COUNT; i++)
            note(&trip, push_one(i, 8));
        note(&request, push_many(SMALL_COUNT, REQUEST));
        renew(data, LARGE);
        tr_job_get_stats(job, &before);
        note(&push, push_one(large, LARGE));
        tr_job_get_stats(job, &after);
        wire = on_the_wire(&before, &after, LARGE);
        end_step();
        note(&pull, pull_one(large));
    }
    printf("{\"round_trip_us\": %.3f, \"requests_M\": %.4f, \"push_GBps\": %.3f, \"pull_GBps\": %.3f, \"wire\": %.4f}\n",
           good(&trip) * 1e6, 1e-6 / good(&request), LARGE / good(&push) * 1e-9, LARGE / good(&pull) * 1e-9, wire);
}

static void run_update(const char *optimizer)
{
    static samples update;
    plan          *p = plan_new(job, data);
    const int      large = add_block(p, 0, LARGE);

    add_optimizer(p, large, optimizer);
    set_up(job, p);
    for (int step = 0; step < ROUNDS; step++) {
        renew(data, LARGE);
        const double from = now();
        must(tr_job_push(job, large, data, LARGE, 1, NULL));
        end_step();
        note(&update, now() - from);
        pull_one(large);
    }
    printf("{\"%s_GBps\": %.3f}\n", optimizer, LARGE / good(&update) * 1e-9);
}

/* -- computing ----------------------------------------------------------------------------------- */

static volatile float result;

static void compute(int64_t rounds)
{
    float a = 1, b = 2, c = 3, d = 4;

    for (int64_t i = 0; i < rounds; i++) {
        a = a * 0.999f + 0.5f, b = b * 0.999f + 0.6f;
        c = c * 0.999f + 0.7f, d = d * 0.999f + 0.8f;
    }
    result = a + b + c + d;
}

/* How much of it takes a millisecond where nobody disturbs. */
static int64_t millisecond(void)
{
    static samples s;
    const int64_t  probe = 1 << 18;

    for (int i = 0; i < 4 * ROUNDS; i++) {
        const double from = now();
        compute(probe);
        note(&s, now() - from);
    }
    return (int64_t)((double)probe * 1e-3 / good(&s));
}

static double time_steps(int64_t rounds, int block, bool is_alone)
{
    const double from = now();

    for (int i = 0; i < STEPS; i++) {
        compute(rounds);
        if (is_alone)
            continue;
        must(tr_job_push(job, block, data, STEP_BYTES, 1, NULL));
        must(tr_job_step_end(job, NULL));
        pull_one(block);
    }
    return (now() - from) / STEPS;
}

static void run_step(void)
{
    static samples alone, together;
    plan          *p = plan_new(job, data);
    const int      block = add_block(p, 0, STEP_BYTES);
    const int64_t  rounds = millisecond();

    add_optimizer(p, block, "sgd");
    set_up(job, p);
    for (int i = 0; i < 10; i++) {
        note(&together, time_steps(rounds, block, false));
        note(&alone, time_steps(rounds, block, true));
    }
    if (tr_job_index(job) == 0)
        printf("{\"compute_ms\": %.4f, \"step_ms\": %.4f}\n", good(&alone) * 1e3, good(&together) * 1e3);
}

enum { LAYERS = 8, LAYER_BYTES = LARGE / LAYERS };

/* A step: a third of the computing forward, the rest backward. Without `rounds` nothing is computed, without `moves` nothing sent. */
static void step_layers(tr_ticket *pulled, int64_t rounds, bool moves)
{
    for (int l = 0; l < LAYERS; l++) {
        if (moves)
            must(tr_job_wait(job, pulled[l]));
        compute(rounds / (3 * LAYERS));
    }
    for (int l = LAYERS - 1; l >= 0; l--) {
        float *gradient = data + (size_t)l * LAYER_BYTES / 4;
        compute(2 * rounds / (3 * LAYERS));
        renew(gradient, LAYER_BYTES);
        if (moves)
            must(tr_job_push(job, l, gradient, LAYER_BYTES, 1, NULL));
    }
    if (!moves)
        return;
    must(tr_job_step_end(job, NULL));
    for (int l = 0; l < LAYERS; l++) {
        void *to = param + (size_t)l * LAYER_BYTES / 4;
        must(tr_job_pull(job, 1, &l, &to, &pulled[l]));
    }
}

/* Of one of some steps in a row. */
static double time_layers(int64_t rounds, bool moves)
{
    enum { IN_A_ROW = 5 };
    tr_ticket    pulled[LAYERS] = {0};
    const double from = now();

    for (int i = 0; i < IN_A_ROW; i++)
        step_layers(pulled, rounds, moves);
    must(tr_job_wait(job, pulled[LAYERS - 1]));
    return (now() - from) / IN_A_ROW;
}

static void run_overlap(void)
{
    static samples alone, moving, together;
    plan          *p = plan_new(job, data);
    const int64_t  one = millisecond();

    for (int l = 0; l < LAYERS; l++)
        add_optimizer(p, add_block(p, 0, LAYER_BYTES), "sgd");
    set_up(job, p);
    for (int i = 0; i < ROUNDS / 4; i++)
        note(&moving, time_layers(0, true));
    /* As much computing as moving. */
    const int64_t rounds = (int64_t)((double)one * good(&moving) * 1e3);
    for (int i = 0; i < ROUNDS / 4; i++) {
        note(&moving, time_layers(0, true));
        note(&together, time_layers(rounds, true));
        note(&alone, time_layers(rounds, false));
    }
    for (int l = 0; l < LAYERS; l++)
        push_one(l, LAYER_BYTES);
    end_step();
    printf("{\"compute_ms\": %.4f, \"moving_ms\": %.4f, \"step_ms\": %.4f}\n", good(&alone) * 1e3, good(&moving) * 1e3,
           good(&together) * 1e3);
}

/* -- waiting ------------------------------------------------------------------------------------- */

/* Processor time of a rank of this host, seconds; -1: not known. */
static double cpu_of(int rank)
{
    const char *pid = strstr(tr_job_rank_name(job, rank), "pid ");
    char        path[64];
    long        user = 0, system = 0;

    snprintf(path, sizeof path, "/proc/%d/stat", pid ? atoi(pid + 4) : 0);
    FILE *in = fopen(path, "r");
    if (!in)
        return -1;
    if (fscanf(in, "%*d (%*[^)]) %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %ld %ld", &user, &system) != 2)
        user = -1;
    fclose(in);
    return (double)(user + system) / (double)sysconf(_SC_CLK_TCK);
}

static void run_idle(void)
{
    enum { SECONDS = 3, RANKS = 16 };
    static samples trip;
    plan          *p = plan_new(job, data);
    double         before[RANKS], most = 0;

    for (int i = 0; i < SMALL_COUNT; i++)
        add_block(p, i % p->servers, 8);
    set_up(job, p);
    for (int i = 0; tr_job_index(job) == 0 && i < SMALL_COUNT; i++)
        note(&trip, push_one(i, 8));
    usleep(200000);
    for (int i = 0; i < tr_job_size(job) && i < RANKS; i++)
        before[i] = cpu_of(i);
    usleep(SECONDS * 1000000);
    for (int i = 0; i < tr_job_size(job) && i < RANKS; i++) {
        const double share = (cpu_of(i) - before[i]) / SECONDS;
        most = share > most ? share : most;
    }
    for (int i = 0; tr_job_index(job) != 0 && i < SMALL_COUNT; i++)
        must(tr_job_push(job, i, data, 8, 1, NULL));
    end_step();
    if (tr_job_index(job) == 0)
        printf("{\"round_trip_us\": %.3f, \"idle_cpu\": %.4f}\n", good(&trip) * 1e6, most);
}

int main(int argc, char **argv)
{
    const char *mode = argc == 2 ? argv[1] : "";

    if (!strcmp(mode, "raw"))
        return run_raw();
    if (!strcmp(mode, "start"))
        return run_start();
    data = touched(LARGE);
    param = touched(LARGE);
    must(tr_init());
    must(tr_job_start(&job, TR_ROLE_TRAINER, NULL));
    if (!strcmp(mode, "push"))
        run_push();
    else if (!strcmp(mode, "sgd") || !strcmp(mode, "adam"))
        run_update(mode);
    else if (!strcmp(mode, "step"))
        run_step();
    else if (!strcmp(mode, "overlap"))
        run_overlap();
    else if (!strcmp(mode, "idle"))
        run_idle();
    else
        must(tr_fail(TR_EINVAL, "usage: bench_transport raw | start | push | sgd | adam | step | overlap | idle (see bench_transport.c)"));
    must(tr_job_free(job));
    return 0;
}
