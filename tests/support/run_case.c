/* run_case.c - see run_case.h. */
#include "tests/support/run_case.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "framework/base/memory.h"
#include "framework/tensors/tensor_io.h"

/* -- reading ---------------------------------------------------------------------------------- */

typedef struct item {
    char        kind[16], name[128];
    const void *bytes;
    size_t      size;
} item;

/* The item at *at, and *at after it. */
static bool next_item(item *out, const char **at, const char *end)
{
    char        line[192];
    const char *stop = memchr(*at, '\n', (size_t)(end - *at));
    const size_t length = stop ? (size_t)(stop - *at) : sizeof line;

    if (length >= sizeof line)
        return false;
    memcpy(line, *at, length);
    line[length] = '\0';
    if (sscanf(line, "%15s %127s %zu", out->kind, out->name, &out->size) != 3 || out->size > (size_t)(end - stop - 1))
        return false;
    out->bytes = stop + 1;
    *at = stop + 1 + out->size;
    return true;
}

static bool read_value(run_case *c, const item *it, bool is_fed)
{
    if (c->value_count == RUN_CASE_MAX || it->size == 0)
        return false;
    run_value *value = &c->value[c->value_count];
    FILE      *in = fmemopen((void *)(uintptr_t)it->bytes, it->size, "r");

    tr_tensor_init(&value->tensor);
    const bool ok = in && tr_tensor_read(in, &value->tensor) == TR_OK;
    if (in)
        fclose(in);
    if (!ok)
        return false;
    value->name = tr__must_strdup(it->name);
    value->is_fed = is_fed;
    c->value_count++;
    return true;
}

static bool read_item(run_case *c, const item *it)
{
    if (strcmp(it->kind, "program") == 0)
        return !c->program && tr_program_parse(&c->program, it->bytes, it->size) == TR_OK;
    if (strcmp(it->kind, "feed") == 0 || strcmp(it->kind, "scope") == 0)
        return read_value(c, it, it->kind[0] == 'f');
    if (strcmp(it->kind, "fetch") != 0 || c->fetch_count == RUN_CASE_MAX)
        return false;
    c->fetch[c->fetch_count++] = tr__must_strdup(it->name);
    return true;
}

bool run_case_read(run_case *out, const void *bytes, size_t size)
{
    const char *at = bytes, *end = at + size;
    item        it;
    bool        ok = true;

    *out = (run_case){0};
    while (ok && at < end)
        ok = next_item(&it, &at, end) && read_item(out, &it);
    if (ok && out->program)
        return true;
    run_case_deinit(out);
    return false;
}

void run_case_deinit(run_case *c)
{
    tr_program_free(c->program);
    for (int i = 0; i < c->value_count; i++) {
        free(c->value[i].name);
        tr_tensor_deinit(&c->value[i].tensor);
    }
    for (int i = 0; i < c->fetch_count; i++)
        free(c->fetch[i]);
    *c = (run_case){0};
}

/* -- writing ---------------------------------------------------------------------------------- */

static void write_item(FILE *out, const char *kind, const char *name, const void *bytes, size_t size)
{
    fprintf(out, "%s %s %zu\n", kind, name, size);
    fwrite(bytes, 1, size, out);
}

static void write_value(FILE *out, const run_value *value)
{
    char  *bytes;
    size_t size;
    FILE  *record = open_memstream(&bytes, &size);

    if (!record || tr_tensor_write(record, &value->tensor) != TR_OK)
        abort();
    fclose(record);
    write_item(out, value->is_fed ? "feed" : "scope", value->name, bytes, size);
    free(bytes);
}

void *run_case_write(size_t *size, const run_case *c)
{
    char  *bytes;
    void  *program;
    size_t program_size;
    FILE  *out = open_memstream(&bytes, size);

    if (!out || tr_program_serialize(&program, &program_size, c->program) != TR_OK)
        abort();
    write_item(out, "program", "-", program, program_size);
    for (int i = 0; i < c->value_count; i++)
        write_value(out, &c->value[i]);
    for (int i = 0; i < c->fetch_count; i++)
        write_item(out, "fetch", c->fetch[i], "", 0);
    fclose(out);
    tr_free(program);
    return bytes;
}

/* -- running ---------------------------------------------------------------------------------- */

typedef struct feeds {
    int            count;
    const char    *name[RUN_CASE_MAX];
    tr_feed        feed[RUN_CASE_MAX];
    int64_t        lod_count[RUN_CASE_MAX][8];
    const int64_t *lod_offset[RUN_CASE_MAX][8];
} feeds;

