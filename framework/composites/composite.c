/* composite.c - the parts of one composite operator. See composite.h.
 *
 * The body is written into a program of its own, whose variables are named after the slots of the operator. The gradient is
 * derived there by tr_append_gradients. expanded.c moves the parts into the plan's program. */
#include "framework/composites/composite.h"

#include <assert.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "framework/base/memory.h"
#include "framework/base/name_list.h"
#include "framework/base/text.h"
#include "framework/formats/op_text.h"
#include "framework/operators/infer.h"
#include "framework/operators/op_attrs.h"
#include "framework/operators/op_check.h"
#include "framework/operators/op_registry.h"

struct tr_composite {
    const tr_op      *op;             /* the one with the body */
    tr_status       (*expand)(tr_composite *c);
    const tr_op_desc *desc;           /* its, or its gradient operator's */
    const tr_op_desc *expanded;       /* what is being expanded */
    tr_block         *around;         /* where `expanded` stands */
    tr_block         *block;          /* of the parts */
    tr__body        *parts;
    void             *attrs;
};

static bool is_there(const char *name) { return strcmp(name, "@EMPTY@") != 0; }

static char *own(tr__body *parts, char *name)
{
    parts->owned = tr__must_realloc(parts->owned, (size_t)(parts->owned_count + 1) * sizeof *parts->owned);
    return parts->owned[parts->owned_count++] = name;
}

static void must_put(tr_map *map, const char *key, void *value)
{
    if (tr_map_put(map, key, value) != 0)
        abort();                      /* a few bytes: like every setter of a desc */
}

/* -- slots ------------------------------------------------------------------------------------------- */

/* The arguments of a slot that are there, by their names among the parts: `X`, or `X.0`, `X.1` of a list. */
static const tr_slot *slot_args(const tr_composite *c, const tr_slot_def *def, bool output)
{
    return tr__op_desc_slot(c->desc, output, def->name);
}

static char *part_name(const tr_slot_def *def, int index)
{
    return def->flags & TR_SLOT_REPEATED ? tr__must_format("%s.%d", def->name, index) : tr__must_strdup(def->name);
}

static tr_status declare_input(tr_composite *c, const tr_slot_def *def, int index, const char *arg)
{
    const tr_var_desc *from = tr_block_find_var_recursive(c->around, arg);
    char              *name = own(c->parts, part_name(def, index));

    if (!from)
        return tr_fail(TR_ENOTFOUND, "%s: input %s names '%s', which is no variable of the program", c->op->type, def->name, arg);
    tr_var_desc *var = tr__block_var(c->block, name);
    tr_var_desc_set_kind(var, from->kind);
    tr_var_desc_set_dtype(var, from->dtype);
    tr_var_desc_set_lod_level(var, from->lod_level);
    must_put(&c->parts->names, name, own(c->parts, tr__must_strdup(arg)));
    return tr_var_desc_set_shape(var, from->shape.rank, from->shape.dim);
}

static tr_status name_slots(tr_composite *c, const tr_slot_def *defs, bool output)
{
    for (; defs && defs->name; defs++) {
        const tr_slot *slot = slot_args(c, defs, output);
        for (int i = 0; slot && i < slot->count; i++) {
            if (!is_there(slot->arg[i]))
                continue;
            if (!output)
                TR_TRY(declare_input(c, defs, i, slot->arg[i]));
            else
                must_put(&c->parts->names, own(c->parts, part_name(defs, i)), own(c->parts, tr__must_strdup(slot->arg[i])));
        }
    }
    return TR_OK;
}

static const tr_slot_def *find_slot_def(const tr_composite *c, const char *name, bool *output)
{
    const tr_op_proto *proto = tr__op_proto(c->op);

    for (int side = 0; side < 2; side++)
        for (const tr_slot_def *def = side ? proto->out : proto->in; def && def->name; def++)
            if (strcmp(def->name, name) == 0) {
                *output = side;
                return def;
            }
    return NULL;
}

