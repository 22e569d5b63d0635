/* op_registry.h - the operators of this process, by type.
 *
 * Records are constant data listed by the floors above (kernels/ops.def), which hand them over at start, before
 * other threads look anything up; from then on the registry only changes inside its locked caches. */
#pragma once

#include "framework/operators/op.h"
#include "framework/programs/program.h"

/* Adding a record a second time does nothing. A record that contradicts itself ends the process. */
void tr_registry_add(const tr_op *const *records, int count);

/* Facts that are derived from a record. */
typedef struct tr_op_info {
    const tr_op       *op;
    const tr_op_proto *proto;             /* the record's, or that of its gradient rule */
    int                in_count, out_count, attr_count;
    tr_attr           *defaults;          /* attr_count; a required attribute has no name. Made when first asked for */
    char             **default_text, **range_text;
} tr_op_info;

/* The check of decoded attributes: a gradient operator with its forward operator's attributes has the forward one's. */
tr_status          tr__op_check_attrs(const tr_op *op, const void *attrs);
const tr_op_info  *tr__op_info(const tr_op *op);
const tr_op_proto *tr__op_proto(const tr_op *op);
int                tr__slot_count(const tr_slot_def *slots);      /* of a list that ends with a NULL name */
/* The default of attribute `index`, which lives as long as the process; NULL: it is required. */
const tr_attr     *tr__op_default(const tr_op *op, int index);
/* The index of forward slot `slot`, as `what`, among the items that a gradient operator reads, or makes; -1: none. */
int                tr__grad_item_find(const tr_grad_item *items, tr_grad_what what, int slot);
/* Of all types the one most like `type`; "" when there are none. */
const char        *tr__op_nearest(const char *type);

/* The attributes that every operator accepts beside its own. */
enum { TR_COMMON_ATTRS = 5 };
extern const tr_attr_def tr__common_attrs[TR_COMMON_ATTRS + 1];
