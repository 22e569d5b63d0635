/* job_compress.c - a trainer's gradients are compressed by the thread that computed them: piece by piece, on the threads of the pool, while
 * they lie in the cache.
 *
 * What must stay true: a payload is encoded once a push and kept until its step is settled, because a server that takes a dead server's
 * place must get the same bytes. The residual belongs to this process: it is lost when the trainer dies. */
#include "pserver/api/job_compress.h"

#include "framework/base/memory.h"
#include "framework/threads/threadpool.h"
#include "pserver/util/wake.h"

#include <stdlib.h>
#include <string.h>

typedef struct tr__job_coder {
    int64_t          count;           /* values of the block */
    int64_t          piece;           /* values of each piece, except the last */
    float           *residual;
    uint8_t         *payload;
    uint64_t        *bytes;
    tr_client_pieces pieces;
} tr__job_coder;

const char *tr__job_compress_text(const tr_job_spec *spec)
{
    const char *text = getenv("TRIREME_COMPRESS");

    return text && *text ? text : spec->compress ? spec->compress : "none";
}

const char *tr__job_compress_parameters_text(const tr_job_spec *spec)
{
    const char *text = getenv("TRIREME_COMPRESS_PARAMETERS");

    return text && *text ? text : spec->compress_parameters ? spec->compress_parameters : "none";
}

static bool takes(const tr_compress *compress, const tr_job *job, const tr_job_block *block)
{
    return !block->is_exact && tr_compress_takes(compress, block->dtype, (uint64_t)block->bytes, (uint64_t)job->rank.options.chunk_bytes);
}

int64_t tr__job_compressible_bytes(const tr_job *job, const tr_job_spec *spec)
{
    static const tr_compress any = {.kind = TR_COMPRESS_FP16};
    int64_t                  bytes = 0;

    for (int i = 0; i < spec->block_count; i++)
        bytes += takes(&any, job, &spec->blocks[i]) ? spec->blocks[i].bytes : 0;
    return bytes;
}

static int64_t piece_count(const tr__job_coder *c)
{
    return (c->count + c->piece - 1) / c->piece;
}

tr_status tr__job_coder_new(tr__job_coder **out, const tr_job *job, const tr_job_block *block)
{
    const uint64_t chunk = (uint64_t)job->rank.options.chunk_bytes;

    *out = NULL;
    if (!takes(&job->compress, job, block))
        return TR_OK;
    tr__job_coder *c = tr__must_alloc(sizeof *c);
    *out = c;
    c->count = block->bytes / (int64_t)sizeof(float);
    c->piece = (int64_t)(chunk / sizeof(float));
    c->pieces.stride = (tr_compress_bytes(&job->compress, c->piece < c->count ? c->piece : c->count) + 63) & ~(uint64_t)63;
    c->residual = calloc((size_t)c->count, sizeof *c->residual);
    c->payload = aligned_alloc(64, (size_t)piece_count(c) * c->pieces.stride);
    c->bytes = tr__must_array((size_t)piece_count(c), sizeof *c->bytes);
    c->pieces.payload = c->payload;
    c->pieces.bytes = c->bytes;
    if (c->residual && c->payload)
        return TR_OK;
    return tr_fail(TR_ENOMEM, "tr_job_setup: no memory for what compression leaves out of '%s', %lld bytes", block->grad,
                   (long long)block->bytes);
}

void tr__job_coder_free(tr__job_coder *coder)
{
    if (!coder)
        return;
    free(coder->residual);
    free(coder->payload);
    free(coder->bytes);
    free(coder);
}

typedef struct encoding {
    const tr_compress *compress;
    tr__job_coder     *coder;
    const float       *gradient;      /* NULL: the weight is 0, so nothing counts */
} encoding;

static void encode_piece(void *payload, int64_t i)
{
    const encoding *e = payload;
    tr__job_coder  *c = e->coder;
    const int64_t   at = i * c->piece, count = c->count - at < c->piece ? c->count - at : c->piece;
    uint8_t        *to = c->payload + (uint64_t)i * c->pieces.stride;

    c->bytes[i] = e->gradient ? tr_compress_encode(e->compress, to, e->gradient + at, c->residual + at, count)
                              : tr_compress_encode_zeros(to);
}

bool tr__job_compresses(const tr_job *job, int block)
{
    return job->blocks.item[block].coder;
}

tr_status tr__job_compress(const tr_client_pieces **out, tr_job *job, tr__job_block *block, const void *data, double weight)
{
    /* The mean over no samples may be NaN. Servers leave the gradient out, and the residual waits for the next step. */
    encoding e = {&job->compress, block->coder, weight > 0 ? data : NULL};

    TR_TRY(tr_job_wait(job, job->rank.last_end));
    const int64_t from = tr__clock();
    tr_parallel(piece_count(block->coder), encode_piece, &e);
    tr_trainer_meter_encode(job->rank.meter, tr__clock() - from);
    *out = &block->coder->pieces;
    return TR_OK;
}