int tr_composite_count(const tr_composite *c, const char *name)
{
    bool               output;
    const tr_slot_def *def = find_slot_def(c, name, &output);
    const tr_slot     *slot = def ? slot_args(c, def, output) : NULL;
    int                count = 0;

    for (int i = 0; slot && i < slot->count; i++)
        count += is_there(slot->arg[i]);
    return count;
}

/* -- what a body asks ----------------------------------------------------------------------------------- */

const void *tr_composite_attrs(const tr_composite *c) { return c->attrs; }

static const tr_var_desc *var_of(const tr_composite *c, const char *name)
{
    bool               output;
    const tr_slot_def *def = find_slot_def(c, name, &output);
    char              *first = def ? part_name(def, 0) : tr__must_strdup(name);
    const tr_var_desc *var = tr_block_find_var(c->block, first);

    free(first);
    return var;
}

tr_shape tr_composite_declared(const tr_composite *c, const char *name)
{
    const tr_var_desc *var = var_of(c, name);
    return var ? var->shape : (tr_shape){.rank = 0};
}

tr_dtype tr_composite_dtype(const tr_composite *c, const char *name)
{
    const tr_var_desc *var = var_of(c, name);
    return var ? var->dtype : TR_DTYPE_NONE;
}

tr_status tr_composite_known_rank(int *out, const tr_composite *c, const char *name)
{
    *out = tr_composite_declared(c, name).rank;
    if (*out == 0)
        return tr_fail(TR_ESHAPE, "%s: the rank of %s must be known before it runs: declare its shape", c->op->type, name);
    return TR_OK;
}

void tr_composite_stop_gradient(tr_composite *c, const char *name)
{
    must_put(&c->parts->stopped, own(c->parts, tr__must_strdup(name)), c->parts);
}

/* -- parts ------------------------------------------------------------------------------------------------ */

/* Slots of the composite become their arguments; the others are variables of the body. */
static void resolve_slot(tr_composite *c, tr_op_desc *part, tr_slot *slot, bool is_output)
{
    tr__name_list names = {0};

    for (int i = 0; i < slot->count; i++) {
        bool               output;
        const tr_slot_def *def = find_slot_def(c, slot->arg[i], &output);
        const tr_slot     *args = def ? slot_args(c, def, output) : NULL;
        for (int k = 0; args && k < args->count; k++)
            if (is_there(args->arg[k]))
                tr__name_list_add(&names, own(c->parts, part_name(def, k)));
        if (!def || (output && !args))
            tr__name_list_add(&names, own(c->parts, tr__must_strdup(slot->arg[i])));
    }
    (is_output ? tr_op_desc_set_output : tr_op_desc_set_input)(part, slot->name, names.count, names.name);
    tr__name_list_deinit(&names);
}

static tr_status check_written_once(const tr_composite *c, const tr_op_desc *part)
{
    for (int i = 0; i < tr_op_desc_output_args(part); i++)
        if (tr_block_find_var(c->block, tr_op_desc_output_arg(part, i)))
            return tr_fail(TR_EINTERNAL, "%s: its body writes '%s' twice, or an input", c->op->type,
                           tr_op_desc_output_arg(part, i));
    return TR_OK;
}

static tr_status add_part(tr_composite *c, tr_op_desc *part)
{
    for (int s = 0; s < part->in_count; s++)
        resolve_slot(c, part, &part->in[s], false);
    for (int s = 0; s < part->out_count; s++)
        resolve_slot(c, part, &part->out[s], true);
    TR_TRY(check_written_once(c, part));
    return tr_block_insert_op(c->block, -1, part);
}

tr_status tr_composite_add(tr_composite *c, const char *format, ...)
{
    va_list     args;
    tr_op_desc *part;

    va_start(args, format);
    char *line = tr__must_vformat(format, args);
    va_end(args);
    tr_status status = tr__op_desc_parse(&part, line);
    free(line);
    TR_TRY(status);
    status = add_part(c, part);
    if (status != TR_OK)
        tr_op_desc_free(part);
    return status;
}

