/* fuzz_tensor_io.c - tensor files from outside: records are read to the end, and each is written and read again. */
#include "framework/tensors/tensor_io.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);

static void must(bool holds)
{
    if (!holds)
        abort();
}

static void write_and_read(const tr_tensor *tensor)
{
    FILE     *file = tmpfile();
    tr_tensor again;

    must(file != NULL);
    tr_tensor_init(&again);
    must(tr_tensor_write(file, tensor) == TR_OK);
    rewind(file);
    must(tr_tensor_read(file, &again) == TR_OK);
    must(again.dtype == tensor->dtype && tr_shape_equal(&again.shape, &tensor->shape));
    must(tr_tensor_bytes(&again) == 0 || memcmp(again.data, tensor->data, (size_t)tr_tensor_bytes(&again)) == 0);
    must(tr_tensor_height(&again) == tr_tensor_height(tensor));
    must(tr_tensor_lod_levels(&again) == tr_tensor_lod_levels(tensor));
    tr_tensor_deinit(&again);
    fclose(file);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
    tr_tensor tensor;
    FILE     *in = size > 0 ? fmemopen((void *)input, size, "rb") : NULL;

    if (!in)
        return 0;
    tr_tensor_init(&tensor);
    while (tr_tensor_read(in, &tensor) == TR_OK)
        write_and_read(&tensor);
    tr_tensor_deinit(&tensor);
    fclose(in);
    return 0;
}
