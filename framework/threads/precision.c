/* precision.c - names of precisions, the process's setting, the thread's. */
#include "framework/threads/precision.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "framework/base/nearest.h"

static const char VARIABLE[] = "TRIREME_MATMUL_PRECISION";
static const char *const NAMES[TR_PRECISION_COUNT] = {"float32", "bfloat16"};

static atomic_int                  chosen;                 /* a precision + 1; 0: the environment's */
static _Thread_local tr_precision now = TR_PRECISION_FLOAT32;

const char *tr_precision_name(tr_precision precision)
{
    return (int)precision >= 0 && precision < TR_PRECISION_COUNT ? NAMES[precision] : "?";
}

static int find(const char *name)
{
    for (int i = 0; i < TR_PRECISION_COUNT; i++)
        if (strcmp(name, NAMES[i]) == 0)
            return i;
    return -1;
}

tr_status tr_precision_parse(tr_precision *out, const char *name)
{
    const int  found = find(name);
    tr_nearest nearest = {.wanted = name};

    if (found >= 0) {
        *out = (tr_precision)found;
        return TR_OK;
    }
    for (int i = 0; i < TR_PRECISION_COUNT; i++)
        tr_nearest_try(&nearest, NAMES[i]);
    if (strcmp(name, "bf16") == 0 || tr_nearest_is_close(&nearest))
        return tr_fail(TR_EINVAL, "matmul precision '%s'; did you mean '%s'? float32 and bfloat16 are possible", name,
                       strcmp(name, "bf16") == 0 ? NAMES[TR_PRECISION_BFLOAT16] : nearest.best);
    return tr_fail(TR_EINVAL, "matmul precision '%s'; float32 and bfloat16 are possible", name);
}

/* -- of the process ------------------------------------------------------------------------------------------ */

static const char *asked(void)
{
    const char *text = getenv(VARIABLE);
    return text && *text ? text : NAMES[TR_PRECISION_FLOAT32];
}

tr_status tr_set_matmul_precision(const char *name)
{
    tr_precision precision;

    if (!name) {
        atomic_store(&chosen, 0);
        return TR_OK;
    }
    TR_TRY(tr_precision_parse(&precision, name));
    atomic_store(&chosen, (int)precision + 1);
    return TR_OK;
}

tr_precision tr_matmul_precision(void)
{
    int set = atomic_load_explicit(&chosen, memory_order_relaxed);
    if (set == 0) {
        int       undecided = 0;
        const int found = find(asked());
        if (found < 0)                             /* not decided on, so that the check finds it */
            return TR_PRECISION_FLOAT32;
        set = found + 1;
        if (!atomic_compare_exchange_strong(&chosen, &undecided, set))
            set = undecided;
    }
    return (tr_precision)(set - 1);
}

tr_status tr_matmul_precision_check(void)
{
    tr_precision precision;

    if (atomic_load_explicit(&chosen, memory_order_relaxed) != 0)
        return TR_OK;
    const tr_status status = tr_precision_parse(&precision, asked());
    return status == TR_OK ? TR_OK : tr_context(status, "in the environment's %s", VARIABLE);
}

/* -- of the thread ---------------------------------------------------------------------------------------------- */

tr_precision tr__precision_now(void)
{
    return now;
}

tr_precision tr__precision_enter(tr_precision precision)
{
    const tr_precision before = now;
    now = precision;
    return before;
}
