/* job_train.c - a trainer of a small job, for tests under mpirun (tests/python/test_transport.py):
 *
 *     mpirun -np S trireme-pserver : -np T job_train --steps 20 ...
 *
 * Parameters of several sizes are slice over the servers, which run sgd on them. Each trainer knows what all
 * trainers do and computes it too, so that every parameter it pulls is compared bit by bit. Prints
 * "pid <pid> rank <rank>" at the start, "done <steps>" at the end; a failure goes to stdout as "failed: ...". */
#include "pserver/core/base/weighted_mean.h"
#include "pserver/trireme_dist.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PARAMS = 3, BLOCKS_MAX = 64 };

static struct {
    int    steps, sleep_ms, uneven, rows, operators;
    double timeout, heartbeat, grace;
    char  *seed;
} args = {.steps = 10, .rows = 1000, .seed = (char *)"90"};

static int64_t param_rows[PARAMS];
enum { WIDTH = 64 };

typedef struct slice {
    int     server, param;
    int64_t at, rows;                 /* in the vector of all rows */
    char    name[32], grad[40];
} slice;

static tr_job *job;
static slice     slices[BLOCKS_MAX];
static int     slice_count;
static int64_t total;                 /* rows */

static void die(const char *what)
{
    char text[4096];
    snprintf(text, sizeof text, "%s", tr_error());
    printf("failed: %s: %s\n", what, text);
    fflush(stdout);
    tr_job_free(job);
    _exit(1);
}

static void must(tr_status status, const char *what)
{
    if (status != TR_OK)
        die(what);
}

static void place_params(int servers)
{
    param_rows[0] = 1;
    param_rows[1] = 37;
    param_rows[2] = args.rows;
    for (int p = 0; p < PARAMS; p++)
        for (int s = 0; s < servers; s++) {
            const int64_t from = param_rows[p] * s / servers, to = param_rows[p] * (s + 1) / servers;
            slice          *c = &slices[slice_count];
            if (from == to)
                continue;
            *c = (slice){.server = (s + p) % servers, .param = p, .at = total, .rows = to - from};
            snprintf(c->name, sizeof c->name, "p%d.block%d", p, s);
            snprintf(c->grad, sizeof c->grad, "p%d.block%d@GRAD", p, s);
            total += to - from;
            slice_count++;
        }
}

/* == the servers' programs ======================================================================= */

static void add_var(tr_block *block, const char *name, int rank, const int64_t *dims, bool persistable)
{
    tr_var_desc *var = tr_block_create_var(block, name);
    tr_var_desc_set_kind(var, TR_KIND_TENSOR);
    tr_var_desc_set_dtype(var, TR_FP32);
    must(tr_var_desc_set_shape(var, rank, dims), "shape");
    tr_var_desc_set_persistable(var, persistable);
}

static void add_sgd(tr_block *block, const slice *c)
{
    const char   *param = c->name, *grad = c->grad, *rate = "rate";
    const int64_t dims[2] = {c->rows, WIDTH};
    tr_op_desc   *op = tr_op_desc_new("sgd");

    add_var(block, param, 2, dims, true);
    add_var(block, grad, 2, dims, false);
    tr_op_desc_set_input(op, "Param", 1, &param);
    tr_op_desc_set_input(op, "Grad", 1, &grad);
    tr_op_desc_set_input(op, "LearningRate", 1, &rate);
    tr_op_desc_set_output(op, "ParamOut", 1, &param);
    tr_op_desc_set_string(op, "op_pointwise_on", param, strlen(param));
    must(tr_block_insert_op(block, -1, op), "sgd");
}

static tr_job_program make_program(int server)
{
    tr_program    *program = tr_program_new();
    tr_block      *block = tr_program_block(program, 0);
    const int64_t  one = 1;
    tr_job_program out;
    void          *bytes;

    add_var(block, "rate", 1, &one, true);
    for (int i = 0; i < slice_count; i++)
        if (slices[i].server == server)
            add_sgd(block, &slices[i]);
    must(tr_program_serialize(&bytes, &out.size, program), "serialize");
    out.bytes = bytes;
    tr_program_free(program);
    return out;
}

