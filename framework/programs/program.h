/* program.h - programs and blocks as the framework's own files change them.
 *
 * program_desc.h has the structs, op_desc.h what is asked of one operator. */
#pragma once

#include "framework/base/status.h"
#include "framework/programs/op_desc.h"
#include "framework/programs/program_desc.h"

/* tr_block_create_var for a name that was checked before, or derived from such a one. */
tr_var_desc   *tr__block_var(tr_block *block, const char *name);
/* Put the operator into the list, unchecked: tr_block_insert_op (infer.c) has checked it. */
tr_status      tr__block_place_op(tr_block *block, int index, tr_op_desc *op);
/* One operator as "Out : float32[?, 10] = mul(X=x, Y=w) {x_num_col_dims=1}"; free by tr_free. */
char          *tr__op_desc_to_string(const tr_op_desc *op);
