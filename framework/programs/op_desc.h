/* op_desc.h - one operator of a program, as the framework's own files read and change it. */
#pragma once

#include "framework/programs/program_desc.h"

tr_slot    *tr__op_desc_slot(const tr_op_desc *op, bool output, const char *name);   /* or NULL */
tr_attr    *tr__op_desc_attr(const tr_op_desc *op, const char *name);                /* or NULL */
tr_op_desc *tr__op_desc_clone(const tr_op_desc *op);
void        tr__attr_copy(tr_op_desc *op, const tr_attr *attr);     /* set a copy of it */
/* The user's line that made it: the last line of op_callstack, or "". */
const char *tr__op_desc_origin(const tr_op_desc *op);
