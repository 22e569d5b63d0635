#include "serving/model.h"

#include "framework/base/memory.h"
#include "framework/base/path.h"
#include "framework/tensors/scope.h"
#include "framework/tensors/tensor_io.h"
#include "serving/raw_slots.h"
#include "storage/table/table_var.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* == the ends ===================================================================================== */

void tr_model_ends_free(tr_model_ends *ends)
{
    for (int i = 0; i < ends->count; i++)
        free(ends->name[i]);
    free(ends->name);
}

static int count_ops(tr_block *block, const char *type)
{
    int count = 0;

    for (int i = 0; i < tr_block_op_count(block); i++)
        count += strcmp(tr_op_desc_type(tr_block_op_at(block, i)), type) == 0;
    return count;
}

/* The variables that the operators `feed` or `fetch` move, by their columns. */
static tr_status read_ends(tr_model_ends *ends, tr_block *block, const char *type)
{
    const bool is_feed = strcmp(type, "feed") == 0;
    const int  count = count_ops(block, type);

    ends->name = tr__must_array((size_t)count + 1, sizeof *ends->name);
    ends->count = count;
    for (int i = 0; i < tr_block_op_count(block); i++) {
        const tr_op_desc *op = tr_block_op_at(block, i);
        if (strcmp(tr_op_desc_type(op), type))
            continue;
        const char   *name = is_feed ? tr_op_desc_output(op, "Out", 0) : tr_op_desc_input(op, "X", 0);
        const int64_t column = tr_op_desc_has_attr(op, "col") ? tr_op_desc_attr_int(op, "col", 0) : -1;
        if (!name || column < 0 || column >= count || ends->name[column] || (is_feed && !tr_block_find_var(block, name)))
            return tr_fail(TR_EFORMAT, "operator %d (%s) of the model is damaged: columns are 0 .. %d, each once, each of one variable", i,
                           type, count - 1);
        ends->name[column] = tr__must_strdup(name);
    }
    return count ? TR_OK : tr_fail(TR_EFORMAT, "the program has no operator '%s': a model is saved by save_inference_model", type);
}

static const tr_var_desc *end_of(const tr_model *model, const tr_model_ends *ends, int index)
{
    if (index < 0 || index >= ends->count)
        return NULL;
    return tr_block_find_var(tr_program_block(model->program, 0), ends->name[index]);
}

const tr_var_desc *tr_model_feed(const tr_model *model, int index)
{
    return end_of(model, &model->feeds, index);
}

const tr_var_desc *tr_model_fetch(const tr_model *model, int index)
{
    return end_of(model, &model->fetches, index);
}

/* == what the program reads ============================================================================ */

/* A variable in which operators look rows up is a table. */
static tr_status find_tables(tr_model *model)
{
    for (int b = 0; b < tr_program_block_count(model->program); b++) {
        tr_block *block = tr_program_block(model->program, b);
        for (int i = 0; i < tr_block_op_count(block); i++) {
            const tr_op_desc *op = tr_block_op_at(block, i);
            const char       *table = strcmp(tr_op_desc_type(op), "lookup_sparse_table") ? NULL : tr_op_desc_input(op, "W", 0);
            if (table && tr_map_put(&model->tables, table, model) != 0)
                return tr_fail(TR_ENOMEM, "no memory for the names of a model's tables");
        }
    }
    return TR_OK;
}

static bool is_table(const tr_model *model, const tr_var_desc *var)
{
    return tr_map_find(&model->tables, tr_var_desc_name(var)) != NULL;
}

static bool is_parameter(const tr_model *model, const tr_var_desc *var)
{
    return tr_var_desc_persistable(var) && tr_var_desc_kind(var) == TR_KIND_TENSOR && !is_table(model, var);
}

/* A parameter is what the program says of it. */
static tr_status check_parameter(const tr_var_desc *var, const tr_tensor *tensor)
{
    const int      rank = tr_var_desc_rank(var);
    const int64_t *dims = tr_var_desc_dims(var);
    bool           fits = rank == tr_tensor_rank(tensor) && tr_tensor_dtype(tensor) == tr_var_desc_dtype(var);

    for (int i = 0; i < rank && fits; i++)
        fits = dims[i] < 0 || dims[i] == tr_tensor_dims(tensor)[i];
    return fits ? TR_OK
                : tr_fail(TR_ESHAPE, "parameter '%s' has another type or shape in its file than in the program", tr_var_desc_name(var));
}

