/* fuzz_left.c - a server's state and a trainer's variables as dead processes have left them in shared memory, damaged: they are refused,
 * or used without a step outside.
 *
 * The first byte of the input: bit 0: which of the two; bit 1: its sums are made right again, as if the damage had been written. The
 * rest damages its segment (damage.h). */
#include "framework/base/compiler.h"
#include "pserver/state/state.h"
#include "storage/memory/trainer_vars.h"
#include "storage/util/crc32c.h"
#include "tests/fuzz/damage.h"

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);

enum { STATE, VARS, TRAINERS = 3, VALUE = 1000 };
static const char       setup[] = "what the server is to do";
static char             name[2][64];
static damaged          left[2];
static volatile uint8_t sink;

static void look_at(const void *data, uint64_t bytes)
{
    for (uint64_t i = 0; i < bytes; i++)
        sink = ((const uint8_t *)data)[i];
}

/* == a server's state ============================================================================ */

static void commit(tr_state *state, uint64_t updates)
{
    const uint64_t  settled[TRAINERS] = {updates, updates, updates};
    const uint8_t   trainer[TRAINERS] = {TR_TRAINER_IN, TR_TRAINER_GONE, 0};
    const tr_member member[TRAINERS] = {{1, 2}, {1, 3}, {1, 4}};
    const tr_commit now = {updates, settled, trainer, updates, updates, 1, member, {1, true, updates}};

    tr_state_commit(state, &now, true);
    tr_state_ready(state);
}

static void make_state(void)
{
    tr_state *state = NULL;
    void     *value;

    if (tr_state_create(&state, name[STATE], setup, sizeof setup, TRAINERS) != TR_OK || tr_state_take(&value, state, VALUE) != TR_OK)
        abort();
    memset(value, 7, VALUE);
    commit(state, 1);
    commit(state, 2);
    tr_state_free(state, false);
}

static void use_commit(tr_state *state)
{
    const tr_commit now = tr_state_committed(state);
    const int       trainers = tr_state_trainers(state);

    look_at(now.settled, (uint64_t)trainers * sizeof *now.settled);
    look_at(now.trainer, (uint64_t)trainers);
    if (now.member)
        look_at(now.member, (uint64_t)trainers * sizeof *now.member);
    if (tr_state_side(state) != 0 && tr_state_side(state) != 1)
        abort();
}

static void use_state(tr_state *state)
{
    uint64_t    bytes;
    const void *packed = tr_state_setup(state, &bytes);
    void       *value;

    look_at(packed, bytes);
    use_commit(state);
    if (tr_state_take(&value, state, VALUE) == TR_OK)
        memset(value, 1, VALUE);
    if (tr_state_trainers(state) == TRAINERS)
        commit(state, 3);
    use_commit(state);
    tr_state_go_back(state, NULL);
    use_commit(state);
    tr_state_set_generation(state, tr_state_generation(state) + 1);
    tr_state_set_replica_rank(state, tr_state_replica_rank(state));
}

static void attach_state(void)
{
    tr_state_found *found;
    tr_state       *state;
    int             count;

    if (tr_state_attach(&state, name[STATE]) == TR_OK) {
        use_state(state);
        tr_state_free(state, false);
    }
    if (tr_state_find(&found, &count, name[STATE]) == TR_OK)
        free(found);
}

/* The numbers of its header (state.c). */
enum { TRAINERS_AT = 3, SETUP_BYTES_AT, PLACE_AT, SETUP_AT = PLACE_AT + 2, CHECK_AT, STATE_HEADER = 128 };

static void set_sums_of_state(damaged *d)
{
    uint64_t *head = (uint64_t *)(void *)d->bytes;
    const uint64_t size = d->size, bytes = head[SETUP_BYTES_AT], at = head[SETUP_AT], trainers = head[TRAINERS_AT];

    if (size < STATE_HEADER || at > size || bytes > size - at || trainers > size)
        return;
    head[CHECK_AT] = tr_crc32c(tr_crc32c(0, head + TRAINERS_AT, 5 * sizeof *head), d->bytes + at, bytes);
    const uint64_t one = (40 + 9 * trainers + 63) / 64 * 64;
    for (int i = 0; i < 2; i++)
        if (head[PLACE_AT + i] % 8 == 0 && head[PLACE_AT + i] < size && one <= size - head[PLACE_AT + i]) {
            uint64_t *place = (uint64_t *)(void *)(d->bytes + head[PLACE_AT + i]);
            *place = tr_crc32c(0, place + 1, one - 8);
        }
}

/* == a trainer's variables ======================================================================== */

static void make_vars(void)
{
    static uint8_t       data[VALUE];
    const tr_trainer_var vars[3] = {{"mean", data, 4}, {"variance", data, VALUE}, {"count", data, 8}};
    tr_trainer_vars     *kept = NULL;

    if (tr_trainer_vars_create(&kept, name[VARS], 3, vars) != TR_OK || !tr_trainer_vars_keep(kept, 1, 3, vars) ||
        !tr_trainer_vars_keep(kept, 2, 3, vars))
        abort();
    tr_trainer_vars_free(kept, false);
}

static void attach_vars(void)
{
    static uint8_t       data[VALUE];
    const tr_trainer_var vars[3] = {{"mean", data, 4}, {"variance", data, VALUE}, {"count", data, 8}};
    tr_trainer_vars     *kept;
    tr_trainer_var       found;

    if (tr_trainer_vars_attach(&kept, name[VARS]) != TR_OK)
        return;
    for (uint64_t step = 1; step <= 2; step++)
        for (int i = 0; i < tr_trainer_vars_count(kept); i++)
            if (tr_trainer_vars_find(&found, kept, step, i)) {
                look_at(found.name, strlen(found.name));
                look_at(found.data, found.bytes);
            }
    tr_trainer_vars_stay(kept, 2, 3);
    if (tr_trainer_vars_are(kept, 3, vars))
        tr_trainer_vars_keep(kept, 4, 3, vars);
    tr_trainer_vars_free(kept, false);
}

static void set_sums_of_vars(damaged *d)
{
    uint64_t      *head = (uint64_t *)(void *)d->bytes;
    const uint64_t list = head[4];

    if (d->size >= 48 && list <= d->size - 48)
        head[2] = (uint64_t)1 << 32 | tr_crc32c(0, head + 3, 24 + list);
}

/* ================================================================================================== */

static void remove_both(void)
{
    for (int i = 0; i < 2; i++) {
        char path[80];
        snprintf(path, sizeof path, "/dev/shm/%s", name[i]);
        unlink(path);
    }
}

static void begin(void)
{
    for (int i = 0; i < 2; i++)
        snprintf(name[i], sizeof name[i], "trireme-fuzz-%d.%s", (int)getpid(), i == STATE ? "server0" : "trainer0");
    make_state();
    make_vars();
    for (int i = 0; i < 2; i++)
        read_segment(&left[i], name[i]);
    atexit(remove_both);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
    if (!name[0][0])
        begin();
    if (!size)
        return 0;
    const int which = input[0] & 1;
    damage(&left[which], 1, input + 1, size - 1);
    if (input[0] & 2)
        (which == STATE ? set_sums_of_state : set_sums_of_vars)(&left[which]);
    write_segment(&left[which], name[which]);
    (which == STATE ? attach_state : attach_vars)();
    return 0;
}
