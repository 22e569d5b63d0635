/* pushed_rows.c - see pushed_rows.h. */
#include "storage/table/pushed_rows.h"

#include "framework/base/memory.h"

#include <stdlib.h>

static void free_pushed_rows(void *object)
{
    tr_rows_merge_deinit(&((tr_pushed_rows *)object)->merge);
    free(object);
}

tr_pushed_rows *tr_pushed_rows_new(tr_var *var)
{
    tr_pushed_rows *pushed = tr__must_alloc(sizeof *pushed);

    tr__var_set_object(var, TR_KIND_RAW, pushed, free_pushed_rows);
    return pushed;
}

tr_pushed_rows *tr_pushed_rows_of(const tr_var *var)
{
    return var->kind == TR_KIND_RAW && var->object_free == free_pushed_rows ? var->object : NULL;
}
