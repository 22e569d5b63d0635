/* state.c - see state.h. The segment holds a header, two records of commits, the setup, and memory in order. */
#include "pserver/state/state.h"

#include "framework/base/memory.h"
#include "pserver/util/wake.h"
#include "storage/memory/segment.h"
#include "storage/util/crc32c.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { VERSION = 7, LINE = 64 };
static const char     CONTENT[] = "server";
static const uint64_t LIMIT = (uint64_t)1 << 40;

/* The two values of `current`: the first commit counts, or the second. A few flipped bits cannot turn one value into the other. */
static const uint64_t CURRENT[2] = {0x5a3cc3a50ff01e87u, 0xa5c33c5af00fe178u};

/* A record of a commit. Its `settled`, `member` and `trainer` arrays follow it. */
typedef struct record {
    uint64_t check;                   /* CRC-32C of the fields below */
    uint64_t updates, decided, decisions;
    uint64_t side, start, knows_members;
    uint64_t snapshot, snapshot_is_taken, snapshot_update, newest_snapshot;
} record;

typedef struct header {
    _Atomic uint64_t current;         /* the record that counts now: CURRENT */
    _Atomic uint64_t ready;           /* bytes that were handed out when the state was complete; 0: it never was */
    uint64_t         generation;             /* not in the checksum, because it changes again and again, as `replica_rank` does */
    uint64_t         trainers;
    uint64_t         setup_bytes;
    uint64_t         record[2], setup; /* offsets */
    uint64_t         check;           /* CRC-32C of the five fields before it and of the setup */
    uint64_t         replica_rank;    /* rank + 1; 0: none */
} header;

struct tr_state {
    tr_segment *segment;
    uint64_t    used;
    bool        is_kept;              /* all of its memory was handed out */
};

static uint64_t round_up(uint64_t bytes)
{
    return (bytes + LINE - 1) & ~(uint64_t)(LINE - 1);
}

static header *header_of(const tr_state *state)
{
    return tr_segment_base(state->segment);
}

static record *record_of(const tr_state *state, uint64_t index)
{
    return (record *)((char *)header_of(state) + header_of(state)->record[index]);
}

static uint64_t *settled_of(record *p)
{
    return (uint64_t *)(p + 1);
}

static tr_member *members_of(const tr_state *state, record *p)
{
    return (tr_member *)(settled_of(p) + header_of(state)->trainers);
}

static uint8_t *flags_of(const tr_state *state, record *p)
{
    return (uint8_t *)(members_of(state, p) + header_of(state)->trainers);
}

static uint64_t record_bytes(uint64_t trainers)
{
    return round_up(sizeof(record) + trainers * (sizeof(uint64_t) + sizeof(tr_member) + 1));
}

/* The number of the record that counts. */
static int current_of(const tr_state *state)
{
    return atomic_load(&header_of(state)->current) == CURRENT[1];
}

static record *record_now(const tr_state *state)
{
    return record_of(state, (uint64_t)current_of(state));
}

/* == damage ==================================================================================== */

static uint64_t check_of_header(const header *h)
{
    const uint32_t crc = tr_crc32c(0, &h->trainers, offsetof(header, check) - offsetof(header, trainers));

    return tr_crc32c(crc, (const char *)h + h->setup, h->setup_bytes);
}

static uint64_t check_of_record(const record *p, uint64_t trainers)
{
    const size_t head = sizeof p->check;

    return tr_crc32c(0, (const char *)p + head, record_bytes(trainers) - head);
}

/* The variables have no checksum: a sum over them would cost as much as an update. */
static tr_status check_state(const tr_state *state, const char *name)
{
    const header  *h = header_of(state);
    const uint64_t bytes = tr_segment_bytes(state->segment), first = round_up(sizeof *h), now = atomic_load(&h->current);
    const bool     fits = h->trainers < bytes && h->setup_bytes < bytes && h->record[0] == first &&
                               h->record[1] == first + record_bytes(h->trainers) &&
                               h->setup == h->record[1] + record_bytes(h->trainers) && h->setup + h->setup_bytes <= bytes;

    if (atomic_load(&h->ready) > bytes)
        return tr_fail(TR_EFORMAT, "the state '%s' is damaged: it has %llu bytes of %llu", name, (unsigned long long)bytes,
                       (unsigned long long)atomic_load(&h->ready));
    if (!fits || h->check != check_of_header(h))
        return tr_fail(TR_EFORMAT, "the state '%s' is damaged: its beginning is not what was written", name);
    if ((now != CURRENT[0] && now != CURRENT[1]) || record_now(state)->side > 1 ||
        record_now(state)->check != check_of_record(record_now(state), h->trainers))
        return tr_fail(TR_EFORMAT, "the state '%s' is damaged: its last commit is not what was written", name);
    return TR_OK;
}

