/* loop_options.c - see loop_options.h. */
#include "trainer/loop/loop_options.h"

#include "framework/base/status.h"

tr_status tr_loop_options_check(const tr_loop_options *options)
{
    if (options->threads < 0 || options->threads > 256)
        return tr_fail(TR_ERANGE, "loop: %d threads; 1 to 256 are possible", options->threads);
    if (options->epochs < 0 || options->steps < 0 || options->skip < 0 || options->runs < 0 || options->report_every < 0 ||
        options->fetch_count < 0)
        return tr_fail(TR_ERANGE, "loop: %lld epochs, %lld steps, a report every %lld steps; none can be below 0",
                       (long long)options->epochs, (long long)options->steps, (long long)options->report_every);
    if (options->has_leases && !options->job)
        return tr_fail(TR_EINVAL, "loop: tasks are leased from a server, and the loop takes part in no job");
    if (options->threads > 1 && options->job)
        return tr_fail(TR_EUNSUPPORTED, "loop: %d threads in a job; a step's batch is one thread's there, and more trainers "
                       "are started instead", options->threads);
    return TR_OK;
}

tr_loop_options tr_loop_options_settled(const tr_loop_options *options)
{
    tr_loop_options settled = *options;

    settled.epochs = options->epochs ? options->epochs : 1;
    settled.threads = options->threads ? options->threads : 1;
    settled.report_every = options->fetch_count ? options->report_every : 0;
    return settled;
}
