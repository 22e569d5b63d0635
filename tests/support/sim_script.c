/* sim_script.c - trainers that do what a scenario says (tests/protocol), word by word. */
#include "tests/support/sim_state.h"

#include "pserver/core/board/board.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum wish {
    STEP, SET, SET_OTHER, PUSH, END, PULL, PULL_FIRST, PULL_OTHERS, ROWS, PUSH_ROWS, SNAPSHOT, STAY, GOODBYE, LEAVE, TASKS, ASK_TASK,
    END_TASK, SETTLE, POST, POST_AGAIN, READ_BOARD, IDLE, WISHES
} wish;

static const char *const words[WISHES] = {
    [STEP] = "step",                  /* push, end, pull, and wait for the parameters; with a table, its rows, too */
    [SET] = "set",                    /* the parameter, before the next step */
    [SET_OTHER] = "set-other",        /* to another value */
    [PUSH] = "push",                  /* the gradients of the next step */
    [END] = "end",                    /* end that step */
    [PULL] = "pull",                  /* and wait for the parameters */
    [PULL_FIRST] = "pull-first",      /* ask for the first parameter, and stop there without a wait */
    [PULL_OTHERS] = "pull-others",    /* ask for the others, and wait for all */
    [ROWS] = "pull-rows",             /* and wait for them */
    [PUSH_ROWS] = "push-rows",
    [SNAPSHOT] = "snapshot",          /* begin one */
    [STAY] = "stay",                  /* DRAIN: its steps are over, but it stays for the last snapshot */
    [GOODBYE] = "goodbye",            /* and wait until servers have it; then leave the job */
    [LEAVE] = "leave",
    [TASKS] = "tasks",                /* say how many tasks there are */
    [ASK_TASK] = "ask-task",          /* and wait for the answer */
    [END_TASK] = "end-task",          /* of which it asked first */
    [SETTLE] = "rest",                /* say what others wait for at a step's end: the next one may be long in coming */
    [POST] = "post",                  /* take part in the next collective, and wait for all */
    [POST_AGAIN] = "post-again",      /* ask again, after the answer that others wait for this trainer */
    [READ_BOARD] = "read-board",      /* ask what was posted in the last one */
    [IDLE] = "idle-step",             /* end the next step without a gradient */
};

void sim__tell_commit(const sim_place *p, const tr_commit *commit, bool is_update)
{
    char   settled[128] = "";
    size_t used = 0;

    for (int i = 0; i < p->job->options.trainers && used + 24 < sizeof settled; i++)
        used += (size_t)snprintf(settled + used, sizeof settled - used, " %llu", (unsigned long long)commit->settled[i]);
    sim__tell(p, "commits%s: %llu updates; settled:%s", is_update ? " the update" : "", (unsigned long long)commit->updates, settled);
}

bool sim_job_ask(sim_job *job, int trainer, const char *word)
{
    sim_trainer *t = &job->trainer[trainer];

    for (int i = 0; i < WISHES; i++) {
        if (strcmp(word, words[i]) != 0)
            continue;
        t->wish[t->wishes_end++ % SIM_WISHES] = i;
        tr_sim_wake(job->sim, t->rank);
        return true;
    }
    return false;
}

static void push(sim_trainer *t)
{
    t->step++;
    t->weight = sim__weight(t->job, t->index, t->step);
    sim__gradient(t->job, t->grad, t->param, t->index, t->step, t->weight);
    for (int i = 0; i < t->job->blocks; i++)
        sim__ask(t, SIM_OP_PUSH, (uint32_t)i);
    if (t->job->options.has_rows)
        sim__push_rows(t);
}

static void post(sim_trainer *t, bool has_data, tr_wire_until until)
{
    tr_post  packed = TRIREME__PSERVER__POST__INIT;
    char     data[32];
    uint64_t size;

    t->met += has_data;
    snprintf(data, sizeof data, "of trainer %d", t->index);
    packed.number = (uint64_t)t->met;
    packed.trainer = (uint32_t)t->index;
    packed.call = (char *)"barrier()";
    packed.has_data = has_data;
    packed.data = (ProtobufCBinaryData){strlen(data), (uint8_t *)data};
    uint8_t *bytes = tr_board_pack(&packed, &size);
    free(t->post.answer);
    t->post = (tr_client_post){.packed = bytes, .size = size, .until = until};
    t->ticket = sim__ask(t, SIM_OP_POST, 0);
}

