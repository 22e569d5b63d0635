/* load.c - read a variable from a file of its own.
 *
 * Type, shape, sequences and rows are the file's, so the shape is not known before the operator runs, even where the
 * program declares one. */
#include "kernels/input_output/tensor_file.h"

/* -- interface ------------------------------------------------------------------------------ */

enum { OUT };

typedef struct attrs {
    bool        load_as_fp16;
    const char *file_path;
} attrs;

static const tr_op_proto proto = {
    .doc = "Reads Out from the file file_path, which save wrote.",
    .out = TR_SLOTS({"Out", "what the file holds"}),
    TR_ATTRS_OF(attrs,
        TR_ATTR(attrs, load_as_fp16, BOOL, "turn floating-point numbers into float16"),
        TR_ATTR(attrs, file_path, STRING, "the file", .required = true)),
};

/* -- shapes and kernel ------------------------------------------------------------------------ */

static tr_status check(const void *attrs_)
{
    return tr__file_path_check("load", ((const attrs *)attrs_)->file_path);
}

static tr_status infer(const tr_infer *io)
{
    io->out[OUT].shape.rank = 0;
    return TR_OK;
}

static tr_status run(const tr_run *io)
{
    const attrs *a = io->attrs;
    tr_tensor    read;

    tr_tensor_init(&read);
    tr_status status = tr_tensor_load(a->load_as_fp16 ? &read : io->out[OUT], a->file_path);
    if (status == TR_OK && a->load_as_fp16)
        status = tr__tensor_from_file(io->out[OUT], &read, true);
    tr_tensor_deinit(&read);
    return status == TR_OK ? TR_OK : tr_context(status, "variable '%s'", tr_run_out_name(io, OUT, 0));
}

TR_REGISTER_OP(load, .proto = &proto, .check = check, .infer = infer, .run = run, .io = TR_IO_FILES);