static tr_status load_apart(tr_model *model, const char *folder, const tr_checksums *sums)
{
    tr_block *block = tr_program_block(model->program, 0);

    for (int i = 0; i < tr_block_var_count(block); i++) {
        const tr_var_desc *var = tr_block_var_at(block, i);
        char              *path = NULL;
        if (!is_parameter(model, var))
            continue;
        TR_TRY(tr_checksums_check(sums, tr_var_desc_name(var)));
        TR_TRY(tr_path_inside(&path, folder, tr_var_desc_name(var)));
        tr_tensor *tensor = tr_var_tensor(tr__scope_var(model->scope, tr_var_desc_name(var)));
        tr_status  status = tr_tensor_load(tensor, path);
        tr_free(path);
        TR_TRY(status);
        TR_TRY(check_parameter(var, tensor));
    }
    return TR_OK;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(tr_var_desc_name(*(const tr_var_desc *const *)a), tr_var_desc_name(*(const tr_var_desc *const *)b));
}

static tr_status read_combined(tr_model *model, FILE *in, const tr_var_desc **vars, int count)
{
    for (int i = 0; i < count; i++) {
        tr_tensor *tensor = tr_var_tensor(tr__scope_var(model->scope, tr_var_desc_name(vars[i])));
        TR_TRY(tr_tensor_read(in, tensor));
        TR_TRY(check_parameter(vars[i], tensor));
    }
    return fgetc(in) == EOF ? TR_OK : tr_fail(TR_EFORMAT, "the file of parameters has more than the program's %d", count);
}

