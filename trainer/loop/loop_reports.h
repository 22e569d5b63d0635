/* loop_reports.h - the reports of a loop that its caller has not seen yet, in the order of their steps.
 *
 * What must stay true: the caller of each function holds the loop's lock. */
#pragma once

#include <stdint.h>

typedef struct tr_loop_note {
    struct tr_loop_note *next;
    int64_t              step;
    char                *line;        /* malloc'ed */
} tr_loop_note;

typedef struct tr_loop_reports {
    tr_loop_note *first;              /* due next; NULL: none is due */
    tr_loop_note *told;               /* the one that was taken last; the caller reads its line */
} tr_loop_reports;

/* Add the report of a step. The reports own `line` from now on. */
void                tr_loop_reports_add(tr_loop_reports *reports, char *line, int64_t step);
/* Take the first report; NULL: none is due. It is valid until the next call. */
const tr_loop_note *tr_loop_reports_take(tr_loop_reports *reports);
void                tr_loop_reports_deinit(tr_loop_reports *reports);
