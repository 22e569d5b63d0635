/* tensor_io.h - tensors in files, in the two record formats of Fluid (docs/formats.md).
 *
 * A record does not say which of the two it is. tr_tensor_read tells them apart: one whose beginning makes sense as
 * a LoDTensor is one. (For the same bytes to make sense as both, the first row index must be the size in bytes
 * of a list of offsets that starts at the second row index, and a tensor's description must stand in both places.) */
#pragma once

#include <stdio.h>

#include "framework/tensors/tensor.h"

/* One record at the file's position: SelectedRows when the tensor has rows, else LoDTensor. */
tr_status tr_tensor_write(FILE *out, const tr_tensor *tensor);
/* `in` must be a file that can be positioned; afterwards it stands after the record. A record that is none leaves `tensor` as
 * it was; a disk that fails in the middle of the data leaves it without a value. The data go into the tensor's own memory where it can hold them. No more memory is taken than the rest of the file could fill. */
tr_status tr_tensor_read(FILE *in, tr_tensor *tensor);