static void set_up(const float *param)
{
    static const float rate = 0.1f;
    static int64_t     dims[BLOCKS_MAX][2], one = 1;
    tr_job_program     programs[16];
    tr_job_block       blocks[BLOCKS_MAX];
    tr_job_value       values[BLOCKS_MAX + 16];
    int                n = 0;

    for (int i = 0; i < slice_count; i++) {
        const slice *c = &slices[i];
        dims[i][0] = c->rows;
        dims[i][1] = WIDTH;
        blocks[i] = (tr_job_block){c->name, c->grad, c->server, TR_FP32, c->rows * WIDTH * 4};
        values[n++] = (tr_job_value){c->server, c->name, TR_FP32, 2, dims[i], param + c->at * WIDTH};
    }
    for (int s = 0; s < tr_job_servers(job); s++) {
        programs[s] = make_program(s);
        values[n++] = (tr_job_value){s, "rate", TR_FP32, 1, &one, &rate};
    }
    const tr_job_fact fact = {"seed", args.seed};
    const tr_job_spec spec = {"sync", tr_job_servers(job), programs, slice_count, blocks, n, values, 1, &fact};
    must(tr_job_setup(job, &spec), "setup");
    for (int s = 0; s < tr_job_servers(job); s++)
        tr_free((void *)(uintptr_t)programs[s].bytes);
}

/* == training ==================================================================================== */

static void gradient(float *grad, const float *param, int who, int step)
{
    for (int64_t i = 0; i < total * WIDTH; i++)
        grad[i] = 0.3f * param[i] + (float)((i * 31 + who * 97 + step * 17) % 263) / 263.0f - 0.5f;
}

static int steps_of(int who)
{
    return args.steps - args.uneven * who > 0 ? args.steps - args.uneven * who : 0;
}

static double weight_of(int who, int step)
{
    return step % 2 ? 32 : 8 + who;
}

/* What the servers make of it. */
static void expect(float *param, float *sum, float *grad, const float *seen, int step)
{
    tr_mean mean = {0};

    for (int i = 0; i < tr_job_trainers(job); i++) {
        if (steps_of(i) < step)
            continue;
        gradient(grad, seen, i, step);
        tr_mean_add(&mean, TR_FP32, sum, grad, total * WIDTH, weight_of(i, step));
    }
    tr_mean_finish(&mean, TR_FP32, sum, total * WIDTH);
    for (int64_t i = 0; i < total * WIDTH; i++)
        param[i] = param[i] - 0.1f * sum[i];
}

/* The compiler may fuse what the kernel does not: the last bit is forgiven, a gradient too many is not. */
static void compare(const float *got, const float *want, int step)
{
    for (int64_t i = 0; i < total * WIDTH; i++)
        if (!(got[i] - want[i] < 1e-5f && want[i] - got[i] < 1e-5f)) {
            printf("failed: step %d: element %lld is %.9g instead of %.9g\n", step, (long long)i, got[i], want[i]);
            fflush(stdout);
            _exit(1);
        }
}

/* A call that is refused leaves all as it was: the same blocks are pulled right after it. */
static void pull_by_mistake(int *blocks, void *const *to)
{
    const int last = blocks[slice_count - 1];

    blocks[slice_count - 1] = slice_count;
    if (tr_job_pull(job, slice_count, blocks, to, NULL) != TR_ERANGE)
        die("a pull of a block that does not exist is not refused");
    blocks[slice_count - 1] = blocks[0];
    if (slice_count > 1 && tr_job_pull(job, slice_count, blocks, to, NULL) != TR_EINVAL)
        die("a pull of a block twice is not refused");
    blocks[slice_count - 1] = last;
}

static void pull(float *param)
{
    int       blocks[BLOCKS_MAX];
    void     *to[BLOCKS_MAX];
    tr_ticket ticket = 0;

    for (int i = 0; i < slice_count; i++) {
        blocks[i] = i;
        to[i] = param + slices[i].at * WIDTH;
    }
    pull_by_mistake(blocks, to);
    must(tr_job_pull(job, slice_count, blocks, to, &ticket), "pull");
    must(tr_job_wait(job, ticket), "wait");
}

