/* loop_reports.c - see loop_reports.h. */
#include "trainer/loop/loop_reports.h"

#include <stdlib.h>

#include "framework/base/memory.h"

void tr_loop_reports_add(tr_loop_reports *reports, char *line, int64_t step)
{
    tr_loop_note  *new = tr__must_alloc(sizeof *new);
    tr_loop_note **link = &reports->first;

    while (*link && (*link)->step < step)
        link = &(*link)->next;
    *new = (tr_loop_note){.next = *link, .step = step, .line = line};
    *link = new;
}

static void free_note(tr_loop_note *note)
{
    if (note)
        free(note->line);
    free(note);
}

const tr_loop_note *tr_loop_reports_take(tr_loop_reports *reports)
{
    free_note(reports->told);
    reports->told = reports->first;
    if (reports->first)
        reports->first = reports->first->next;
    return reports->told;
}

void tr_loop_reports_deinit(tr_loop_reports *reports)
{
    while (tr_loop_reports_take(reports))
        ;
}
