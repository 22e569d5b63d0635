/* trainer_vars.c - see trainer_vars.h. The segment holds a header, a list of variables, and two copies. */
#include "storage/memory/trainer_vars.h"

#include "storage/memory/segment.h"
#include "storage/util/crc32c.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { VERSION = 1, LINE = 64 };
static const char     CONTENT[] = "trainer";
static const uint64_t LIMIT = (uint64_t)1 << 40;

typedef struct header {
    _Atomic uint64_t step[2];         /* the step of each copy; 0: the copy is not complete */
    _Atomic uint64_t check;           /* CRC-32C of the header below this field and of the list, with bit 32 set; 0: the segment was never complete */
    uint64_t         count, list_bytes, value_bytes;
} header;

/* An entry of the list, which follows the header. The names follow the last entry. */
typedef struct entry {
    uint64_t bytes, at;               /* bytes of the values, and their place in a copy */
    uint64_t name;                    /* place of the name in the list */
} entry;

struct tr_trainer_vars {
    tr_segment *segment;
    char       *copy[2];
};

static uint64_t round_up(uint64_t bytes)
{
    return (bytes + LINE - 1) & ~(uint64_t)(LINE - 1);
}

static header *header_of(const tr_trainer_vars *kept)
{
    return tr_segment_base(kept->segment);
}

static entry *list_of(const header *h)
{
    return (entry *)(uintptr_t)(h + 1);
}

static const char *name_in(const header *h, uint64_t index)
{
    return (const char *)(h + 1) + list_of(h)[index].name;
}

static uint64_t first_copy(const header *h)
{
    return round_up(sizeof *h + h->list_bytes);
}

static uint64_t all_bytes(const header *h)
{
    return first_copy(h) + 2 * h->value_bytes;
}

static uint64_t check_of(const header *h)
{
    const size_t facts = offsetof(header, count);

    return (uint64_t)1 << 32 | tr_crc32c(0, (const char *)h + facts, sizeof *h - facts + h->list_bytes);
}

bool tr_trainer_vars_name(char *out, size_t size, const char *prefix, int trainer)
{
    return (size_t)snprintf(out, size, "%s.trainer%d", prefix, trainer) < size;
}

/* == life ====================================================================================== */

static tr_status wrap(tr_trainer_vars **out, tr_segment *segment)
{
    *out = calloc(1, sizeof **out);
    if (*out) {
        (*out)->segment = segment;
        return TR_OK;
    }
    tr_segment_free(segment);
    return tr_fail(TR_ENOMEM, "no memory for what a trainer keeps");
}

static void find_copies(tr_trainer_vars *kept)
{
    const header *h = header_of(kept);

    kept->copy[0] = (char *)(uintptr_t)h + first_copy(h);
    kept->copy[1] = kept->copy[0] + h->value_bytes;
}

static void write_list(header *h, int count, const tr_trainer_var *vars)
{
    uint64_t name = (uint64_t)count * sizeof(entry);

    h->count = (uint64_t)count;
    for (int i = 0; i < count; i++) {
        list_of(h)[i] = (entry){vars[i].bytes, h->value_bytes, name};
        h->value_bytes += round_up(vars[i].bytes);
        strcpy((char *)(h + 1) + name, vars[i].name);
        name += strlen(vars[i].name) + 1;
    }
    h->list_bytes = name;
}

tr_status tr_trainer_vars_create(tr_trainer_vars **out, const char *name, int count, const tr_trainer_var *vars)
{
    tr_segment      *segment;
    tr_trainer_vars *kept = NULL;
    uint64_t         list = 0, values = 0;

    for (int i = 0; i < count; i++) {
        list += sizeof(entry) + strlen(vars[i].name) + 1;
        values += round_up(vars[i].bytes);
    }
    if (name)
        tr_segment_remove(name);                   /* mostly there is no old segment */
    TR_TRY(tr_segment_create(&segment, name, CONTENT, VERSION, LIMIT));
    TR_TRY(wrap(&kept, segment));
    const tr_status status = tr_segment_grow(segment, round_up(sizeof(header) + list) + 2 * values);
    if (status != TR_OK) {
        tr_trainer_vars_free(kept, true);
        return status;
    }
    write_list(header_of(kept), count, vars);
    find_copies(kept);
    atomic_store(&header_of(kept)->check, check_of(header_of(kept)));
    *out = kept;
    return TR_OK;
}