static void add_feed(feeds *f, run_value *value)
{
    const int n = f->count++, levels = tr_tensor_lod_levels(&value->tensor);

    f->name[n] = value->name;
    for (int l = 0; l < levels && l < 8; l++) {
        f->lod_count[n][l] = tr_tensor_lod_count(&value->tensor, l);
        f->lod_offset[n][l] = tr_tensor_lod_offsets(&value->tensor, l);
    }
    f->feed[n] = (tr_feed){.name = value->name, .dtype = value->tensor.dtype, .rank = value->tensor.shape.rank,
                           .dims = value->tensor.shape.dim, .data = value->tensor.data, .lod_levels = levels < 8 ? levels : 8,
                           .lod_counts = f->lod_count[n], .lod_offsets = f->lod_offset[n]};
}

static tr_status fill(tr_scope *scope, feeds *f, run_case *c)
{
    for (int i = 0; i < c->value_count; i++)
        if (c->value[i].is_fed)
            add_feed(f, &c->value[i]);
        else
            TR_TRY(tr_tensor_copy(tr_var_tensor(tr_scope_var(scope, c->value[i].name)), &c->value[i].tensor));
    return TR_OK;
}

void run_place_init(run_place *place, const run_case *c)
{
    *place = (run_place){.scope = tr_scope_new(NULL), .executor = tr_executor_new()};
    for (int i = 0; i < c->fetch_count; i++)
        place->result[i] = tr_tensor_new();
}

void run_place_deinit(run_place *place, const run_case *c)
{
    for (int i = 0; i < c->fetch_count; i++)
        tr_tensor_free(place->result[i]);
    tr_executor_free(place->executor);
    tr_scope_free(place->scope);
}

tr_status run_place_run(run_place *place, run_case *c)
{
    tr_plan *plan;
    feeds    f = {0};

    TR_TRY(fill(place->scope, &f, c));
    TR_TRY(tr_executor_prepare(&plan, place->executor, c->program, place->scope, f.count, f.name, c->fetch_count,
                               (const char *const *)c->fetch));
    return tr_plan_run(plan, f.feed, place->result);
}

tr_status run_case_run(run_case *c)
{
    run_place place;

    run_place_init(&place, c);
    tr_status status = run_place_run(&place, c);
    if (status == TR_OK)
        status = run_place_run(&place, c);
    run_place_deinit(&place, c);
    return status;
}

/* -- keeping ---------------------------------------------------------------------------------- */

static bool keep_feed(run_case *c, const char *name, const tr_feed *feed)
{
    run_value *value = &c->value[c->value_count++];

    *value = (run_value){.name = tr__must_strdup(name), .is_fed = true};
    tr_tensor_init(&value->tensor);
    return tr_tensor_borrow(&value->tensor, feed->dtype, feed->rank, feed->dims, (void *)(uintptr_t)feed->data) == TR_OK &&
           tr_tensor_set_lod(&value->tensor, feed->lod_levels, feed->lod_counts, feed->lod_offsets) == TR_OK;
}

static void keep_scope(run_case *c, tr_scope *scope)
{
    tr_block *block = tr_program_block(c->program, 0);

    for (int i = 0; i < tr_block_var_count(block) && c->value_count < RUN_CASE_MAX; i++) {
        const tr_var_desc *desc = tr_block_var_at(block, i);
        tr_var            *var = tr_scope_find(scope, tr_var_desc_name(desc));
        if (!tr_var_desc_persistable(desc) || !var || var->kind != TR_KIND_TENSOR || var->tensor.dtype == TR_DTYPE_NONE)
            continue;
        run_value *value = &c->value[c->value_count++];
        *value = (run_value){.name = tr__must_strdup(tr_var_desc_name(desc))};
        tr_tensor_init(&value->tensor);
        tr_tensor_share(&value->tensor, &var->tensor);
    }
}

bool run_case_save(const char *path, const saved_run *kept)
{
    run_case c = {.program = kept->program};
    bool     ok = true;
    size_t   size;

    for (int i = 0; i < kept->feed_count; i++)
        ok = keep_feed(&c, kept->feed_name[i], &kept->feed[i]) && ok;
    keep_scope(&c, kept->scope);
    for (; c.fetch_count < kept->fetch_count; c.fetch_count++)
        c.fetch[c.fetch_count] = tr__must_strdup(kept->fetch_name[c.fetch_count]);
    void *bytes = run_case_write(&size, &c);
    FILE *out = fopen(path, "wb");
    ok = ok && out && fwrite(bytes, 1, size, out) == size;
    if (out)
        fclose(out);
    free(bytes);
    c.program = NULL;                              /* somebody else's */
    run_case_deinit(&c);
    return ok;
}
