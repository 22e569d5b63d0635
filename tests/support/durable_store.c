/* durable_store.c - a setup, the last commit and the state of tasks, as they were said. */
#include "tests/support/durable_store.h"

durable_state kept;

static bool find(void *self, tr_commit *commit, const void **packed, uint64_t *bytes)
{
    (void)self;
    *commit = kept.commit;
    commit->settled = kept.settled;
    commit->trainer = kept.trainer;
    commit->member = kept.member;
    *packed = kept.setup;
    *bytes = kept.setup_bytes;
    return kept.setup_bytes > 0;
}

static tr_status set_up(void *self, const Trireme__Pserver__Setup *setup, const tr_policy *policy, const void *packed, uint64_t bytes,
                        bool resume)
{
    (void)policy;
    (void)self, (void)setup, (void)resume;
    assert_true(bytes <= sizeof kept.setup);
    memmove(kept.setup, packed, bytes);
    kept.setup_bytes = bytes;
    return TR_OK;
}

static void keep_commit(void *self, const tr_commit *commit, bool is_update)
{
    (void)self, (void)is_update;
    kept.commit = *commit;
    memcpy(kept.settled, commit->settled, sizeof kept.settled);
    memcpy(kept.trainer, commit->trainer, sizeof kept.trainer);
    memcpy(kept.member, commit->member, sizeof kept.member);
}

static void *keep_tasks(void *self, uint64_t *bytes)
{
    (void)self;
    if (*bytes) {
        free(kept.tasks);
        kept.tasks = calloc(1, *bytes);
        kept.tasks_bytes = *bytes;
    }
    *bytes = kept.tasks ? kept.tasks_bytes : 0;
    return kept.tasks;
}

static void *keep_board(void *self, uint64_t *bytes, bool anew)
{
    (void)self;
    if (anew)
        kept.board_bytes = 0;
    if (*bytes > kept.board_bytes) {
        kept.board = realloc(kept.board, *bytes);
        memset(kept.board + kept.board_bytes, 0, *bytes - kept.board_bytes);
        kept.board_bytes = *bytes;
    }
    *bytes = kept.board_bytes;
    return kept.board_bytes ? kept.board : NULL;
}

tr_store durable_store(void)
{
    tr_store store = plain_store();

    store.last_commit = find;
    store.setup = set_up;
    store.commit = keep_commit;
    store.tasks = keep_tasks;
    store.board = keep_board;
    return store;
}

void serve_again(rig *r)
{
    const tr_store store = durable_store();
    serve_anew(r, &store);
}

void serve_keeping(rig *r)
{
    free(kept.tasks);
    free(kept.board);
    kept = (durable_state){.tasks = NULL};
    serve_again(r);
}
