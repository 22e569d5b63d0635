/* view.h - operators that give the same elements another shape: reshape, squeeze, unsqueeze, flatten, and their
 * gradients.
 *
 * They share one kernel, which copies bytes, or does nothing where the plan lets Out lie in X's memory. The forms whose
 * name ends in 2 (as in Fluid) also have XShape, an empty tensor of the shape [0, X's dimensions...]: old programs
 * name it, nothing reads it here. */
#pragma once

#include "framework/gradients/grad_second.h"
#include "framework/operators/op.h"

/* Slots of all of them, and of their gradients. */
enum { TR_VIEW_X };
enum { TR_VIEW_OUT, TR_VIEW_XSHAPE };
enum { TR_VIEW_GRAD_X, TR_VIEW_GRAD_DOUT };
enum { TR_VIEW_GRAD_DX };

#define TR_SLOT_XSHAPE {"XShape", "[0, X's dimensions...]; holds no data", TR_SLOT_INTERMEDIATE}

/* Out is X in another shape; it keeps the sequences where the number of rows stays. */
tr_meta tr__view_meta(const tr_meta *x, const tr_shape *shape);
/* XShape for X; fails when X's rank leaves no room. */
tr_status tr__view_xshape(tr_meta *out, const tr_infer *io, const tr_meta *x);

/* The kernels: forward and gradient. */
tr_status tr__view_run(const tr_run *io);
tr_status tr__view_grad_run(const tr_run *io);
/* X@GRAD is like X, and Out@GRAD must have as many elements. */
tr_status tr__view_grad_infer(const tr_infer *io);

/* The rule and the two records of a view, given its proto, infer and kernel:
 *     TR_VIEW_OP(squeeze, squeeze_proto, infer_squeeze, tr__view_run); */
#define TR_VIEW_OP(type_, proto_, infer_, run_)                                                             \
    static const tr_grad_rule type_##_rule = {                                                              \
        .op = #type_ "_grad",                                                                               \
        .reads = {TR_IN_SHAPE(TR_VIEW_X), TR_DOUT(TR_VIEW_OUT)},                                            \
        .makes = {TR_DIN(TR_VIEW_X)},                                                                       \
        .second = tr__second_linear,                                                                        \
    };                                                                                                      \
    TR_REGISTER_OP(type_, .proto = &proto_, .infer = infer_, .run = run_, .grad = &type_##_rule,            \
                   .inplace = {{TR_VIEW_X, TR_VIEW_OUT}}, .inplace_count = 1);                              \
    TR_REGISTER_OP(type_##_grad, .grad_of = &tr_op_record_##type_, .infer = tr__view_grad_infer, .run = tr__view_grad_run, \
                   .inplace = {{TR_VIEW_GRAD_DOUT, TR_VIEW_GRAD_DX}}, .inplace_count = 1)
