/* team_choice.c - see team_choice.h. */
#include "framework/threads/team_choice.h"

#include <time.h>

#include "framework/threads/threadpool.h"

enum { TRIALS = 24, PERIOD = 2048 };  /* steps: trials in both ways in turn, repeated after so many, because the machine changes */
enum { LONG_NS = 2000000 };           /* a step that takes longer wins by threads; none of them is tried alone */

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * (int64_t)1000000000 + t.tv_nsec;
}

static bool is_trial(const tr_team_choice *choice)
{
    return choice->steps % PERIOD < TRIALS;
}

bool tr__team_is_alone(tr_team_choice *choice)
{
    const uint32_t step = choice->steps % PERIOD;

    if (step == 0)
        choice->best_ns[false] = choice->best_ns[true] = INT64_MAX;
    if (step >= TRIALS)
        return choice->is_alone;
    return step % 2 == 1 && choice->best_ns[false] <= LONG_NS;
}

void tr__team_learn(tr_team_choice *choice, bool is_alone, int64_t ns)
{
    if (is_trial(choice)) {
        if (ns < choice->best_ns[is_alone])
            choice->best_ns[is_alone] = ns;
        choice->is_alone = choice->best_ns[true] < choice->best_ns[false];
    }
    choice->steps++;
}

tr_team_step tr__team_begin(tr_team_choice *choice)
{
    tr_team_step step = {0};

    if (tr_num_threads() <= 1)
        return step;
    step.counts = true;
    step.is_alone = tr__team_is_alone(choice);
    if (step.is_alone)
        step.was_inside = tr__slice_enter(true);
    if (is_trial(choice))
        step.start_ns = now_ns();
    return step;
}

void tr__team_end(tr_team_choice *choice, const tr_team_step *step)
{
    if (!step->counts)
        return;
    tr__team_learn(choice, step->is_alone, step->start_ns ? now_ns() - step->start_ns : 0);
    if (step->is_alone)
        tr__slice_enter(step->was_inside);
}
