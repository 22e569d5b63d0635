/* server_memory.h - the memory of a server's program, for the files of this folder: its variables, tables and segments. */
#pragma once

#include "framework/base/weak.h"
#include "framework/tensors/tensor.h"
#include "pserver/observe/meter.h"
#include "pserver/state/state.h"
#include "pserver/store/restored.h"
#include "pserver/store/server_part.h"
#include "pserver/store/update_plan.h"
#include "proto/pserver.pb-c.h"
#include "storage/memory/segment.h"
#include "storage/table/table_var.h"

typedef struct tr_server_program tr_server_program;

struct tr_server_program {
    tr_server_part part;              /* the part of the job that this program has */
    tr_state    *left_state;          /* the state of an earlier process in this part, until the setup takes it */
    tr_restored *restored;            /* this part of the checkpoint that the setup is to take; or NULL */
    struct tr_frozen *frozen;         /* the state of a moment, for a new replica */
    tr_weak     *job;                 /* in which updates take part, or NULL; borrowed */
    tr_times    *applied;             /* gets the duration of each update; borrowed */
    int64_t      in_pieces;           /* nanoseconds, of the update that is being gathered */
    const Trireme__Pserver__Setup *setup;          /* borrowed */
    bool         by_pieces;           /* a complete gradient is certain to be applied next */
    tr_program  *program;
    tr_scope    *scope;
    tr_update_plan *plan;
    uint32_t     value_count, block_count;
    tr_tensor  **value;               /* borrowed from the scope */
    tr_tensor  **param;               /* of each block: its parameter; borrowed from the scope */
    void       **value_memory[2], **param_memory[2];   /* their two buffers, or the one twice */
    int          side;                /* which of the two is the present one; while an update runs, a tensor may point to what was set
                                       * instead */
    bool         is_over;             /* the job has ended well, so the memory that outlives processes is not needed any more */
    tr_state    *state;               /* the memory that outlives the process */
    uint32_t     table_count;
    tr_table_var **table;             /* borrowed from the scope */
    struct tr_pushed_rows **pushed;   /* of each table: its gradient; likewise */
    tr_job_table *about;              /* of each table: its description */
    tr_segment  *tasks;               /* memory for the state of tasks; NULL: there is none that outlives the process */
    tr_segment  *board;               /* memory for the board; NULL: there is none that outlives the process */
};

static inline void *tr__server_program_value(const tr_server_program *sp, uint32_t index)
{
    return sp->value_memory[sp->side][index];
}

static inline uint64_t tr__server_program_value_bytes(const tr_server_program *sp, uint32_t index)
{
    return (uint64_t)tr_tensor_bytes(sp->value[index]);
}

/* The name of the state of a server that outlives the process. NULL: no state is kept, because no later process would read it. */
const char *tr__server_name(char out[TR_SEGMENT_NAME], int server);
const char *tr__server_program_name(char out[TR_SEGMENT_NAME], const tr_server_program *sp);

/* Memory for the state of tasks and for the board, as in tr_store. */
void       *tr__server_memory_tasks(void *self, uint64_t *bytes);
void       *tr__server_memory_board(void *self, uint64_t *bytes, bool anew);
void        tr__server_memory_remove(tr_server_program *sp);
void        tr__server_memory_free(tr_server_program *sp);
