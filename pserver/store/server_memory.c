/* server_memory.c - a server's memory for the state of tasks and for the board: segments beside its state, which outlive the process. */
#include "pserver/store/server_memory.h"

#include <stdio.h>
#include <stdlib.h>

const char *tr__server_name(char out[TR_SEGMENT_NAME], int server)
{
    const char *prefix = getenv("TRIREME_STATE");

    return prefix && *prefix && tr_state_name(out, TR_SEGMENT_NAME, prefix, server) ? out : NULL;
}

const char *tr__server_program_name(char out[TR_SEGMENT_NAME], const tr_server_program *sp)
{
    return tr__server_name(out, sp->part.server);
}

/* The name of a segment. NULL: no memory outlives the process. */
static const char *own_name(char out[TR_SEGMENT_NAME + 16], const tr_server_program *sp, const char *what)
{
    char name[TR_SEGMENT_NAME];

    if (!tr__server_program_name(name, sp))
        return NULL;
    snprintf(out, TR_SEGMENT_NAME + 16, "%s.%s", name, what);
    return out;
}

static void let_go(tr_segment *segment, bool is_over)
{
    if (segment && is_over)
        tr_segment_remove(tr_segment_name(segment));
    tr_segment_free(segment);
}

void tr__server_memory_free(tr_server_program *sp)
{
    let_go(sp->tasks, sp->is_over);
    let_go(sp->board, sp->is_over);
}

void tr__server_memory_remove(tr_server_program *sp)
{
    char own[TR_SEGMENT_NAME + 16];

    if (own_name(own, sp, "tasks"))
        tr_segment_remove(own);
    if (!sp->board && own_name(own, sp, "board"))  /* the board may be in use already, because trainers can post before the setup */
        tr_segment_remove(own);
}

/* == tasks ================================================================================= */

enum { TASKS_VERSION = 2 };
static const uint64_t TASKS_LIMIT = (uint64_t)1 << 38;

void *tr__server_memory_tasks(void *self, uint64_t *bytes)
{
    tr_server_program *sp = self;
    char               own[TR_SEGMENT_NAME + 16];

    if (!own_name(own, sp, "tasks"))
        return NULL;
    tr_segment_free(sp->tasks);                    /* the attached segment was empty, or has other tasks */
    sp->tasks = NULL;
    if (*bytes == 0) {
        if (tr_segment_attach(&sp->tasks, own, "tasks", TASKS_VERSION, TASKS_LIMIT) != TR_OK)
            return NULL;
        *bytes = tr_segment_bytes(sp->tasks);
        return tr_segment_base(sp->tasks);
    }
    tr_segment_remove(own);                        /* usually there is no old one */
    if (tr_segment_create(&sp->tasks, own, "tasks", TASKS_VERSION, TASKS_LIMIT) != TR_OK)
        return NULL;                               /* without it tasks begin from the first after a death */
    if (tr_segment_grow(sp->tasks, *bytes) == TR_OK)
        return tr_segment_base(sp->tasks);
    tr_segment_free(sp->tasks);
    sp->tasks = NULL;
    tr_segment_remove(own);
    return NULL;
}

/* == board ================================================================================= */

enum { BOARD_VERSION = 1 };
static const uint64_t BOARD_LIMIT = (uint64_t)1 << 34;

static void *grow_board(tr_server_program *sp, uint64_t *bytes)
{
    if (tr_segment_grow(sp->board, *bytes) != TR_OK)
        return NULL;
    *bytes = tr_segment_bytes(sp->board);
    return tr_segment_base(sp->board);
}

void *tr__server_memory_board(void *self, uint64_t *bytes, bool anew)
{
    tr_server_program *sp = self;
    char               own[TR_SEGMENT_NAME + 16];

    if (!own_name(own, sp, "board"))
        return NULL;
    if (!anew && !sp->board && tr_segment_attach(&sp->board, own, "board", BOARD_VERSION, BOARD_LIMIT) != TR_OK)
        return NULL;
    if (!anew)
        return grow_board(sp, bytes);
    let_go(sp->board, true);
    sp->board = NULL;
    tr_segment_remove(own);                        /* usually there is no old one */
    if (tr_segment_create(&sp->board, own, "board", BOARD_VERSION, BOARD_LIMIT) != TR_OK)
        return NULL;                               /* without it posts are lost after a death */
    void *memory = grow_board(sp, bytes);
    if (!memory) {
        let_go(sp->board, true);
        sp->board = NULL;
    }
    return memory;
}
