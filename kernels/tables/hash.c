/* hash.c - numbers of a given range made of rows of ids:  Out[i,h] = XXH64(X[i], seed h) mod mod_by.
 *
 * As in Fluid, the bytes that are hashed are the first 4 of each id in memory, all told: of int64 ids the first half of the row. So a
 * model that was trained with Fluid finds the same rows of its tables. */
#include "kernels/base/check.h"
#include "kernels/math/tools/xxhash.h"

/* -- interface -------------------------------------------------------------------------------- */
enum { X };
enum { OUT };

typedef struct attrs {
    int32_t num_hash, mod_by;
} attrs;

static const tr_op_proto proto = {
    .doc = "Hashes each row of ids num_hash times: Out[i,h,0] = XXH64 of the first 4 n bytes of the row, with seed h, modulo mod_by.",
    .in = TR_SLOTS(TR_SLOT("X", "[..., m, n]", " int32 or int64")),
    .out = TR_SLOTS({"Out", "[..., num_hash, 1] int64; has X's sequences", TR_SLOT_ANY_TYPE}),
    TR_ATTRS_OF(attrs, TR_ATTR(attrs, num_hash, INT, "how many hashes of each row", .number = 1, .range = TR_AT_LEAST(1)),
                       TR_ATTR(attrs, mod_by, INT, "all hashes are below this", .number = 100000, .range = TR_AT_LEAST(1)),
                       TR_ATTR_IGNORED("@ALL_KERNELS_MUST_COMPUTE_RUNTIME_SHAPE@", BOOL, .number = 1)),
};

/* -- shapes ------------------------------------------------------------------------------------- */
static tr_status infer(const tr_infer *io)
{
    const attrs *a = io->attrs;
    tr_shape     out = io->in[X].shape;

    TR_TRY(tr__check_ids(io, "X", &io->in[X], true));
    if (out.rank >= TR_MAX_RANK)
        return tr_fail(TR_ESHAPE, "%s: X is %s, so Out would have %d dimensions; %d are possible", io->type, TR_SHAPE_STR(out),
                       out.rank + 1, TR_MAX_RANK);
    out.dim[out.rank - 1] = a->num_hash;
    out.dim[out.rank++] = 1;
    io->out[OUT] = io->in[X];
    io->out[OUT].dtype = TR_INT64;
    io->out[OUT].shape = out;
    return TR_OK;
}

/* -- kernel --------------------------------------------------------------------------------------- */
static tr_status run(const tr_run *io)
{
    const attrs     *a = io->attrs;
    const tr_tensor *x = io->in[X];
    const int        last = x->shape.rank - 1;
    const int64_t    rows = tr_shape_product(&x->shape, 0, last), n = x->shape.dim[last], bytes = n * tr_dtype_size(x->dtype);
    int64_t         *out = io->out[OUT]->data;

    for (int64_t i = 0; i < rows; i++)
        for (int32_t h = 0; h < a->num_hash; h++)
            *out++ = (int64_t)(tr_xxh64((const char *)x->data + i * bytes, (size_t)n * sizeof(int32_t), (uint64_t)h) % (uint64_t)a->mod_by);
    return TR_OK;
}

TR_REGISTER_OP(hash, .proto = &proto, .infer = infer, .run = run);