const char *tr_composite_text(tr_composite *c, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    char *made = tr__must_vformat(format, args);
    va_end(args);
    return own(c->parts, made);
}

static const char *own_text(tr_composite *c, tr_text *text)
{
    char *made = tr__must_strdup(text->data ? text->data : "");

    tr_text_deinit(text);
    return own(c->parts, made);
}

const char *tr_composite_ints(tr_composite *c, const tr_ints *list)
{
    tr_text text = {0};

    for (int i = 0; i < list->count; i++)
        tr_text_add(&text, "%s%d", i > 0 ? ", " : "", list->item[i]);
    return own_text(c, &text);
}

const char *tr_composite_names(tr_composite *c, const char *part, int count)
{
    tr_text text = {0};

    for (int i = 0; i < count; i++)
        tr_text_add(&text, "%s%s%d", i > 0 ? ", " : "", part, i);
    return own_text(c, &text);
}

/* -- the gradient of a body --------------------------------------------------------------------------------- */

/* The slot `X@GRAD` of the gradient operator, or NULL. */
static const tr_slot *grad_slot(const tr_composite *c, const tr_slot_def *def, bool output)
{
    char          *name = tr__must_format("%s@GRAD", def->name);
    const tr_slot *slot = tr__op_desc_slot(c->expanded, output, name);

    free(name);
    return slot;
}

/* The gradient of input `index` of a slot as the gradient operator's output; NULL: not wanted. */
static const char *wanted_gradient(const tr_composite *c, const tr_slot_def *def, int index)
{
    const tr_slot *slot = grad_slot(c, def, true);
    return slot && index < slot->count && is_there(slot->arg[index]) ? slot->arg[index] : NULL;
}

/* The gradients that are given, of outputs; those that are not wanted, of inputs. */
typedef struct ends {
    tr__name_list target, given, stopped;
} ends;

static void ends_deinit(ends *e)
{
    tr__name_list_deinit(&e->target);
    tr__name_list_deinit(&e->given);
    tr__name_list_deinit(&e->stopped);
}

static tr_status declare_given(tr_composite *c, ends *e, const char *out, const char *grad)
{
    const tr_var_desc *like = tr_block_find_var(c->block, out);
    char              *name = own(c->parts, tr__must_format("%s@GIVEN", out));

    if (!like)
        return TR_OK;
    tr_var_desc *var = tr__block_var(c->block, name);
    tr_var_desc_set_kind(var, like->kind);
    tr_var_desc_set_dtype(var, like->dtype);
    tr_var_desc_set_lod_level(var, like->lod_level);
    must_put(&c->parts->names, name, own(c->parts, tr__must_strdup(grad)));
    tr__name_list_add(&e->target, like->name);
    tr__name_list_add(&e->given, var->name);
    return tr_var_desc_set_shape(var, like->shape.rank, like->shape.dim);
}

static tr_status find_ends(tr_composite *c, ends *e)
{
    const tr_op_proto *proto = tr__op_proto(c->op);

    for (const tr_slot_def *def = proto->out; def && def->name; def++) {
        const tr_slot *slot = grad_slot(c, def, false);
        for (int i = 0; slot && i < slot->count; i++)
            if (is_there(slot->arg[i]))
                TR_TRY(declare_given(c, e, own(c->parts, part_name(def, i)), slot->arg[i]));
    }
    for (const tr_slot_def *def = proto->in; def && def->name; def++) {
        const tr_slot *slot = slot_args(c, def, false);
        for (int i = 0; slot && i < slot->count; i++)
            if (!wanted_gradient(c, def, i))
                tr__name_list_add(&e->stopped, own(c->parts, part_name(def, i)));
    }
    for (size_t i = 0; i < c->parts->stopped.entry_count; i++)
        if (c->parts->stopped.entries[i].key)
            tr__name_list_add(&e->stopped, c->parts->stopped.entries[i].key);
    return TR_OK;
}

