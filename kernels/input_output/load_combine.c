/* load_combine.c - read several variables from one file, in the order in which save_combine wrote them. */
#include <errno.h>
#include <string.h>

#include "framework/base/path.h"
#include "framework/plans/plan.h"
#include "framework/tensors/tensor_io.h"
#include "kernels/input_output/tensor_file.h"

/* -- interface ------------------------------------------------------------------------------ */

enum { OUT };

typedef struct attrs {
    bool        load_as_fp16, model_from_memory;
    const char *file_path;
} attrs;

static const tr_op_proto proto = {
    .doc = "Reads all of Out from one file, which save_combine wrote with the same variables in the same order.",
    .out = TR_SLOTS({"Out", "what the file holds", TR_SLOT_REPEATED}),
    TR_ATTRS_OF(attrs,
        TR_ATTR(attrs, load_as_fp16, BOOL, "turn floating-point numbers into float16"),
        TR_ATTR(attrs, model_from_memory, BOOL, "file_path is not a path but holds the file's bytes"),
        TR_ATTR(attrs, file_path, STRING, "the file", .required = true)),
};

static tr_status check(const void *attrs_)
{
    const attrs *a = attrs_;

    return a->model_from_memory ? TR_OK : tr__file_path_check("load_combine", a->file_path);
}

static tr_status infer(const tr_infer *io)
{
    for (int i = 0; i < io->outs[OUT].count; i++)
        io->outs[OUT].item[i].shape.rank = 0;
    return TR_OK;
}

/* -- kernel ----------------------------------------------------------------------------------- */

/* The bytes may hold zeros: their number stands in the desc alone. */
static tr_status open_file(FILE **in, const tr_run *io, const attrs *a)
{
    size_t size;

    if (!a->model_from_memory)
        return tr_path_fopen(in, NULL, a->file_path);
    const char *bytes = tr_op_desc_attr_string(io->step->desc, "file_path", 0, &size);
    *in = fmemopen((void *)bytes, size, "rb");
    return *in ? TR_OK : tr_fail(TR_EIO, "cannot read a file from memory: %s", strerror(errno));
}

static tr_status read_all(FILE *in, const tr_run *io, bool as_fp16)
{
    tr_status status = TR_OK;
    tr_tensor read;
    int       i;

    tr_tensor_init(&read);
    for (i = 0; status == TR_OK && i < io->outs[OUT].count; i++) {
        status = tr_tensor_read(in, as_fp16 ? &read : io->outs[OUT].item[i]);
        if (status == TR_OK && as_fp16)
            status = tr__tensor_from_file(io->outs[OUT].item[i], &read, true);
    }
    tr_tensor_deinit(&read);
    if (status != TR_OK)
        return tr_context(status, "variable '%s', which is number %d of %d", tr_run_out_name(io, OUT, i - 1), i,
                          io->outs[OUT].count);
    if (fgetc(in) != EOF)
        return tr_fail(TR_EFORMAT, "load_combine: the file holds more than the %d variables listed in Out",
                       io->outs[OUT].count);
    return TR_OK;
}

static tr_status run(const tr_run *io)
{
    const attrs *a = io->attrs;
    const char  *path = a->model_from_memory ? "(memory)" : a->file_path;
    FILE        *in;

    TR_TRY(open_file(&in, io, a));
    const tr_status status = read_all(in, io, a->load_as_fp16);
    fclose(in);
    return status == TR_OK ? TR_OK : tr_context(status, "while loading '%s'", path);
}

TR_REGISTER_OP(load_combine, .proto = &proto, .check = check, .infer = infer, .run = run, .io = TR_IO_FILES);
