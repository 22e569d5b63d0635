/* tensor_file.h - what the operators that save and load share. */
#pragma once

#include "framework/operators/op.h"

/* The attributes of save and save_combine, and of load and load_combine; one list for each pair. */
typedef struct tr_save_attrs {
    bool        overwrite, save_as_fp16;
    const char *file_path;
} tr_save_attrs;

#define TR_SAVE_ATTRS \
    TR_ATTR(tr_save_attrs, overwrite, BOOL, "replace the file if there is one", .number = true), \
    TR_ATTR(tr_save_attrs, save_as_fp16, BOOL, "write floating-point numbers as float16"), \
    TR_ATTR(tr_save_attrs, file_path, STRING, "where; missing folders are made", .required = true)

/* For `.check`: the path is not empty. */
tr_status tr__file_path_check(const char *type, const char *path);
/* The file may be written. */
tr_status tr__save_may_write(const char *type, const tr_save_attrs *attrs);
/* `out` shares x, or, where `as_fp16` asks for it and x is floating-point, is x as float16. */
tr_status tr__tensor_for_file(tr_tensor *out, const tr_tensor *x, bool as_fp16);
/* Hand what was read to an output, as float16 if asked for. */
tr_status tr__tensor_from_file(tr_tensor *out, const tr_tensor *read, bool as_fp16);
