/* team_choice.h - whether a plan's steps are faster by all threads or by the caller alone.
 *
 * To hand slices to another thread costs a microsecond or several, by where the CPUs lie. A step of half a millisecond with thirty small operators
 * may lose by that what it wins. No rule of sizes knows the machine, so the first steps of a layout are run in both ways in turn and timed, and the
 * following ones in the faster way. Slices are the same in both ways, so results have the same bits. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

typedef struct tr_team_choice {
    uint32_t steps;                   /* so far */
    int64_t  best_ns[2];              /* of the trials: [is alone] */
    bool     is_alone;                /* what was chosen */
} tr_team_choice;

/* One step. */
typedef struct tr_team_step {
    bool    counts;                   /* there is a choice */
    bool    is_alone, was_inside;
    int64_t start_ns;                 /* 0: it is no trial */
} tr_team_step;

/* Around a step of this thread. */
tr_team_step tr__team_begin(tr_team_choice *choice);
void         tr__team_end(tr_team_choice *choice, const tr_team_step *step);
/* The way of the next step, and what is learnt of the time of one: without a clock, for tests. */
bool tr__team_is_alone(tr_team_choice *choice);
void tr__team_learn(tr_team_choice *choice, bool is_alone, int64_t ns);
