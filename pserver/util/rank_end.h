/* rank_end.h - how a rank ends its own process while its threads are at work. No other code of pserver/ and trainer/ does so, except
 * tr__out_of_memory (framework/base/memory.h) and the ends of main(). MPI is not finalized, because after a death that would wait for
 * ever. */
#pragma once

typedef enum tr_rank_end {
    TR_RANK_EXITS,                    /* with an exit code, which the launcher and mpirun see */
    /* By SIGKILL, at once and without a message: the others have declared this rank dead (fencing), or its threads are stuck. An exit
     * code would count as the job's. */
    TR_RANK_IS_DEAD,
} tr_rank_end;

/* `code`: the exit code, for TR_RANK_EXITS. */
_Noreturn void tr__rank_end(tr_rank_end how, int code);
