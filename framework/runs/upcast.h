/* upcast.h - kernels of float32 for tensors that are stored in 16 bits (docs/adr/0030).
 *
 * bfloat16 and float16 are types of storage: nothing is computed in them. tr__run_upcast stands in the tables of kernels
 * for both (op.h). It hands the float32 kernel stand-ins for the arguments of 16 bits: floats that were read from them, and
 * floats that become them. So each operator has one arithmetic, and each result is rounded once. Arguments of other types are
 * handed on as they are. Products round to bfloat16 what they multiply where the key is bfloat16: such factors stay as they are.
 *
 * An operator that works element by element (`is_itemwise`) is run on blocks that stay in the first cache. Of any other one,
 * whole arguments are upcast, into memory that the executor keeps. */
#ifndef TR_FRAMEWORK_UPCAST_H
#define TR_FRAMEWORK_UPCAST_H

#include "framework/operators/op.h"

/* How many numbers a slice converts at least. */
enum { TR_UPCAST_ITEMS = 16384 };

/* tr__floats_of_half and tr__half_of_floats by several threads; what kernels that read and write 16 bits themselves use. */
void tr__upcast(float *out, const uint16_t *x, tr_dtype half, int64_t n);
void tr__downcast(uint16_t *out, const float *x, tr_dtype half, int64_t n);

#endif