/* Check that the list's names and values lie inside the list and inside a copy. */
static bool is_list(const header *h)
{
    const char *text = (const char *)(h + 1);
    const bool  is_closed = h->list_bytes && !text[h->list_bytes - 1];      /* the last byte is NUL, so every name ends */

    if (h->count > INT32_MAX || h->count * sizeof(entry) > h->list_bytes || (h->count && !is_closed))
        return false;
    for (uint64_t i = 0; i < h->count; i++) {
        const entry *e = &list_of(h)[i];
        if (e->name >= h->list_bytes || e->at > h->value_bytes || e->bytes > h->value_bytes - e->at)
            return false;
    }
    return true;
}

static tr_status check_list(const tr_trainer_vars *kept, const char *name)
{
    const header  *h = header_of(kept);
    const uint64_t bytes = tr_segment_bytes(kept->segment);

    if (bytes < sizeof *h || !atomic_load(&h->check))
        return tr_fail(TR_ENOTFOUND, "what '%s' keeps of a trainer was never complete", name);
    if (h->list_bytes > bytes - sizeof *h || h->value_bytes > bytes || all_bytes(h) > bytes || h->check != check_of(h) || !is_list(h))
        return tr_fail(TR_EFORMAT, "what '%s' keeps of a trainer is damaged: its list is not what was written", name);
    return TR_OK;
}

tr_status tr_trainer_vars_attach(tr_trainer_vars **out, const char *name)
{
    enum { TRIES = 500, PAUSE = 2000 };
    tr_segment      *segment;
    tr_trainer_vars *kept = NULL;
    tr_status        status;

    for (int i = 0; (status = tr_segment_attach(&segment, name, CONTENT, VERSION, LIMIT)) == TR_EEXIST && i < TRIES; i++)
        usleep(PAUSE);
    TR_TRY(status);
    TR_TRY(wrap(&kept, segment));
    status = check_list(kept, name);
    if (status != TR_OK) {
        tr_trainer_vars_free(kept, false);
        return status;
    }
    find_copies(kept);
    *out = kept;
    return TR_OK;
}

void tr_trainer_vars_free(tr_trainer_vars *kept, bool forget)
{
    if (!kept)
        return;
    if (forget && tr_segment_name(kept->segment)[0])
        tr_segment_remove(tr_segment_name(kept->segment));
    tr_segment_free(kept->segment);
    free(kept);
}

/* == copies ==================================================================================== */

bool tr_trainer_vars_are(const tr_trainer_vars *kept, int count, const tr_trainer_var *vars)
{
    const header *h = header_of(kept);

    if (h->count != (uint64_t)count)
        return false;
    for (int i = 0; i < count; i++)
        if (list_of(h)[i].bytes != vars[i].bytes || strcmp(name_in(h, (uint64_t)i), vars[i].name) != 0)
            return false;
    return true;
}

bool tr_trainer_vars_keep(tr_trainer_vars *kept, uint64_t step, int count, const tr_trainer_var *vars)
{
    header      *h = header_of(kept);
    const entry *list = list_of(h);

    for (int i = 0; i < count; i++)
        if ((uint64_t)count != h->count || vars[i].bytes != list[i].bytes)
            return false;
    atomic_store(&h->step[step % 2], 0);
    atomic_thread_fence(memory_order_seq_cst);     /* no store moves in front of this one */
    for (int i = 0; i < count; i++)
        memcpy(kept->copy[step % 2] + list[i].at, vars[i].data, list[i].bytes);
    atomic_store(&h->step[step % 2], step);
    return true;
}

void tr_trainer_vars_stay(tr_trainer_vars *kept, uint64_t from, uint64_t to)
{
    header *h = kept ? header_of(kept) : NULL;

    if (!h || from >= to || from == 0 || atomic_load(&h->step[from % 2]) != from)
        return;
    if (from % 2 != to % 2) {
        atomic_store(&h->step[to % 2], 0);
        atomic_thread_fence(memory_order_seq_cst);
        memcpy(kept->copy[to % 2], kept->copy[from % 2], h->value_bytes);
    }
    atomic_store(&h->step[to % 2], to);
}

int tr_trainer_vars_count(const tr_trainer_vars *kept)
{
    return (int)header_of(kept)->count;
}

bool tr_trainer_vars_find(tr_trainer_var *out, const tr_trainer_vars *kept, uint64_t step, int index)
{
    const header *h = header_of(kept);

    if (step == 0 || atomic_load(&h->step[step % 2]) != step)
        return false;
    *out = (tr_trainer_var){name_in(h, (uint64_t)index), kept->copy[step % 2] + list_of(h)[index].at, list_of(h)[index].bytes};
    return true;
}
