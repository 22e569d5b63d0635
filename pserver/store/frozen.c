/* frozen.c - see frozen.h. */
#include "pserver/store/frozen.h"

#include "framework/base/memory.h"
#include "framework/threads/threadpool.h"
#include "pserver/store/server_memory.h"

#include <stdlib.h>

struct tr_frozen {
    tr_server_program *sp;
    uint32_t           values, tables;
    void             **value;
};

static tr_status copy_value(tr_frozen *f, uint32_t index)
{
    const uint64_t bytes = tr__server_program_value_bytes(f->sp, index);

    f->value[index] = malloc(bytes + 1);
    if (!f->value[index])
        return tr_fail(TR_ENOMEM, "no memory for a copy of %llu bytes, which a replica is to get", (unsigned long long)bytes);
    tr_parallel_copy(f->value[index], tr__server_program_value(f->sp, index), bytes);
    return TR_OK;
}

tr_status tr_frozen_take(tr_frozen **out, tr_server_program *sp)
{
    tr_frozen *f = tr__must_alloc(sizeof *f);
    tr_status  status = TR_OK;

    f->sp = sp;
    f->values = sp->value_count;
    f->value = tr__must_array((size_t)f->values + 1, sizeof *f->value);
    for (uint32_t i = 0; i < f->values; i++)
        TR_TRY_GOTO(done, copy_value(f, i));
    for (; f->tables < sp->table_count; f->tables++)
        TR_TRY_GOTO(done, tr_table_snapshot(sp->table[f->tables]->table, 0, 0));
done:
    if (status != TR_OK) {
        tr_frozen_free(f);
        return status;
    }
    *out = f;
    return TR_OK;
}

void tr_frozen_free(tr_frozen *f)
{
    if (!f)
        return;
    for (uint32_t i = 0; i < f->tables; i++)
        tr_table_snapshot_end(f->sp->table[i]->table);
    for (uint32_t i = 0; i < f->values; i++)
        free(f->value[i]);
    free(f->value);
    free(f);
}

const void *tr_frozen_value(const tr_frozen *frozen, uint32_t index)
{
    return frozen->value[index];
}

tr_status tr_frozen_rows(const tr_frozen *frozen, uint32_t table, uint32_t shard, bool are_candidates, void **out, uint64_t *bytes)
{
    const tr_table *t = frozen->sp->table[table]->table;
    return (are_candidates ? tr_table_snapshot_read_candidates : tr_table_snapshot_read)(t, shard, out, bytes);
}