/* The gradient of an input, where the gradient operator wants it; zeros when no output depends on the input. */
static tr_status take_gradient(tr_composite *c, const char *input, const char *to)
{
    const tr_var_desc *var = tr_block_find_var(c->block, input);
    char              *name = own(c->parts, var->gradient ? tr__must_strdup(var->gradient) : tr__must_format("%s@NONE", input));

    must_put(&c->parts->names, name, own(c->parts, tr__must_strdup(to)));
    return var->gradient ? TR_OK : tr_composite_add(c, "fill_zeros_like(X=%s) -> %s", input, name);
}

static tr_status derive_gradient(tr_composite *c)
{
    ends      e = {0};
    tr_status status = find_ends(c, &e);

    if (status == TR_OK)
        status = tr_append_gradients(c->parts->program, e.target.count, e.target.name, e.given.name, 0, NULL, e.stopped.count, e.stopped.name);
    ends_deinit(&e);
    for (const tr_slot_def *def = tr__op_proto(c->op)->in; status == TR_OK && def && def->name; def++) {
        const tr_slot *slot = slot_args(c, def, false);
        for (int i = 0; status == TR_OK && slot && i < slot->count; i++) {
            const char *to = wanted_gradient(c, def, i);
            if (to)
                status = take_gradient(c, own(c->parts, part_name(def, i)), to);
        }
    }
    return status;
}

/* -- what is needed ------------------------------------------------------------------------------------------- */

void tr__body_mark(tr__body *parts, tr_map *needed)
{
    const tr_block *block = tr_program_block(parts->program, 0);

    free(parts->keep);
    parts->keep = tr__must_alloc((size_t)block->op_count + 1);
    for (int i = block->op_count - 1; i >= 0; i--) {
        const tr_op_desc *part = block->op[i];
        for (int k = 0; k < tr_op_desc_output_args(part); k++)
            parts->keep[i] = parts->keep[i] || tr_map_find(needed, tr_op_desc_output_arg(part, k));
        for (int k = 0; parts->keep[i] && k < tr_op_desc_input_args(part); k++)
            must_put(needed, tr_op_desc_input_arg(part, k), parts);
    }
}

/* Keep the parts on which an output of the gradient operator depends. Of a body all are kept: its gradient may need them, and
 * a plan drops what nothing needs. */
static void mark_needed(tr_composite *c, bool keep_all)
{
    tr__body         *parts = c->parts;
    const tr_op_desc *op = c->expanded;
    tr_map            needed = {0};

    for (size_t i = 0; i < parts->names.entry_count; i++)
        for (int k = 0; k < tr_op_desc_output_args(op); k++)
            if (strcmp(parts->names.entries[i].value, tr_op_desc_output_arg(op, k)) == 0)
                must_put(&needed, parts->names.entries[i].key, c);
    tr__body_mark(parts, &needed);
    for (int i = 0; keep_all && i < c->block->op_count; i++)
        parts->keep[i] = true;
    tr_map_deinit(&needed);
}

/* -- the whole --------------------------------------------------------------------------------------------------- */

/* Whether the arguments are what the operator takes: a program from a file has not been looked at. */
static tr_status check_declared(const tr_composite *c)
{
    const tr_op       *op = tr_op_find(c->expanded->type);
    const tr_op_proto *proto = tr__op_proto(op);
    tr_infer_frame     frame;
    int                counts[64] = {0}, slots = 0, a = 0;

    for (int side = 0; side < 2; side++)
        for (const tr_slot_def *def = side ? proto->out : proto->in; def && def->name; def++) {
            const tr_slot *slot = tr__op_desc_slot(c->expanded, side, def->name);
            assert(slots < 64);
            counts[slots++] = slot ? slot->count : 0;
        }
    TR_TRY(tr__infer_frame_init(&frame, op, counts));
    for (int side = 0; side < 2; side++)
        for (const tr_slot_def *def = side ? proto->out : proto->in; def && def->name; def++) {
            const tr_slot *slot = tr__op_desc_slot(c->expanded, side, def->name);
            for (int i = 0; slot && i < slot->count; i++, a++) {
                const tr_var_desc *var = is_there(slot->arg[i]) ? tr_block_find_var_recursive(c->around, slot->arg[i]) : NULL;
                frame.meta[a] = var ? tr__meta_of_desc(var) : tr_meta_dense(TR_DTYPE_NONE, (tr_shape){.rank = 0});
                if (!is_there(slot->arg[i]))
                    frame.meta[a].kind = TR_KIND_NONE;
            }
        }
    tr_status status = tr__op_check_slots(&frame, op);
    if (status == TR_OK)
        status = tr__infer_frame_run(&frame, op, c->attrs);
    tr__infer_frame_deinit(&frame);
    return status;
}