/* One file has all parameters, in the order of their names. */
static tr_status load_combined(tr_model *model, const char *folder, const char *file)
{
    tr_block           *block = tr_program_block(model->program, 0);
    const tr_var_desc **vars = tr__must_array((size_t)tr_block_var_count(block) + 1, sizeof *vars);
    char               *path = NULL;
    FILE               *in = NULL;
    int                 count = 0;
    tr_status           status;

    for (int i = 0; i < tr_block_var_count(block); i++)
        if (is_parameter(model, tr_block_var_at(block, i)))
            vars[count++] = tr_block_var_at(block, i);
    qsort(vars, (size_t)count, sizeof *vars, by_name);
    TR_TRY_GOTO(done, tr_path_inside(&path, folder, file));
    TR_TRY_GOTO(done, tr_path_fopen(&in, NULL, path));
    TR_TRY_GOTO(done, read_combined(model, in, vars, count));
done:
    if (in)
        fclose(in);
    tr_free(path);
    free(vars);
    return status;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The names of all outputs of operators, sorted. The caller frees the array; the names are the program's. */
static const char **written_names(tr_program *program, size_t *count)
{
    const char **names = NULL;

    *count = 0;
    for (int b = 0; b < tr_program_block_count(program); b++) {
        tr_block *block = tr_program_block(program, b);
        for (int i = 0; i < tr_block_op_count(block); i++) {
            const tr_op_desc *op = tr_block_op_at(block, i);
            const int         outputs = tr_op_desc_output_args(op);
            names = tr__must_realloc(names, (*count + (size_t)outputs + 1) * sizeof *names);
            for (int a = 0; a < outputs; a++)
                names[(*count)++] = tr_op_desc_output_arg(op, a);
        }
    }
    if (*count)
        qsort(names, *count, sizeof *names, by_text);
    return names;
}

static void keep_parameters(tr_model *model)
{
    tr_block    *block = tr_program_block(model->program, 0);
    size_t       count;
    const char **written = written_names(model->program, &count);

    model->kept = tr__weight_cache_new();
    for (int i = 0; i < tr_block_var_count(block); i++) {
        const tr_var_desc *var = tr_block_var_at(block, i);
        const char        *name = tr_var_desc_name(var);
        if (!is_parameter(model, var) || (count && bsearch(&name, written, count, sizeof *written, by_text)))
            continue;
        tr_tensor *tensor = tr_var_tensor(tr__scope_var(model->scope, name));
        tr__weight_cache_add(model->kept, tr_tensor_data(tensor), (size_t)tr_tensor_bytes(tensor));
    }
    free(written);
}

/* == tables ============================================================================================ */

/* Add the file whose rows begin with shard *next. */
static tr_status add_file(tr_mapped_table *table, const char *folder, const tr_checksums *sums, const char *name, uint32_t *next)
{
    char     *file = *next ? tr__must_format("%s.%04u.rows", name, *next) : tr__must_format("%s.rows", name), *path = NULL;
    tr_status status = tr_path_inside(&path, folder, file);

    if (status == TR_OK && access(path, F_OK) && errno == ENOENT)
        status = tr_fail(TR_EUNSUPPORTED,
                         "there is no '%s': the sparse table '%s' was not exported for serving. trireme.serving.export_model "
                         "writes a model with tables that can be mapped",
                         path, name);
    if (status == TR_OK)
        status = tr_checksums_check(sums, file);
    if (status == TR_OK)
        status = tr_mapped_table_add(table, path, next);
    tr_free(path);
    free(file);
    return status;
}

static tr_status add_rows(tr_mapped_table *table, const char *folder, const tr_checksums *sums, const char *name)
{
    for (uint32_t next = 0; next < TR_SHARDS;)
        TR_TRY(add_file(table, folder, sums, name, &next));
    return TR_OK;
}

static tr_status map_table(tr_model *model, const tr_export *from, const char *name)
{
    tr_mapped_table *table = tr_mapped_table_new();
    tr_status        status = TR_OK;

    for (int i = 0; i < from->count && status == TR_OK; i++)
        status = add_rows(table, from->part[i], from->sums[i], name);
    if (status == TR_OK)
        return tr_table_var_map(tr__scope_var(model->scope, name), table);
    tr_mapped_table_free(table);
    return status;
}

static tr_status map_tables(tr_model *model, const tr_export *from)
{
    tr_block *block = tr_program_block(model->program, 0);

    for (int i = 0; i < tr_block_var_count(block); i++)
        if (is_table(model, tr_block_var_at(block, i)))
            TR_TRY(map_table(model, from, tr_var_desc_name(tr_block_var_at(block, i))));
    return TR_OK;
}

/* == life ============================================================================================== */

static tr_status load(tr_model *model, const tr_export *from, const char *model_file, const char *params_file)
{
    const char         *newest = from->part[from->count - 1];
    const tr_checksums *sums = from->sums[from->count - 1];
    char               *path = NULL;

    if (!model_file)
        model_file = "__model__";
    TR_TRY(tr_checksums_check(from->sums[0], model_file));
    TR_TRY(tr_path_inside(&path, from->part[0], model_file));
    tr_status status = tr_program_load(&model->program, path, 0);
    tr_free(path);
    TR_TRY(status);
    TR_TRY(find_tables(model));
    tr_block *block = tr_program_block(model->program, 0);
    TR_TRY(read_ends(&model->feeds, block, "feed"));
    TR_TRY(read_ends(&model->fetches, block, "fetch"));
    TR_TRY(tr_raw_slots_load(&model->slots, from, model_file, (tr_raw_feeds){block, model->feeds.count, model->feeds.name}));
    if (params_file)
        TR_TRY(tr_checksums_check(sums, params_file));
    TR_TRY(params_file ? load_combined(model, newest, params_file) : load_apart(model, newest, sums));
    keep_parameters(model);
    return map_tables(model, from);
}

tr_status tr_model_load(tr_model **out, const tr_export *from, const char *model_file, const char *params_file)
{
    tr_model *model = tr__must_alloc(sizeof *model);

    model->version = from->version;
    model->step = from->step;
    model->has_sums = from->has_sums;
    model->users = 1;
    model->scope = tr_scope_new(NULL);
    if (!model->scope) {
        tr_model_free(model);
        return tr_fail(TR_ENOMEM, "no memory for a model");
    }
    const tr_status status = load(model, from, model_file, params_file);
    if (status != TR_OK) {
        tr_model_free(model);
        return tr_context(status, "in the model '%s'", from->part[0]);
    }
    *out = model;
    return TR_OK;
}

void tr_model_free(tr_model *model)
{
    if (!model)
        return;
    tr__weight_cache_free(model->kept);
    tr_scope_free(model->scope);
    tr_map_deinit(&model->tables);
    tr_program_free(model->program);
    tr_model_ends_free(&model->feeds);
    tr_model_ends_free(&model->fetches);
    tr_raw_slots_free(model->slots);
    free(model);
}
