/* op_attrs.h - an operator's attributes against its proto: check and complete them when the operator is added
 * to a program, decode them into the operator's own struct when a plan is made. */
#pragma once

#include "framework/programs/program.h"

/* Every attribute must be known, of its type and in its range; a number of a narrower type is converted where it
 * keeps its value, an empty list becomes one of the right type. What is missing gets its default, or is reported
 * when it has none. Of an attribute that is not honoured only the value that asks for nothing is accepted (EUNSUPPORTED).
 *
 * `lenient` is for programs that were saved, perhaps by other releases: attributes that nobody knows are left
 * alone, and no defaults are added (tr__attrs_decode knows them), so that the program stays as it was saved. */
tr_status tr__attrs_check(const tr_op *op, tr_op_desc *desc, bool lenient);

/* Fill the operator's struct (proto->attrs_size bytes). `desc` has passed tr__attrs_check; lists and strings stay
 * in it, so it must live as long. */
tr_status tr__attrs_decode(void *out, const tr_op *op, const tr_op_desc *desc);