static tr_status decode_attrs(tr_composite *c, tr_op_desc *desc)
{
    c->attrs = tr__must_alloc(tr__op_proto(c->op)->attrs_size + 1);
    TR_TRY(tr__attrs_check(c->op, desc, true));
    TR_TRY(tr__attrs_decode(c->attrs, c->op, desc));
    return tr__op_check_attrs(c->op, c->attrs);
}

static tr_status make_parts(tr_composite *c, const tr_op *op, tr_op_desc *desc)
{
    const tr_op_proto *proto = tr__op_proto(c->op);

    TR_TRY(decode_attrs(c, desc));
    TR_TRY(check_declared(c));
    TR_TRY(name_slots(c, proto->in, false));
    if (op == c->op)
        TR_TRY(name_slots(c, proto->out, true));
    TR_TRY(c->expand(c));
    c->parts->body_count = c->block->op_count;
    if (op != c->op)
        TR_TRY(derive_gradient(c));
    mark_needed(c, op == c->op);
    return TR_OK;
}

static tr_status init_body(tr__body *parts, tr_composite *c, const tr_op *op, const tr_op_desc *desc)
{
    /* Of a gradient operator, forward inputs and outputs are among the inputs. */
    tr_op_desc *copy = tr__op_desc_clone(desc), *forward = tr__op_desc_clone(desc);

    *parts = (tr__body){.program = tr_program_new()};
    c->desc = forward;
    c->expanded = desc;
    c->parts = parts;
    c->block = tr_program_block(parts->program, 0);
    for (int s = 0; op != c->op && s < desc->in_count; s++)
        tr_op_desc_set_output(forward, desc->in[s].name, desc->in[s].count, (const char *const *)desc->in[s].arg);
    tr_status status = make_parts(c, op, copy);
    if (status != TR_OK) {
        tr_context(status, "while %s was expanded", op->type);
        tr__body_deinit(parts);
    }
    tr_op_desc_free(copy);
    tr_op_desc_free(forward);
    free(c->attrs);
    return status;
}

tr_status tr__body_init(tr__body *parts, const tr_op *op, const tr_op_desc *desc, tr_block *block)
{
    const bool   has_own = op->expand || (op->grad && op->grad->parts);
    tr_composite c = {.op = has_own ? op : op->grad_of, .around = block};

    c.expand = c.op->expand ? c.op->expand : c.op->grad->parts;
    return init_body(parts, &c, op, desc);
}

tr_status tr__body_init_gradient(tr__body *parts, const tr_op *op, const tr_op_desc *desc, tr_block *block)
{
    tr_composite c = {.op = op, .expand = op->grad_of->grad->body, .around = block};

    return c.expand ? init_body(parts, &c, op, desc) : tr__body_init(parts, op, desc, block);
}

void tr__body_deinit(tr__body *parts)
{
    tr_program_free(parts->program);
    tr_map_deinit(&parts->names);
    tr_map_deinit(&parts->stopped);
    for (int i = 0; i < parts->owned_count; i++)
        free(parts->owned[i]);
    free(parts->owned);
    free(parts->keep);
    *parts = (tr__body){.program = NULL};
}
