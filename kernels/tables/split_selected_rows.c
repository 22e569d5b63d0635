/* split_selected_rows.c - selected rows cut into sections of their height.
 *
 * Fluid's transpiler cuts the gradients of a table that is spread over servers in this way. In Trireme the client of the servers does that
 * itself (pserver/). Backward: the rows of all sections together, with their numbers in X. Fluid's gradient, the operator sum, leaves out
 * where a section begins. */
#include "kernels/tables/row_slices.h"

#include <inttypes.h>

/* -- interface -------------------------------------------------------------------------------- */
enum { X };
enum { OUT };

typedef struct section_attrs {
    tr_longs height_sections;
} section_attrs;

static const tr_attr_def section_attr_defs[] = {
    TR_ATTR(section_attrs, height_sections, LONGS, "how many rows each section has, held or not"), {.name = NULL},
};

static const tr_op_proto section_proto = {
    .doc = "Cuts selected rows into sections of their height: Out[k] has the rows of section k, counted from where it begins.",
    .in = TR_SLOTS({"X", "selected rows", TR_SLOT_ROWS}),
    .out = TR_SLOTS({"Out", "selected rows, height_sections[k] high", TR_SLOT_REPEATED | TR_SLOT_ROWS}),
    .attr = section_attr_defs,
    .attrs_size = sizeof(section_attrs),
};

/* The begin and the end of section k; false: the sections are too many rows for a number. */
static bool find_section(tr_row_slice *part, const section_attrs *a, int k)
{
    part->last = 0;
    for (int i = 0; i <= k; i++) {
        part->first = part->last;
        if (__builtin_add_overflow(part->first, a->height_sections.item[i], &part->last))
            return false;
    }
    return true;
}

static tr_row_slice slice_of(const void *attrs, int count, int k)
{
    tr_row_slice part = {0};

    (void)count;
    find_section(&part, attrs, k);                    /* check has seen that it can be done */
    return part;
}

static tr_status check_sections(const void *attrs)
{
    const section_attrs *a = attrs;
    tr_row_slice          part = {0};

    for (int k = 0; k < a->height_sections.count; k++) {
        if (a->height_sections.item[k] < 1)
            return tr_fail(TR_ERANGE, "split_selected_rows: height_sections[%d] is %lld; a section has one row at least", k,
                           (long long)a->height_sections.item[k]);
        if (!find_section(&part, a, k))
            return tr_fail(TR_ERANGE, "split_selected_rows: the height_sections add up to more than 2^63 rows");
    }
    return TR_OK;
}

static tr_status infer_sections(const tr_infer *io)
{
    const section_attrs *a = io->attrs;

    if (io->in[0].kind != TR_KIND_SELECTED_ROWS)
        return tr_fail(TR_EINVAL, "%s: X must be selected rows, got a dense tensor %s", io->type, TR_SHAPE_STR(io->in[0].shape));
    if (a->height_sections.count != io->outs[OUT].count)
        return tr_fail(TR_ERANGE, "%s: there are %d height_sections, but %d outputs", io->type, a->height_sections.count, io->outs[OUT].count);
    for (int k = 0; k < io->outs[OUT].count; k++) {
        io->outs[OUT].item[k] = io->in[0];
        io->outs[OUT].item[k].shape.dim[0] = -1;
        io->outs[OUT].item[k].height = a->height_sections.item[k];
    }
    return TR_OK;
}

static tr_status run_sections(const tr_run *io)
{
    const section_attrs *a = io->attrs;
    const tr_tensor     *x = io->in[0];
    const int            count = a->height_sections.count;
    const int64_t        height = count > 0 ? slice_of(a, count, count - 1).last : 0;

    for (int k = 0; k < count; k++) {
        const tr_row_slice part = slice_of(a, count, k);
        TR_TRY(tr__row_slice_take(io, OUT, k, x, &part));
    }
    for (int64_t i = 0; i < x->rows->count; i++)
        if (x->rows->index[i] >= height)
            return tr_fail(TR_ERANGE, "split_selected_rows: row %" PRId64 " of '%s' lies after the %" PRId64 " rows of height_sections",
                           x->rows->index[i], tr_run_in_name(io, 0, 0), height);
    return TR_OK;
}

/* -- gradient and registration ------------------------------------------------------------------ */
static tr_status make_grad(tr_grad_maker *maker)
{
    return tr__row_slices_make_grad(maker, "split_selected_rows_grad", "X");
}

static tr_status infer_grad(const tr_infer *io)
{
    const section_attrs *a = io->attrs;
    const int            count = a->height_sections.count;

    if (count != io->ins[0].count)
        return tr_fail(TR_ERANGE, "%s: there are %d height_sections, but %d of Out@GRAD", io->type, count, io->ins[0].count);
    return tr__row_slices_infer_grad(io, slice_of, slice_of(a, count, count - 1).last);
}

static tr_status run_grad(const tr_run *io) { return tr__row_slices_run_grad(io, slice_of); }

static const tr_op_proto grad_proto = {
    .doc = "The gradient of selected rows that were cut into sections: the gradients of all sections together.",
    .in = TR_SLOTS({"Out@GRAD", TR_ROW_SLICES_DOC, TR_SLOT_REPEATED | TR_SLOT_HOLES | TR_SLOT_ROWS}),
    .out = TR_SLOTS({"X@GRAD", TR_WHOLE_ROWS_DOC}),
    .attr = section_attr_defs,
    .attrs_size = sizeof(section_attrs),
};
static const tr_grad_rule grad = {.make = make_grad};

TR_REGISTER_OP(split_selected_rows, .proto = &section_proto, .check = check_sections, .infer = infer_sections, .run = run_sections, .grad = &grad);
TR_REGISTER_OP(split_selected_rows_grad, .grad_of = &tr_op_record_split_selected_rows, .proto = &grad_proto, .check = check_sections,
               .infer = infer_grad, .kernels = {{[TR_FP32] = run_grad, [TR_FP64] = run_grad}});
