/* recognize.c - run a model that Python saved, from C.
 *
 *     make demo                                          # leaves output/digits.model
 *     cc recognize.c -ltrireme -o recognize              # with trireme.h and libtrireme.so at hand
 *     ./recognize output/digits.model
 *
 * It loads the program and its parameters, feeds one image (a hand-drawn 1 by default, or floats from standard
 * input with "-"), runs, and prints what the network makes of it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trireme.h"

static void check(tr_status status)
{
    if (status == TR_OK)
        return;
    fprintf(stderr, "recognize: %s\n", tr_error());
    exit(1);
}

/* The name of the variable that operator `type` (feed or fetch) moves. */
static const char *find_moved(tr_block *block, const char *type)
{
    for (int i = 0; i < tr_block_op_count(block); i++) {
        const tr_op_desc *op = tr_block_op_at(block, i);
        if (strcmp(tr_op_desc_type(op), type) == 0)
            return strcmp(type, "feed") == 0 ? tr_op_desc_output(op, "Out", 0) : tr_op_desc_input(op, "X", 0);
    }
    fprintf(stderr, "recognize: the model has no %s operator\n", type);
    exit(1);
}

/* Parameters lie beside the program, one file each, named as the variable. The model may be somebody else's: no name in
 * it leads to a file outside of the folder. */
static void load_parameters(tr_scope *scope, tr_block *block, const char *directory)
{
    char *path;

    for (int i = 0; i < tr_block_var_count(block); i++) {
        const tr_var_desc *var = tr_block_var_at(block, i);
        if (!tr_var_desc_persistable(var) || tr_var_desc_kind(var) != TR_KIND_TENSOR)
            continue;
        check(tr_path_inside(&path, directory, tr_var_desc_name(var)));
        check(tr_tensor_load(tr_var_tensor(tr_scope_var(scope, tr_var_desc_name(var))), path));
        tr_free(path);
    }
}

/* A one: bright pixels in the two middle columns. */
static float *draw(const int64_t *dims, int rank, int from_input)
{
    int64_t count = 1, side = dims[rank - 1];
    for (int d = 1; d < rank; d++)
        count *= dims[d];
    float *pixels = malloc((size_t)count * sizeof *pixels);
    if (!pixels)
        exit(1);
    for (int64_t i = 0; i < count; i++) {
        pixels[i] = i % side >= side / 2 - 1 && i % side <= side / 2 ? 1.0f : -1.0f;
        if (from_input && scanf("%f", &pixels[i]) != 1) {
            fprintf(stderr, "recognize: standard input holds fewer than %lld numbers\n", (long long)count);
            exit(1);
        }
    }
    return pixels;
}

int main(int argc, char **argv)
{
    char       *path;
    tr_program *program = NULL;
    tr_plan    *plan = NULL;

    if (argc < 2) {
        fprintf(stderr, "usage: recognize MODEL_DIRECTORY [-]\n");
        return 2;
    }
    check(tr_init());
    check(tr_path_inside(&path, argv[1], "__model__"));
    check(tr_program_load(&program, path, 0));           /* 0: it may not touch files or other processes */
    tr_free(path);
    tr_block    *block = tr_program_block(program, 0);
    tr_scope    *scope = tr_scope_new(NULL);
    tr_executor *executor = tr_executor_new();
    tr_tensor   *result = tr_tensor_new();
    load_parameters(scope, block, argv[1]);

    const char        *image = find_moved(block, "feed"), *guess = find_moved(block, "fetch");
    const tr_var_desc *var = tr_block_find_var(block, image);
    int64_t            dims[TR_MAX_RANK];
    const int          rank = tr_var_desc_rank(var);
    memcpy(dims, tr_var_desc_dims(var), (size_t)rank * sizeof *dims);
    dims[0] = 1;                                            /* one image */
    float        *pixels = draw(dims, rank, argc > 2 && strcmp(argv[2], "-") == 0);
    const tr_feed feed = {.name = image, .dtype = TR_FP32, .rank = rank, .dims = dims, .data = pixels};
    check(tr_executor_prepare(&plan, executor, program, scope, 1, &image, 1, &guess));
    check(tr_plan_run(plan, &feed, &result));

    const float *chance = tr_tensor_data(result);
    int          best = 0;
    for (int digit = 0; digit < tr_tensor_numel(result); digit++) {
        printf("%d  %.4f\n", digit, chance[digit]);
        best = chance[digit] > chance[best] ? digit : best;
    }
    printf("read as %d\n", best);

    free(pixels);
    tr_tensor_free(result);
    tr_executor_free(executor);
    tr_scope_free(scope);
    tr_program_free(program);
    return 0;
}