/* == life ====================================================================================== */

static tr_status wrap(tr_state **out, tr_segment *segment)
{
    tr_state *state = calloc(1, sizeof *state);

    if (!state) {
        tr_segment_free(segment);
        return tr_fail(TR_ENOMEM, "no memory for a server's state");
    }
    state->segment = segment;
    *out = state;
    return TR_OK;
}

tr_status tr_state_create(tr_state **out, const char *name, const void *setup, uint64_t bytes, int trainers)
{
    tr_segment *segment;
    tr_state   *state = NULL;
    const uint64_t first = round_up(sizeof(header)), one = record_bytes((uint64_t)trainers);

    if (name)
        tr_segment_remove(name);                   /* mostly there is no old state */
    TR_TRY(tr_segment_create(&segment, name, CONTENT, VERSION, LIMIT));
    TR_TRY(wrap(&state, segment));
    state->used = first + 2 * one + round_up(bytes);
    const tr_status status = tr_segment_grow(segment, state->used);
    if (status != TR_OK) {
        tr_state_free(state, true);
        return status;
    }
    header *h = header_of(state);
    h->trainers = (uint64_t)trainers;
    h->setup_bytes = bytes;
    h->record[0] = first;
    h->record[1] = first + one;
    h->setup = first + 2 * one;
    memcpy((char *)h + h->setup, setup, bytes);
    h->check = check_of_header(h);
    atomic_store(&h->current, CURRENT[0]);
    *out = state;
    return TR_OK;
}

tr_status tr_state_attach(tr_state **out, const char *name)
{
    tr_segment *segment;
    tr_state   *state = NULL;

    TR_TRY(tr_segment_attach(&segment, name, CONTENT, VERSION, LIMIT));
    TR_TRY(wrap(&state, segment));
    const header *h = header_of(state);
    if (tr_segment_bytes(segment) < sizeof *h || !atomic_load(&h->ready)) {
        tr_state_free(state, false);
        return tr_fail(TR_ENOTFOUND, "the state '%s' was never complete", name);
    }
    const tr_status status = check_state(state, name);
    if (status != TR_OK) {
        tr_state_free(state, false);
        return status;
    }
    state->used = h->setup + round_up(h->setup_bytes);
    state->is_kept = true;
    *out = state;
    return TR_OK;
}

void tr_state_free(tr_state *state, bool forget)
{
    if (!state)
        return;
    if (forget && tr_segment_name(state->segment)[0])
        tr_segment_remove(tr_segment_name(state->segment));
    tr_segment_free(state->segment);
    free(state);
}

/* == names ==================================================================================== */

static const char SERVER[] = ".server";

bool tr_state_name(char *out, size_t size, const char *prefix, int server)
{
    return (size_t)snprintf(out, size, "%s%s%d", prefix, SERVER, server) < size;
}

uint32_t tr_state_generation(const tr_state *state)
{
    return (uint32_t)header_of(state)->generation;
}

void tr_state_set_generation(tr_state *state, uint32_t generation)
{
    header_of(state)->generation = generation;
}

/* Several processes may look at the states at the start, and each holds a state while it looks. */
static tr_status attach_soon(tr_state **out, const char *name)
{
    enum { TRIES = 500, PAUSE = 2000000 };
    tr_status status;

    for (int i = 0; (status = tr_state_attach(out, name)) == TR_EEXIST && i < TRIES; i++)
        tr__sleep(PAUSE);
    return status;
}

int tr_state_replica_rank(const tr_state *state)
{
    const uint64_t replica_rank = header_of(state)->replica_rank;
    return replica_rank <= INT32_MAX ? (int)replica_rank - 1 : -1;
}

void tr_state_set_replica_rank(tr_state *state, int rank)
{
    header_of(state)->replica_rank = (uint64_t)(rank + 1);
}

