/* save_combine.c - write several variables to one file: their records in the order of X, nothing between them.
 *
 * The file holds no names: load_combine must list the same variables in the same order. Those who write the operator
 * sort them by name. */
#include "framework/tensors/beside.h"
#include "framework/tensors/tensor_io.h"
#include "kernels/input_output/tensor_file.h"

/* -- interface ------------------------------------------------------------------------------ */

enum { X };

static const tr_op_proto proto = {
    .doc = "Writes all of X to one file, one after the other. The file appears when all of it is written.",
    .in = TR_SLOTS({"X", "any shapes and types; selected rows too", TR_SLOT_REPEATED | TR_SLOT_ROWS}),
    TR_ATTRS_OF(tr_save_attrs, TR_SAVE_ATTRS),
};

static tr_status check(const void *attrs)
{
    return tr__file_path_check("save_combine", ((const tr_save_attrs *)attrs)->file_path);
}

/* -- kernel ----------------------------------------------------------------------------------- */

static tr_status write_all(FILE *out, const tr_run *io, bool as_fp16)
{
    for (int i = 0; i < io->ins[X].count; i++) {
        tr_tensor written;
        tr_tensor_init(&written);
        tr_status status = tr__tensor_for_file(&written, io->ins[X].item[i], as_fp16);
        if (status == TR_OK)
            status = tr_tensor_write(out, &written);
        tr_tensor_deinit(&written);
        if (status != TR_OK)
            return tr_context(status, "variable '%s'", tr_run_in_name(io, X, i));
    }
    return TR_OK;
}

static tr_status run(const tr_run *io)
{
    const tr_save_attrs *a = io->attrs;
    tr_beside            file;

    TR_TRY(tr__save_may_write("save_combine", a));
    TR_TRY(tr_beside_open(&file, a->file_path));
    const tr_status status = tr_beside_close(&file, write_all(file.out, io, a->save_as_fp16));
    return status == TR_OK ? TR_OK : tr_context(status, "while saving '%s'", a->file_path);
}

TR_REGISTER_OP(save_combine, .proto = &proto, .run = run, .check = check, .has_effect = true, .io = TR_IO_FILES);
