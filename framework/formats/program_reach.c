/* program_reach.c - what a program reaches beyond its scope: files, other processes, functions (tr_program_check_io). */
#include "framework/operators/op_registry.h"
#include "framework/programs/program.h"

static const char *reach_of(unsigned io)
{
    return io & TR_IO_FILES ? "reads or writes files" : "talks to other processes";
}

static tr_status refuse(const tr_block *block, int i, unsigned io)
{
    const char *type = block->op[i]->type;

    if (io & TR_IO_CODE)
        return tr_fail(TR_EUNSUPPORTED, "program: block %d, operator %d (%s) calls a function of the process that has made the program, and no file "
                       "holds the function. Save a model without this operator: name targets that do not need it, or replace it by layers",
                       block->index, i, type);
    return tr_fail(TR_EUNSUPPORTED, "program: block %d, operator %d (%s) %s: a program from a file may not, unless this is "
                   "allowed (Python: allow_io=True; C: TR_IO_ALL)", block->index, i, type, reach_of(io));
}

/* An operator that does not exist cannot run: it is refused when the program is. */
static tr_status check_block(const tr_block *block, unsigned allowed)
{
    for (int i = 0; i < block->op_count; i++) {
        const tr_op   *op = tr_op_find(block->op[i]->type);
        const unsigned io = op ? op->io & ~allowed : 0;
        if (io)
            return refuse(block, i, io);
    }
    return TR_OK;
}

tr_status tr_program_check_io(const tr_program *program, unsigned allowed)
{
    for (int b = 0; b < program->block_count; b++)
        TR_TRY(check_block(program->block[b], allowed));
    return TR_OK;
}