/* -- the same by operators: a program that is fed the gradients --------------------------------------- */

static tr_plan   *plan;
static tr_tensor *received[PARAMS];

static void add_op(tr_block *block, const char *type, int in, const char *const *x, int out, const char *const *to,
                   const char *attr, int count, const char *const *names)
{
    tr_op_desc *op = tr_op_desc_new(type);

    tr_op_desc_set_input(op, "X", in, x);
    tr_op_desc_set_output(op, "Out", out, to);
    if (attr)
        tr_op_desc_set_strings(op, attr, count, names);
    if (!strcmp(type, "send"))                     /* send_barrier lists the gradients */
        tr_op_desc_set_int(op, "zero_copy", args.operators > 1, TR_ATTR_BOOL);
    must(tr_block_insert_op(block, -1, op), type);
}

static int names_of(const char **out, int param)
{
    int count = 0;
    for (int i = 0; i < slice_count; i++)
        if (slices[i].param == param)
            out[count++] = slices[i].name;
    return count;
}

static void make_plan(void)
{
    static char  grads[PARAMS][16], params[PARAMS][16];
    const char  *grad[PARAMS], *param[PARAMS], *names[BLOCKS_MAX];
    tr_program  *program = tr_program_new();
    tr_scope    *scope = tr_scope_new(NULL);
    tr_block    *block = tr_program_block(program, 0);

    for (int p = 0; p < PARAMS; p++) {
        const int64_t dims[2] = {param_rows[p], WIDTH};
        snprintf(grads[p], sizeof grads[p], "p%d@GRAD", p);
        snprintf(params[p], sizeof params[p], "p%d", p);
        grad[p] = grads[p];
        param[p] = params[p];
        add_var(block, grad[p], 2, dims, false);
        add_var(block, param[p], 2, dims, true);
        received[p] = tr_var_tensor(tr_scope_var(scope, param[p]));
        must(tr_tensor_resize(received[p], TR_FP32, 2, dims), "resize");
    }
    for (int p = PARAMS - 1; p >= 0; p--)
        add_op(block, "send", 1, &grad[p], 0, NULL, "send_varnames", names_of(names, p), names);
    add_op(block, "send_barrier", PARAMS, grad, 0, NULL, NULL, 0, NULL);
    for (int p = 0; p < PARAMS; p++)
        add_op(block, "recv", 0, NULL, 1, &param[p], "recv_varnames", names_of(names, p), names);
    add_op(block, "fetch_barrier", 0, NULL, PARAMS, param, NULL, 0, NULL);
    tr_executor *executor = tr_executor_new();
    tr_executor_set_job(executor, job);
    must(tr_executor_prepare(&plan, executor, program, scope, PARAMS, grad, 0, NULL), "prepare");
}

static void step_by_operators(float *param, const float *grad, double weight)
{
    int64_t dims[PARAMS][2], at = 0;
    tr_feed feeds[PARAMS];

    for (int p = 0; p < PARAMS; p++) {
        dims[p][0] = param_rows[p];
        dims[p][1] = WIDTH;
        feeds[p] = (tr_feed){.dtype = TR_FP32, .rank = 2, .dims = dims[p], .data = grad + at * WIDTH};
        at += param_rows[p];
    }
    must(tr_job_set_weight(job, weight), "weight");
    must(tr_plan_run(plan, feeds, NULL), "run");
    at = 0;
    for (int p = 0; p < PARAMS; p++) {
        memcpy(param + at * WIDTH, tr_tensor_data(received[p]), (size_t)tr_tensor_bytes(received[p]));
        at += param_rows[p];
    }
}

