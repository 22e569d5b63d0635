/* table_places.c - see table_places.h. */
#include "pserver/store/table_places.h"

#include <errno.h>
#include <stdlib.h>

static const char FOLDER[] = "TRIREME_TABLE_SPILL", MEMORY[] = "TRIREME_TABLE_MEMORY";

static const char *variable(const char *name)
{
    const char *text = getenv(name);

    return text && *text ? text : NULL;
}

const char *tr_table_spill_folder(void)
{
    return variable(FOLDER);
}

static tr_status read_memory(uint64_t *bytes)
{
    const char *text = variable(MEMORY);
    char       *end = NULL;

    errno = 0;
    const long long number = text ? strtoll(text, &end, 10) : 0;
    if (!text || errno || *end || number <= 0)
        return tr_fail(TR_EINVAL, "%s=%s: a number of bytes is wanted beside %s=%s", MEMORY, text ? text : "", FOLDER, variable(FOLDER));
    *bytes = (uint64_t)number;
    return TR_OK;
}

tr_status tr_table_complete_place(tr_table_segment *place, uint64_t stride, uint64_t strides)
{
    uint64_t bytes = 0;

    if (!variable(FOLDER) && variable(MEMORY))
        return tr_fail(TR_EINVAL, "%s=%s without %s: name the folder for the other rows", MEMORY, variable(MEMORY), FOLDER);
    if (!variable(FOLDER))
        return TR_OK;
    TR_TRY(read_memory(&bytes));
    place->spill = variable(FOLDER);
    place->memory = (uint64_t)((double)bytes * ((double)stride / (double)strides));
    return TR_OK;
}
