/* rank_options.c - see rank_options.h. */
#include "pserver/rank/rank_options.h"

#include "framework/base/number.h"
#include "framework/base/status.h"

#include <stdlib.h>
#include <string.h>

static tr_status take_seconds(double *out, double given, double otherwise, const char *what)
{
    *out = given == 0 ? otherwise : given;
    return *out > 0 && *out < 1e8 ? TR_OK : tr_fail(TR_ERANGE, "job: %s is %g s", what, given);
}

/* The same for options that the environment may set for all ranks at once. */
static tr_status take_seconds_env(double *out, double given, const char *variable, double otherwise, const char *what)
{
    const char *text = getenv(variable);
    char       *end;

    if (given == 0 && text && *text) {
        otherwise = tr__strtod(text, &end);
        if (*end || !(otherwise > 0) || otherwise >= 1e8)
            return tr_fail(TR_EINVAL, "job: %s='%s' in the environment; seconds above 0 are possible", variable, text);
    }
    return take_seconds(out, given, otherwise, what);
}

bool tr__rank_uses_carriers(void)
{
    const char *text = getenv("TRIREME_CARRIERS");

    return !text || strcmp(text, "0") != 0;
}

tr_status tr__rank_take_options(tr_job_options *out, const tr_job_options *given)
{
    static const tr_job_options none;
    const tr_job_options       *o = given ? given : &none;

    *out = *o;
    TR_TRY(take_seconds(&out->heartbeat, o->heartbeat, 0.5, "heartbeat"));
    TR_TRY(take_seconds_env(&out->timeout, o->timeout, "TRIREME_TIMEOUT", 3, "timeout"));
    TR_TRY(take_seconds_env(&out->start_timeout, o->start_timeout, "TRIREME_START_TIMEOUT", 60, "start_timeout"));
    TR_TRY(take_seconds(&out->wait_timeout, o->wait_timeout, 3600, "wait_timeout"));
    TR_TRY(take_seconds(&out->grace, o->grace, 0.5, "grace"));
    if (out->timeout < 2 * out->heartbeat)
        return tr_fail(TR_ERANGE, "job: a timeout of %g s with a heartbeat each %g s: at least two heartbeats are needed",
                       out->timeout, out->heartbeat);
    out->chunk_bytes = o->chunk_bytes ? o->chunk_bytes : 524288;
    out->window_bytes = o->window_bytes ? o->window_bytes : 64 << 20;
    if (out->chunk_bytes < 4096 || out->chunk_bytes > 1 << 24 || out->chunk_bytes % 64)
        return tr_fail(TR_ERANGE, "job: chunk_bytes is %lld; a multiple of 64 from 4096 to 16777216 is possible",
                       (long long)out->chunk_bytes);
    if (out->window_bytes < out->chunk_bytes)
        return tr_fail(TR_ERANGE, "job: window_bytes is %lld, less than a chunk of %lld", (long long)out->window_bytes,
                       (long long)out->chunk_bytes);
    return TR_OK;
}

uint32_t tr__rank_incarnation_of_start(void)
{
    const char *text = getenv("TRIREME_ATTEMPT");
    const long  attempt = text ? strtol(text, NULL, 10) : 0;

    return attempt > 0 && attempt < 1 << 30 ? (uint32_t)attempt + 1 : 1;
}

int64_t tr__seconds(double seconds)
{
    return (int64_t)(seconds * 1e9);
}
