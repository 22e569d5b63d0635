/* save.c - write X to a file of its own. */
#include "kernels/input_output/tensor_file.h"

/* -- interface ------------------------------------------------------------------------------ */

enum { X };

static const tr_op_proto proto = {
    .doc = "Writes X, a tensor or selected rows, to the file file_path. The file appears when all of it is written.",
    .in = TR_SLOTS({"X", "any shape and type; selected rows too", TR_SLOT_ROWS}),
    .out = TR_SLOTS({"kLookupTablePath", "accepted for old programs; never written", TR_SLOT_OPTIONAL}),
    TR_ATTRS_OF(tr_save_attrs, TR_SAVE_ATTRS),
};

static tr_status check(const void *attrs)
{
    return tr__file_path_check("save", ((const tr_save_attrs *)attrs)->file_path);
}

/* -- kernel ----------------------------------------------------------------------------------- */

static tr_status run(const tr_run *io)
{
    const tr_save_attrs *a = io->attrs;
    tr_tensor            written;

    TR_TRY(tr__save_may_write("save", a));
    tr_tensor_init(&written);
    tr_status status = tr__tensor_for_file(&written, io->in[X], a->save_as_fp16);
    if (status == TR_OK)
        status = tr_tensor_save(&written, a->file_path);
    tr_tensor_deinit(&written);
    return status == TR_OK ? TR_OK : tr_context(status, "variable '%s'", tr_run_in_name(io, X, 0));
}

TR_REGISTER_OP(save, .proto = &proto, .run = run, .check = check, .has_effect = true, .io = TR_IO_FILES);