tr_status tr_state_find(tr_state_found **out, int *count, const char *prefix)
{
    char **names, whole[TR_SEGMENT_NAME];
    int    all;

    if ((size_t)snprintf(whole, sizeof whole, "%s%s", prefix, SERVER) >= sizeof whole)
        return tr_fail(TR_ERANGE, "the name '%s' is too long", prefix);
    TR_TRY(tr_segment_list(&names, &all, whole));
    *out = tr__must_array((size_t)all + 1, sizeof **out);
    *count = 0;
    for (int i = 0; i < all; i++) {
        char      *end;
        const long server = strtol(names[i] + strlen(whole), &end, 10);
        tr_state  *state;
        if (*end || attach_soon(&state, names[i]) != TR_OK)
            continue;                              /* a segment of a table, or a state that was never complete */
        if (tr_state_generation(state))
            (*out)[(*count)++] = (tr_state_found){(uint32_t)server, (uint32_t)header_of(state)->generation};
        tr_state_free(state, false);
    }
    free(names);
    return TR_OK;
}

/* == memory ==================================================================================== */

const void *tr_state_setup(const tr_state *state, uint64_t *bytes)
{
    const header *h = header_of(state);

    *bytes = h->setup_bytes;
    return (const char *)h + h->setup;
}

int tr_state_trainers(const tr_state *state)
{
    return (int)header_of(state)->trainers;
}

tr_status tr_state_take(void **out, tr_state *state, uint64_t bytes)
{
    const uint64_t at = state->used, has = tr_segment_bytes(state->segment);

    if (state->is_kept && at + round_up(bytes) > has)
        return tr_fail(TR_EFORMAT, "the state '%s' is damaged: it has %llu bytes, and %llu are needed", tr_segment_name(state->segment),
                       (unsigned long long)has, (unsigned long long)(at + round_up(bytes)));
    TR_TRY(tr_segment_grow(state->segment, at + round_up(bytes)));
    state->used = at + round_up(bytes);
    *out = (char *)header_of(state) + at;
    return TR_OK;
}

void tr_state_ready(tr_state *state)
{
    atomic_store(&header_of(state)->ready, state->used);
}

/* == commits =================================================================================== */

int tr_state_side(const tr_state *state)
{
    return (int)record_now(state)->side;
}

tr_commit tr_state_committed(const tr_state *state)
{
    record *p = record_now(state);

    return (tr_commit){p->updates, settled_of(p), flags_of(state, p), p->decided, p->decisions, (uint32_t)p->start,
                       p->knows_members ? members_of(state, p) : NULL,
                       {(uint32_t)p->snapshot, p->snapshot_is_taken, p->snapshot_update}, (uint32_t)p->newest_snapshot};
}

/* The other record is complete: from here on it counts. */
static void switch_record(tr_state *state)
{
    const int next = 1 - current_of(state);
    record    *p = record_of(state, (uint64_t)next);

    p->check = check_of_record(p, header_of(state)->trainers);
    atomic_store(&header_of(state)->current, CURRENT[next]);
}

void tr_state_commit(tr_state *state, const tr_commit *commit, bool switches)
{
    const uint64_t trainers = header_of(state)->trainers;
    record         *next = record_of(state, 1 - (uint64_t)current_of(state));

    next->updates = commit->updates;
    next->decided = commit->decided;
    next->decisions = commit->decisions;
    next->start = commit->start;
    next->snapshot = commit->snapshot.number;
    next->snapshot_is_taken = commit->snapshot.is_taken;
    next->snapshot_update = commit->snapshot.update;
    next->newest_snapshot = commit->newest_snapshot;
    next->side = record_now(state)->side ^ switches;
    memcpy(settled_of(next), commit->settled, trainers * sizeof *commit->settled);
    memcpy(flags_of(state, next), commit->trainer, trainers);
    next->knows_members = commit->member != NULL;
    if (commit->member)
        memcpy(members_of(state, next), commit->member, trainers * sizeof *commit->member);
    else
        memset(members_of(state, next), 0, trainers * sizeof *commit->member);
    switch_record(state);
}

void tr_state_go_back(tr_state *state, const tr_commit *commit)
{
    record *next = record_of(state, 1 - (uint64_t)current_of(state));

    if (commit) {
        tr_state_commit(state, commit, true);
        return;
    }
    memcpy(next, record_now(state), record_bytes(header_of(state)->trainers));
    next->updates--;
    next->decided = next->updates;
    next->side ^= 1;
    switch_record(state);
}