/* The plan is there, but its executor takes part in no job any more. */
static bool has_no_job(void)
{
    int64_t dims[PARAMS][2];
    tr_feed feeds[PARAMS];
    float  *grad = calloc((size_t)(total * WIDTH), sizeof *grad);

    for (int p = 0; p < PARAMS; p++) {
        dims[p][0] = param_rows[p];
        dims[p][1] = WIDTH;
        feeds[p] = (tr_feed){.dtype = TR_FP32, .rank = 2, .dims = dims[p], .data = grad};
    }
    const tr_status status = tr_plan_run(plan, feeds, NULL);
    free(grad);
    return status == TR_EINVAL && strstr(tr_error(), "send: this run takes part in no job");
}

static void expect_no_job_in_child(void)
{
    int         how = 0;
    const pid_t child = fork();

    if (child == 0)
        _exit(has_no_job() ? 0 : 1);
    if (child < 0 || waitpid(child, &how, 0) != child || !WIFEXITED(how) || WEXITSTATUS(how) != 0)
        die("a child of a trainer takes part in the job");
}

static void step_by_calls(float *param, const float *grad, double weight)
{
    for (int i = 0; i < slice_count; i++)
        must(tr_job_push(job, i, grad + slices[i].at * WIDTH, slices[i].rows * WIDTH * 4, weight, NULL), "push");
    must(tr_job_step_end(job, NULL), "step_end");
    pull(param);
}

static void train(void)
{
    const size_t size = (size_t)(total * WIDTH) * sizeof(float);
    float       *param = malloc(size), *grad = malloc(size), *want = malloc(size), *sum = malloc(size), *other = malloc(size);
    const int    who = tr_job_index(job);

    for (int64_t i = 0; i < total * WIDTH; i++)
        want[i] = param[i] = (float)((i * 7919) % 1009) / 1009.0f - 0.5f;
    set_up(param);
    if (args.operators)
        make_plan();
    memset(param, 0, size);
    pull(param);
    compare(param, want, 0);
    for (int step = 1; step <= steps_of(who); step++) {
        if (args.sleep_ms)
            usleep((useconds_t)args.sleep_ms * 1000);
        memcpy(want, param, size);
        gradient(grad, param, who, step);
        expect(want, sum, other, param, step);
        if (args.operators)
            step_by_operators(param, grad, weight_of(who, step));
        else
            step_by_calls(param, grad, weight_of(who, step));
        compare(param, want, step);
    }
    if (args.operators)
        expect_no_job_in_child();
    must(tr_job_goodbye(job), "goodbye");
    free(param);
    free(grad);
    free(want);
    free(sum);
    free(other);
}

int main(int argc, char **argv)
{
    for (int i = 1; i + 1 < argc; i += 2) {
        char *value = argv[i + 1];
        if (!strcmp(argv[i], "--steps")) args.steps = atoi(value);
        else if (!strcmp(argv[i], "--sleep-ms")) args.sleep_ms = atoi(value);
        else if (!strcmp(argv[i], "--uneven")) args.uneven = atoi(value);
        else if (!strcmp(argv[i], "--rows")) args.rows = atoi(value);
        else if (!strcmp(argv[i], "--operators")) args.operators = atoi(value);
        else if (!strcmp(argv[i], "--timeout")) args.timeout = atof(value);
        else if (!strcmp(argv[i], "--heartbeat")) args.heartbeat = atof(value);
        else if (!strcmp(argv[i], "--grace")) args.grace = atof(value);
        else if (!strcmp(argv[i], "--seed-of-1")) args.seed = value;
    }
    const tr_job_options options = {.timeout = args.timeout, .heartbeat = args.heartbeat, .grace = args.grace};
    must(tr_dist_init(), "begin");
    must(tr_job_start(&job, TR_ROLE_TRAINER, &options), "start");
    if (tr_job_index(job) != 1)
        args.seed = (char *)"90";
    for (int i = 0; tr_job_index(job) == 0 && i < tr_job_size(job); i++)
        printf("%s\n", tr_job_rank_name(job, i));
    fflush(stdout);
    place_params(tr_job_servers(job));
    train();
    const int steps = (int)tr_job_step(job);
    must(tr_job_free(job), "free");
    job = NULL;
    if (args.operators && !has_no_job())
        die("an executor has a job that is freed");
    printf("done %d\n", steps);
    return 0;
}