static void set(sim_trainer *t, float value)
{
    for (int64_t i = 0; i < t->job->block[0].size; i++)
        t->param[t->job->block[0].at + i] = value;
    sim__ask(t, SIM_OP_SET, 0);
}

/* Returns whether it waits for an operation. */
static bool make(sim_trainer *t, wish what)
{
    const bool has_rows = t->job->options.has_rows;

    switch (what) {
    case STEP:
        push(t);
        sim__ask(t, SIM_OP_STEP_END, 0);
        if (has_rows)
            sim__pull_rows(t);
        t->ticket = sim__ask(t, SIM_OP_PULL, 0);
        return true;
    case SET:        set(t, 1); return false;
    case SET_OTHER:  set(t, 2); return false;
    case PUSH:       push(t); return false;
    case END:        sim__ask(t, SIM_OP_STEP_END, 0); return false;
    case PULL:       t->ticket = sim__ask(t, SIM_OP_PULL, 0); return true;
    case PULL_FIRST: sim__ask(t, SIM_OP_PULL, SIM_FIRST); t->is_asking = true; return false;
    case PULL_OTHERS:
        t->ticket = sim__ask(t, SIM_OP_PULL, SIM_OTHERS);
        t->is_asking = false;
        return true;
    case ROWS:       sim__pull_rows(t); return true;
    case PUSH_ROWS:  sim__push_rows(t); return false;
    case SNAPSHOT:   sim__snapshot(t); return false;
    case STAY:       t->ticket = sim__ask(t, SIM_OP_STAY, 0); return true;
    case LEAVE:
    case GOODBYE:    t->ticket = sim__ask(t, SIM_OP_GOODBYE, 0); t->phase = SIM_GOODBYE; return true;
    case TASKS:      sim__tasks_begin(t); return true;
    case ASK_TASK:   t->ticket = sim__ask(t, SIM_OP_TASK_ASK, 0); return true;
    case END_TASK:   sim__ask(t, SIM_OP_TASK_END, t->tasks.answer.lease); return false;
    case SETTLE:     sim__ask(t, SIM_OP_REST, 0); return false;
    case POST:       post(t, true, TR_UNTIL_ALL); return true;
    case POST_AGAIN: post(t, false, TR_UNTIL_ALL); return true;
    case READ_BOARD: post(t, false, TR_UNTIL_NOW); return true;
    case IDLE:       t->step++; sim__ask(t, SIM_OP_STEP_IDLE, 0); return false;
    case WISHES:     break;
    }
    return false;
}

tr_sim_plan sim__scripted_go_on(sim_trainer *t)
{
    if (tr_client_done(t->client) < t->ticket || (t->made < t->posted && !t->is_asking))
        return (tr_sim_plan){TR_SIM_WAIT, t->ticket};
    if (t->phase == SIM_START || t->phase == SIM_RESTORE) {
        if (t->phase == SIM_START)
            sim__begin(t);
        else
            sim__has_restored(t);
        return (tr_sim_plan){TR_SIM_WAIT, t->ticket};
    }
    if (t->phase == SIM_GOODBYE || t->phase == SIM_END) {
        t->phase = SIM_END;
        return (tr_sim_plan){TR_SIM_LEAVE};
    }
    if (t->phase == SIM_SETUP) {
        t->step = (int)tr_client_step(t->client);
        t->phase = SIM_PULL;
    }
    while (t->wishes_first != t->wishes_end)
        if (make(t, (wish)t->wish[t->wishes_first++ % SIM_WISHES]))
            return (tr_sim_plan){TR_SIM_WAIT, t->ticket};
    if (!t->is_asking)
        sim__ask_now(t, SIM_OP_FLUSH);
    return (tr_sim_plan){TR_SIM_IDLE};
}
