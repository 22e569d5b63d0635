/* job_finite.c - see job_finite.h. The check costs one pass over a gradient that was just computed and will be read again soon. */
#include "pserver/api/job_finite.h"

#include "framework/threads/threadpool.h"
#include "kernels/math/arrays/elementwise.h"
#include "pserver/api/job_calls.h"
#include "pserver/api/job_send.h"
#include "pserver/observe/runlog.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const NAMES[TR_ON_NAN_COUNT] = {"stop", "skip", "ignore"};

tr_status tr_on_nan_parse(tr_on_nan *out, const char *text)
{
    for (int i = 0; i < TR_ON_NAN_COUNT; i++)
        if (!strcmp(text, NAMES[i])) {
            *out = (tr_on_nan)i;
            return TR_OK;
        }
    return tr_fail(TR_EINVAL, "on_nan '%s'; stop, skip and ignore are possible", text);
}

tr_status tr__job_choose_on_nan(tr_job *job, const tr_job_spec *spec)
{
    const char *said = getenv("TRIREME_ON_NAN"), *text = said && *said ? said : spec->on_nan ? spec->on_nan : "stop";

    TR_TRY(tr_on_nan_parse(&job->finite.on_nan, text));
    if (job->finite.on_nan == TR_ON_NAN_SKIP && job->policy.trains_copies)
        return tr_fail(TR_EUNSUPPORTED,
                       "on_nan skip: in mode geo a trainer's own parameters and optimizers are NaN before the servers hear of it; "
                       "stop and ignore are possible there");
    return TR_OK;
}

/* == the check ==================================================================================== */

typedef struct look {
    tr_dtype    dtype;
    const char *data;
    atomic_bool is_bad;
} look;

static bool is_finite(tr_dtype dtype, const void *data, int64_t count)
{
    return dtype == TR_FP32 ? tr_all_finite_f32(data, count) : tr_all_finite_f64(data, count);
}

static void look_at_range(void *payload, int64_t begin, int64_t end)
{
    look *l = payload;

    if (!is_finite(l->dtype, l->data + begin * tr_dtype_size(l->dtype), end - begin))
        atomic_store_explicit(&l->is_bad, true, memory_order_relaxed);
}

static double value_at(tr_dtype dtype, const void *data, int64_t i)
{
    return dtype == TR_FP32 ? (double)((const float *)data)[i] : ((const double *)data)[i];
}

/* The index of the first value that is not finite; -1: all are finite. */
static int64_t find_bad(tr_dtype dtype, const void *data, int64_t count)
{
    enum { MIN_ITEMS = 1 << 16 };
    look l = {.dtype = dtype, .data = data};

    tr_parallel_range(count, MIN_ITEMS, look_at_range, &l);
    for (int64_t i = 0; l.is_bad && i < count; i++)
        if (!isfinite(value_at(dtype, data, i)))
            return i;
    return -1;
}

static const char *name_of(double value)
{
    return isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
}

/* `what` is not finite: fail with TR_ENAN, or note that the step does not count. */
static tr_status refuse(tr_job *job, const char *what)
{
    const char     *self = tr_job_rank_name(job, tr_job_rank(job));
    const long long step = (long long)tr__job_step_now(job);
    char            quoted[512];

    tr_runlog_note("nan", ",\"step\":%lld,\"what\":%s,\"on_nan\":\"%s\"", step, tr_json_quote(quoted, sizeof quoted, what),
                   NAMES[job->finite.on_nan]);
    if (job->finite.on_nan == TR_ON_NAN_STOP)
        return tr_fail(TR_ENAN,
                       "%s: %s in step %lld; the step does not count. To find the operator that makes it: trireme launch --check-nan "
                       "(TRIREME_CHECK_NAN=1). To leave such steps of a trainer out: --on-nan skip; to train on: --on-nan ignore",
                       self, what, step);
    if (tr_counter_get(&job->rank.skipped) == 0)
        fprintf(stderr,
                "trireme warning: %s: %s in step %lld; the step of this trainer is left out, and so are others like it from here on. "
                "trireme launch --check-nan finds the operator that makes it\n",
                self, what, step);
    job->finite.is_unfit = true;
    return TR_OK;
}

static bool is_to_look(const tr_job *job, double weight)
{
    return job->finite.on_nan != TR_ON_NAN_IGNORE && weight > 0 && !job->finite.is_unfit;
}

tr_status tr__job_look_at_block(tr_job *job, int block, const void *data, double weight)
{
    const tr__job_block *b = &job->blocks.item[block];
    char                 what[256];

    if (b->may_be_nan || !is_to_look(job, weight))
        return TR_OK;
    const int64_t at = find_bad(b->dtype, data, b->bytes / tr_dtype_size(b->dtype));
    if (at < 0)
        return TR_OK;
    const char *kind = job->policy.trains_copies ? "change" : "gradient";
    const char *word = name_of(value_at(b->dtype, data, at));
    if (b->is_number)
        snprintf(what, sizeof what, "the loss '%s' is %s", b->grad, word);
    else
        snprintf(what, sizeof what, "element %lld of the %s '%s' of parameter '%s' is %s", (long long)at, kind, b->grad, b->param, word);
    return refuse(job, what);
}

tr_status tr__job_look_at_rows(tr_job *job, int table, int64_t count, const int64_t *keys, const float *values, double weight)
{
    const tr__job_table *t = &job->tables.item[table];
    char                 what[256];

    if (!is_to_look(job, weight))
        return TR_OK;
    const int64_t at = find_bad(TR_FP32, values, count * t->width);
    if (at < 0)
        return TR_OK;
    snprintf(what, sizeof what, "the gradient of table '%s' for key %lld is %s", t->name, (long long)keys[at / t->width],
             name_of(values[at]));
    return refuse(job, what);
}

/* == gradients that wait for the step's end ====================================================== */

bool tr__job_holds_gradients(const tr_job *job)
{
    return job->finite.on_nan == TR_ON_NAN_SKIP;
}

tr_status tr__job_release_gradients(tr_job *job, bool *is_idle)
{
    const bool is_unfit = job->finite.is_unfit;

    *is_idle = is_unfit && job->policy.gathers_per_trainer && !job->policy.decides;
    job->finite.is_unfit = false;
    tr_counter_add(&job->rank.skipped, is_unfit);
    if (!tr__job_holds_gradients(job) || *is_idle)
        return TR_OK;
    for (int i = 0; i < job->blocks.count; i++) {
        const tr__job_block *b = &job->blocks.item[i];
        TR_TRY(tr__job_send_block(job, i, b->held, is_unfit ? 0 : b->held_weight, i + 1 == job->blocks.count, NULL));
    }
    for (int i = 0; i < job->tables.count; i++) {
        tr__rows_transfer *transfer = job->tables.item[i].push;
        transfer->call.weight = is_unfit ? 0 : transfer->call.weight;
        TR_TRY(tr__job_send_rows(job, i));
    }
    return TR_OK;
}
