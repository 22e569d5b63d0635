/* program_reach.c - what a program reaches beyond its scope: files and other processes (tr_program_check_io). */
#include "framework/op_registry.h"
#include "framework/program.h"

static const char *reach_of(unsigned io)
{
    return io & TR_IO_FILES ? "reads or writes files" : "talks to other processes";
}

/* An operator that does not exist cannot run: it is refused when the program is. */
static tr_status check_block(const tr_block *block, unsigned allowed)
{
    for (int i = 0; i < block->op_count; i++) {
        const tr_op   *op = tr_op_find(block->op[i]->type);
        const unsigned io = op ? op->io & ~allowed : 0;
        if (io)
            return tr_fail(TR_EUNSUPPORTED, "program: block %d, operator %d (%s) %s: a program from a file may not, unless this is "
                           "allowed (Python: allow_io=True; C: TR_IO_ALL)", block->index, i, op->type, reach_of(io));
    }
    return TR_OK;
}

tr_status tr_program_check_io(const tr_program *program, unsigned allowed)
{
    for (int b = 0; b < program->block_count; b++)
        TR_TRY(check_block(program->block[b], allowed));
    return TR_OK;
}
