/* table.c - rows in slots: values in their type, then the states. */
#include "pserver/table.h"

#include "framework/compiler.h"
#include "framework/random.h"
#include "kernels/math/cast.h"
#include "pserver/slots_cut.h"
#include "pserver/row_copy.h"
#include "pserver/undo.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct tr_table {
    tr_table_config config;
    tr_slots       *slots, *candidates;
    tr_undo        *undo;
    uint64_t        step;             /* of the update that was begun last */
    uint64_t        value_bytes, values_padded;
    char           *rows;
    uint64_t        stride;
    uint32_t       *list;             /* of a shard's slots */
    uint64_t        list_capacity;
    uint32_t        first_shard, shard_count;
    tr_slots_cut   *cut, *candidates_cut;     /* while somebody reads an earlier moment; else NULL */
};

static const uint32_t TOUCHES = TR_SLOT_LIVES - 1;

/* == life ======================================================================================== */

tr_status tr_table_check_config(const tr_table_config *c)
{
    if (c->dtype != TR_FP32 && c->dtype != TR_FP16 && c->dtype != TR_BF16)
        return tr_fail(TR_EDTYPE, "table: rows of %s; float32, float16 and bfloat16 are possible", tr_dtype_name(c->dtype));
    if (c->width < 1 || c->width > 65536)
        return tr_fail(TR_ESHAPE, "table: rows of %lld values; 1 to 65536 are possible", (long long)c->width);
    if (c->states < 0 || c->states > TR_TABLE_STATES)
        return tr_fail(TR_ERANGE, "table: an optimizer with %d states for each element; up to %d are possible", c->states,
                       TR_TABLE_STATES);
    if (c->init < 0 || c->init >= TR_TABLE_INIT_COUNT)
        return tr_fail(TR_EINVAL, "table: there is no way %d to draw first values", (int)c->init);
    if (!(c->entry_probability >= 0 && c->entry_probability <= 1))
        return tr_fail(TR_ERANGE, "table: a probability of %g", c->entry_probability);
    return TR_OK;
}

int64_t tr_table_row_bytes(const tr_table_config *config)
{
    return config->width * tr_dtype_size(config->dtype);
}

static uint64_t padded(uint64_t bytes, uint64_t to)
{
    return (bytes + to - 1) / to * to;
}

uint64_t tr_table_stride(const tr_table_config *config)
{
    const uint64_t values = padded((uint64_t)tr_table_row_bytes(config), 4);
    return sizeof(tr_slot_row) + padded(values + (uint64_t)config->states * (uint64_t)config->width * 4, 8);
}

static tr_slots_config slots_config(const tr_table_config *config, const tr_table_place *place)
{
    return (tr_slots_config){tr_table_stride(config) - sizeof(tr_slot_row), place->first_shard, place->shard_count,
                             place->max_bytes};
}

static const char *path(char *out, size_t size, const char *name, const char *what)
{
    if (!name)
        return NULL;
    snprintf(out, size, "%s.%s", name, what);
    return out;
}

static tr_status open_parts(tr_table *t, const tr_table_place *place, bool is_new)
{
    const tr_slots_config rows = slots_config(&t->config, place), none = {0, place->first_shard, place->shard_count, 0};
    char                  text[TR_SEGMENT_NAME];

    TR_TRY((is_new ? tr_slots_create : tr_slots_attach)(&t->slots, place->name, &rows));
    t->rows = tr_slots_rows(t->slots);
    t->stride = tr_slots_stride(t->slots);
    if (t->config.entry_count > 1)
        TR_TRY((is_new ? tr_slots_create : tr_slots_attach)(&t->candidates, path(text, sizeof text, place->name, "waiting"),
                                                            &none));
    return (is_new ? tr_undo_create : tr_undo_attach)(&t->undo, path(text, sizeof text, place->name, "undo"), t->stride);
}

static tr_status open_table(tr_table **out, const tr_table_config *config, const tr_table_place *place, bool is_new)
{
    TR_TRY(tr_table_check_config(config));
    tr_table *t = calloc(1, sizeof *t);
    if (!t)
        return tr_fail(TR_ENOMEM, "table: no memory");
    t->config = *config;
    t->value_bytes = (uint64_t)tr_table_row_bytes(config);
    t->values_padded = padded(t->value_bytes, 4);
    t->first_shard = place->first_shard;
    t->shard_count = place->shard_count;
    const tr_status status = open_parts(t, place, is_new);
    if (status != TR_OK) {
        tr_table_free(t);
        return status;
    }
    *out = t;
    return TR_OK;
}

/* What must be the same for rows to mean the same. */
static uint64_t digest(const tr_table_config *c)
{
    double   parts[10 + TR_TABLE_STATES] = {(double)c->dtype, (double)c->width, c->states, (double)c->init, c->a, c->b, c->entry_count,
                                            c->entry_probability};
    uint64_t hash;

    for (int i = 0; i < c->states; i++)
        parts[10 + i] = c->state_value[i];
    memcpy(&parts[8], &c->random_key, sizeof c->random_key);
    hash = tr_hash_bytes(parts, sizeof parts);
    return hash ? hash : 1;
}

tr_status tr_table_create(tr_table **out, const tr_table_config *config, const tr_table_place *place)
{
    tr_table *t = NULL;

    TR_TRY(open_table(&t, config, place, true));
    *(uint64_t *)tr_slots_notes(t->slots) = digest(config);
    *out = t;
    return TR_OK;
}

tr_status tr_table_attach(tr_table **out, const tr_table_config *config, const tr_table_place *place, uint64_t step)
{
    tr_table *t = NULL;

    TR_TRY(open_table(&t, config, place, false));
    if (*(uint64_t *)tr_slots_notes(t->slots) != digest(config)) {
        tr_table_free(t);
        return tr_fail(TR_EFORMAT, "table in segment '%s.rows' has rows of another type, width, optimizer or first value", place->name);
    }
    tr_table_go_back(t, step);
    *out = t;
    return TR_OK;
}

void tr_table_go_back(tr_table *table, uint64_t step)
{
    if (tr_undo_step(table->undo) > step)
        tr_undo_roll_back(table->undo, table->rows);
    table->step = step;
}

void tr_table_free(tr_table *table)
{
    if (!table)
        return;
    tr_table_cut_end(table);
    tr_slots_free(table->slots);
    tr_slots_free(table->candidates);
    tr_undo_free(table->undo);
    free(table->list);
    free(table);
}

void tr_table_remove(const char *name)
{
    char text[TR_SEGMENT_NAME];

    tr_slots_remove(name);
    tr_slots_remove(path(text, sizeof text, name, "waiting"));
    tr_segment_remove(path(text, sizeof text, name, "undo"));
}

const tr_table_config *tr_table_get_config(const tr_table *table)
{
    return &table->config;
}

void tr_table_range(const tr_table *table, uint32_t *first_shard, uint32_t *shard_count)
{
    *first_shard = table->first_shard;
    *shard_count = table->shard_count;
}

/* == values ======================================================================================== */

static tr_slot_row *row_of(const tr_table *t, uint32_t slot)
{
    return tr_slots_row(t->rows, t->stride, slot);
}

static char *values_of(tr_slot_row *row)
{
    return (char *)(row + 1);
}

static float *states_of(const tr_table *t, tr_slot_row *row)
{
    return (float *)(values_of(row) + t->values_padded);
}

/* Elements [start, start + n) of the endless tensor that first values are. */
static void draw(const tr_table_config *c, float *out, int64_t n, uint64_t start)
{
    const float a = (float)c->a, b = (float)c->b;

    switch (c->init) {
    case TR_TABLE_UNIFORM:
        tr_random_uniform_f32(out, n, c->random_key, start, a, b);
        break;
    case TR_TABLE_NORMAL:
        tr_random_normal_f32(out, n, c->random_key, start, a, b);
        break;
    case TR_TABLE_TRUNCATED_NORMAL:
        tr_random_truncated_normal_f32(out, n, c->random_key, start, a, b);
        break;
    default:
        for (int64_t i = 0; i < n; i++)
            out[i] = a;
    }
}

/* Where a key's row begins: of keys below 2^62 / width, where it does in a dense parameter. */
static uint64_t first_element(const tr_table_config *c, int64_t key)
{
    return (uint64_t)key * (uint64_t)c->width & (((uint64_t)1 << 62) - 1);
}

void tr_table_first_value(const tr_table_config *config, float *out, int64_t key)
{
    draw(config, out, config->width, first_element(config, key));
}

/* The same in the table's type. */
static void put_first_value(const tr_table *t, char *out, int64_t key)
{
    enum { PIECE = 256 };
    float         some[PIECE];
    const int64_t width = t->config.width;

    for (int64_t from = 0; from < width; from += PIECE) {
        const int64_t n = width - from < PIECE ? width - from : PIECE;
        draw(&t->config, some, n, first_element(&t->config, key) + (uint64_t)from);
        tr_cast(out + from * tr_dtype_size(t->config.dtype), t->config.dtype, some, TR_FP32, n);
    }
}

/* == admission ===================================================================================== */

/* Whether this key may ever have a row. */
static bool is_chosen(const tr_table_config *c, int64_t key)
{
    const double share = c->entry_probability > 0 ? c->entry_probability : 1;

    return share >= 1 || (double)tr_random_bits(~c->random_key, (uint64_t)key) < share * 0x1p32;
}

/* Keys that wait for their row, or never get one, read zeros. */
static bool reads_zeros(const tr_table_config *c, int64_t key)
{
    return c->entry_count > 1 || !is_chosen(c, key);
}

/* A row whose payload, if it has one, was not written. */
static tr_status new_row(uint32_t *out, tr_slots *slots, tr_slots_cut *cut, int64_t key, void (*fill)(void *, uint32_t, int64_t),
                         void *payload)
{
    tr_slots_cut_lock(cut);
    const tr_status status = tr_slots_new_row(out, slots);
    if (status == TR_OK) {
        tr_slots_cut_made(cut, *out);
        fill(payload, *out, key);
        tr_slots_publish(slots, *out, key);
    }
    tr_slots_cut_unlock(cut);
    return status;
}

static void delete_row(tr_slots *slots, tr_slots_cut *cut, uint32_t slot)
{
    tr_slots_cut_lock(cut);
    tr_slots_cut_remove(cut, slot);
    tr_slots_delete(slots, slot);
    tr_slots_cut_unlock(cut);
}

static tr_slots_cut *cut_of(const tr_table *t, const tr_slots *slots)
{
    return slots == t->slots ? t->cut : t->candidates_cut;
}

static void fill_candidate(void *payload, uint32_t slot, int64_t key)
{
    const tr_table *t = payload;

    (void)key;
    tr_slots_row(tr_slots_rows(t->candidates), tr_slots_stride(t->candidates), slot)->last = 0;
}

static tr_status make_candidate(uint32_t *out, tr_table *t, int64_t key)
{
    return new_row(out, t->candidates, t->candidates_cut, key, fill_candidate, t);
}

/* Count a touch of a key without a row; *out: whether it has enough now. A repeated step counts once. */
static tr_status count_touch(bool *out, tr_table *t, int64_t key)
{
    uint32_t slot;

    tr_slots_find(t->candidates, &slot, &key, 1);
    if (slot == TR_SLOT_NONE)
        TR_TRY(make_candidate(&slot, t, key));
    tr_slot_row *row = tr_slots_row(tr_slots_rows(t->candidates), tr_slots_stride(t->candidates), slot);
    if (row->last != (uint32_t)t->step) {
        if (t->candidates_cut)
            tr_slots_cut_keep(t->candidates_cut, &slot, 1);
        row->last = (uint32_t)t->step;
        row->mark++;
    }
    *out = (row->mark & TOUCHES) >= t->config.entry_count;
    return TR_OK;
}

/* == looking up ===================================================================================== */

enum { BATCH = 128 };

static void pull_batch(const tr_table *t, char *out, const int64_t *keys, int n)
{
    uint32_t slot[BATCH];

    tr_slots_find_to_read(t->slots, slot, keys, n, sizeof(tr_slot_row) + t->value_bytes);
    for (int i = 0; i < n; i++, out += t->value_bytes) {
        if (TR_LIKELY(slot[i] != TR_SLOT_NONE))
            tr_row_copy(out, values_of(row_of(t, slot[i])), t->value_bytes);
        else if (reads_zeros(&t->config, keys[i]))
            memset(out, 0, t->value_bytes);
        else
            put_first_value(t, out, keys[i]);
    }
}

void tr_table_pull(const tr_table *table, void *out, const int64_t *keys, int64_t n)
{
    for (int64_t i = 0; i < n; i += BATCH)
        pull_batch(table, (char *)out + (uint64_t)i * table->value_bytes, keys + i, n - i < BATCH ? (int)(n - i) : BATCH);
}

/* == an update ====================================================================================== */

tr_status tr_table_begin(tr_table *table, uint64_t step)
{
    table->step = step;
    return tr_undo_begin(table->undo, step);
}

static void fill_row(void *payload, uint32_t slot, int64_t key)
{
    const tr_table *t = payload;
    tr_slot_row    *row = row_of(t, slot);
    float          *states = states_of(t, row);

    row->last = (uint32_t)t->step;
    put_first_value(t, values_of(row), key);
    for (int s = 0; s < t->config.states; s++)
        for (int64_t i = 0; i < t->config.width; i++)
            *states++ = t->config.state_value[s];
}

static tr_status make_row(uint32_t *out, tr_table *t, int64_t key)
{
    return new_row(out, t->slots, t->cut, key, fill_row, t);
}

static tr_status take_absent(uint32_t *out, tr_table *t, int64_t key)
{
    bool is_due = true;

    tr_slots_find(t->slots, out, &key, 1);             /* a key that comes twice has its row by now */
    if (*out != TR_SLOT_NONE || !is_chosen(&t->config, key))
        return TR_OK;
    if (!t->candidates)
        return make_row(out, t, key);
    TR_TRY(count_touch(&is_due, t, key));
    if (!is_due)
        return TR_OK;
    TR_TRY(make_row(out, t, key));                     /* for the updates to come: this one was computed from zeros */
    tr_slots_find(t->candidates, out, &key, 1);
    delete_row(t->candidates, t->candidates_cut, *out);
    *out = TR_SLOT_NONE;
    return TR_OK;
}

/* A row that this step made when its count was complete: found when the step is repeated after a kill. */
static bool is_made_now(const tr_table *t, uint32_t slot)
{
    const tr_slot_row *row = row_of(t, slot);
    return t->candidates && !(row->mark & TOUCHES) && row->last == (uint32_t)t->step;
}

tr_status tr_table_take(tr_table *table, uint32_t *slots, const int64_t *keys, int64_t n)
{
    tr_slots_find(table->slots, slots, keys, n);
    for (int64_t i = 0; i < n; i++)
        if (slots[i] == TR_SLOT_NONE)
            TR_TRY(take_absent(&slots[i], table, keys[i]));
        else if (table->candidates && is_made_now(table, slots[i]))
            slots[i] = TR_SLOT_NONE;
    return TR_OK;
}

enum { AHEAD = 8 };                   /* rows whose memory is asked for before their turn */

static void ask_for(const tr_table *t, const uint32_t *slots, int64_t i, int64_t n)
{
    if (i + AHEAD >= n || slots[i + AHEAD] == TR_SLOT_NONE)
        return;
    const char *row = (const char *)row_of(t, slots[i + AHEAD]);
    for (uint64_t at = 0; at < t->stride; at += TR_CACHE_LINE)
        __builtin_prefetch(row + at);
}

void tr_table_gather(const tr_table *table, const uint32_t *slots, int64_t n, float *values, float *const *states)
{
    const int64_t  width = table->config.width;
    const uint64_t bytes = (uint64_t)width * sizeof(float);

    for (int64_t i = 0; i < n; i++) {
        ask_for(table, slots, i, n);
        if (slots[i] == TR_SLOT_NONE) {
            memset(values + i * width, 0, bytes);
            for (int s = 0; s < table->config.states; s++)
                memset(states[s] + i * width, 0, bytes);
            continue;
        }
        tr_slot_row *row = row_of(table, slots[i]);
        if (table->config.dtype == TR_FP32)
            tr_row_copy(values + i * width, values_of(row), bytes);
        else
            tr_cast(values + i * width, TR_FP32, values_of(row), table->config.dtype, width);
        for (int s = 0; s < table->config.states; s++)
            tr_row_copy(states[s] + i * width, states_of(table, row) + s * width, bytes);
    }
}

static void touch(tr_slot_row *row, uint64_t step)
{
    if ((row->mark & TOUCHES) != TOUCHES)
        row->mark++;
    row->last = (uint32_t)step;
}

tr_status tr_table_scatter(tr_table *table, const uint32_t *slots, int64_t n, const float *values, const float *const *states)
{
    const int64_t  width = table->config.width;
    const uint64_t bytes = (uint64_t)width * sizeof(float);

    TR_TRY(tr_undo_log(table->undo, table->rows, slots, n));
    if (table->cut)
        tr_slots_cut_keep(table->cut, slots, n);
    for (int64_t i = 0; i < n; i++) {
        if (slots[i] == TR_SLOT_NONE)
            continue;
        tr_slot_row *row = row_of(table, slots[i]);
        if (table->config.dtype == TR_FP32)
            tr_row_copy(values_of(row), values + i * width, bytes);
        else
            tr_cast(values_of(row), table->config.dtype, values + i * width, TR_FP32, width);
        for (int s = 0; s < table->config.states; s++)
            tr_row_copy(states_of(table, row) + s * width, states[s] + i * width, bytes);
        touch(row, table->step);
    }
    return TR_OK;
}

/* == eviction ======================================================================================== */

typedef struct victim {
    uint32_t age, touches;
    int64_t  key;
    uint32_t slot;
} victim;

/* The longest untouched first; of them those touched least; the key decides the rest. */
static int by_worth(const void *a, const void *b)
{
    const victim *x = a, *y = b;

    if (x->age != y->age)
        return x->age > y->age ? -1 : 1;
    if (x->touches != y->touches)
        return x->touches < y->touches ? -1 : 1;
    return (x->key > y->key) - (x->key < y->key);
}

static bool is_stale(const tr_table_config *c, const tr_slot_row *row, uint64_t step)
{
    return c->max_age && (uint32_t)step - row->last > c->max_age && (!c->keep_count || (row->mark & TOUCHES) < c->keep_count);
}

static tr_status evict_stale(tr_table *t, tr_slots *slots, uint32_t shard, uint64_t step, uint64_t *left, uint64_t *removed)
{
    uint64_t count = 0;

    *left = 0;
    TR_TRY(tr_slots_of_shard(&t->list, &t->list_capacity, &count, slots, shard));
    for (uint64_t i = 0; i < count; i++) {
        const tr_slot_row *row = tr_slots_row(tr_slots_rows(slots), tr_slots_stride(slots), t->list[i]);
        if (is_stale(&t->config, row, step)) {
            delete_row(slots, cut_of(t, slots), t->list[i]);
            ++*removed;
        } else {
            t->list[(*left)++] = t->list[i];
        }
    }
    return TR_OK;
}

static tr_status evict_surplus(tr_table *t, uint64_t count, uint64_t step, uint64_t *removed)
{
    const uint64_t quota = (t->config.max_rows + TR_SHARDS - 1) / TR_SHARDS;

    if (!t->config.max_rows || count <= quota)
        return TR_OK;
    victim *all = malloc(count * sizeof *all);
    if (!all)
        return tr_fail(TR_ENOMEM, "table: no memory to choose which of %llu rows to remove", (unsigned long long)count);
    for (uint64_t i = 0; i < count; i++) {
        const tr_slot_row *row = row_of(t, t->list[i]);
        all[i] = (victim){(uint32_t)step - row->last, row->mark & TOUCHES, row->key, t->list[i]};
    }
    qsort(all, count, sizeof *all, by_worth);
    for (uint64_t i = 0; i < count - quota; i++)
        delete_row(t->slots, t->cut, all[i].slot);
    *removed += count - quota;
    free(all);
    return TR_OK;
}

tr_status tr_table_evict(tr_table *table, uint64_t step, uint64_t *removed)
{
    const uint32_t shard = (uint32_t)(step % TR_SHARDS);
    uint64_t       left = 0, gone = 0, waiting = 0;

    if (removed)
        *removed = 0;
    if (!table->config.max_age && !table->config.max_rows)
        return TR_OK;
    TR_TRY(tr_undo_begin(table->undo, step));          /* slots that are used again must not get their old rows back */
    if (table->candidates)
        TR_TRY(evict_stale(table, table->candidates, shard, step, &left, &waiting));
    TR_TRY(evict_stale(table, table->slots, shard, step, &left, &gone));
    TR_TRY(evict_surplus(table, left, step, &gone));
    if (removed)
        *removed = gone;
    return TR_OK;
}

/* == rows in and out ================================================================================== */

tr_status tr_table_each(const tr_table *table, uint32_t shard, tr_status (*each)(void *payload, const tr_table_row *row),
                        void *payload)
{
    uint32_t *list = NULL;
    uint64_t  capacity = 0, count = 0;
    tr_status status = tr_slots_of_shard(&list, &capacity, &count, table->slots, shard);

    for (uint64_t i = 0; i < count && status == TR_OK; i++) {
        tr_slot_row       *row = row_of(table, list[i]);
        const tr_table_row out = {row->key, row->mark & TOUCHES, row->last, values_of(row), states_of(table, row)};
        status = each(payload, &out);
    }
    free(list);
    return status;
}

tr_status tr_table_put(tr_table *table, const tr_table_row *row)
{
    uint32_t slot;

    tr_slots_find(table->slots, &slot, &row->key, 1);
    if (slot == TR_SLOT_NONE)
        TR_TRY(make_row(&slot, table, row->key));
    if (table->cut)
        tr_slots_cut_keep(table->cut, &slot, 1);
    tr_slot_row *to = row_of(table, slot);
    memcpy(values_of(to), row->values, table->value_bytes);
    memcpy(states_of(table, to), row->states, (size_t)(table->config.states * table->config.width) * sizeof(float));
    to->mark = TR_SLOT_LIVES | (row->touches & TOUCHES);
    to->last = row->last;
    return TR_OK;
}

tr_status tr_table_set_values(tr_table *table, int64_t key, const void *values)
{
    uint32_t slot;

    if (!is_chosen(&table->config, key))
        return TR_OK;
    tr_slots_find(table->slots, &slot, &key, 1);
    if (slot == TR_SLOT_NONE)
        TR_TRY(make_row(&slot, table, key));
    if (table->cut)
        tr_slots_cut_keep(table->cut, &slot, 1);
    memcpy(values_of(row_of(table, slot)), values, table->value_bytes);
    return TR_OK;
}

/* Packed rows say nothing of living. */
static void clean_marks(void *packed, uint64_t bytes, uint64_t stride)
{
    for (uint64_t at = 0; at < bytes; at += stride)
        ((tr_slot_row *)(void *)((char *)packed + at))->mark &= TOUCHES;
}

static tr_status pack(const tr_slots *slots, uint32_t shard, void **out, uint64_t *bytes)
{
    const uint64_t stride = tr_slots_stride(slots);
    uint32_t      *list = NULL;
    uint64_t       capacity = 0, count = 0;
    tr_status      status = tr_slots_of_shard(&list, &capacity, &count, slots, shard);
    char          *packed = status == TR_OK ? malloc(count * stride + 1) : NULL;

    for (uint64_t i = 0; packed && i < count; i++)
        memcpy(packed + i * stride, tr_slots_row(tr_slots_rows(slots), stride, list[i]), stride);
    free(list);
    if (status == TR_OK && !packed)
        return tr_fail(TR_ENOMEM, "table: no memory for the %llu rows of shard %u", (unsigned long long)count, shard);
    *out = packed;
    *bytes = count * stride;
    if (packed)
        clean_marks(packed, *bytes, stride);
    return status;
}

static tr_status pack_nothing(void **out, uint64_t *bytes)
{
    *bytes = 0;
    *out = malloc(1);
    return *out ? TR_OK : tr_fail(TR_ENOMEM, "table: no memory");
}

tr_status tr_table_pack(const tr_table *table, uint32_t shard, void **out, uint64_t *bytes)
{
    return pack(table->slots, shard, out, bytes);
}

tr_status tr_table_pack_candidates(const tr_table *table, uint32_t shard, void **out, uint64_t *bytes)
{
    return table->candidates ? pack(table->candidates, shard, out, bytes) : pack_nothing(out, bytes);
}

static tr_status check_packed(uint64_t bytes, uint64_t stride)
{
    if (bytes % stride == 0)
        return TR_OK;
    return tr_fail(TR_EFORMAT, "table: %llu bytes are no rows of %llu", (unsigned long long)bytes, (unsigned long long)stride);
}

tr_status tr_table_unpack(tr_table *table, const void *rows, uint64_t bytes)
{
    TR_TRY(check_packed(bytes, table->stride));
    for (uint64_t at = 0; at < bytes; at += table->stride) {
        tr_slot_row head;
        const char *from = (const char *)rows + at;
        memcpy(&head, from, sizeof head);
        const tr_table_row row = {head.key, head.mark & TOUCHES, head.last, from + sizeof head,
                                  (const float *)(const void *)(from + sizeof head + table->values_padded)};
        TR_TRY(tr_table_put(table, &row));
    }
    return TR_OK;
}

tr_status tr_table_unpack_candidates(tr_table *table, const void *rows, uint64_t bytes)
{
    TR_TRY(check_packed(bytes, sizeof(tr_slot_row)));
    if (bytes && !table->candidates)
        return tr_fail(TR_EFORMAT, "table: %llu keys wait for a row, but each has one at once here",
                       (unsigned long long)(bytes / sizeof(tr_slot_row)));
    for (uint64_t at = 0; at < bytes; at += sizeof(tr_slot_row)) {
        tr_slot_row from;
        uint32_t    slot;
        memcpy(&from, (const char *)rows + at, sizeof from);
        tr_slots_find(table->candidates, &slot, &from.key, 1);
        if (slot == TR_SLOT_NONE)
            TR_TRY(make_candidate(&slot, table, from.key));
        tr_slot_row *to = tr_slots_row(tr_slots_rows(table->candidates), tr_slots_stride(table->candidates), slot);
        to->mark = TR_SLOT_LIVES | (from.mark & TOUCHES);
        to->last = from.last;
    }
    return TR_OK;
}

/* == a cut ============================================================================================ */

tr_status tr_table_cut(tr_table *table)
{
    tr_table_cut_end(table);
    TR_TRY(tr_slots_cut_new(&table->cut, table->slots));
    const tr_status status = table->candidates ? tr_slots_cut_new(&table->candidates_cut, table->candidates) : TR_OK;
    if (status != TR_OK)
        tr_table_cut_end(table);
    return status;
}

void tr_table_cut_end(tr_table *table)
{
    tr_slots_cut_free(table->cut);
    tr_slots_cut_free(table->candidates_cut);
    table->cut = table->candidates_cut = NULL;
}

tr_status tr_table_cut_read(const tr_table *table, uint32_t shard, void **out, uint64_t *bytes)
{
    TR_TRY(tr_slots_cut_read(table->cut, shard, out, bytes));
    clean_marks(*out, *bytes, table->stride);
    return TR_OK;
}

tr_status tr_table_cut_read_candidates(const tr_table *table, uint32_t shard, void **out, uint64_t *bytes)
{
    if (!table->candidates)
        return pack_nothing(out, bytes);
    TR_TRY(tr_slots_cut_read(table->candidates_cut, shard, out, bytes));
    clean_marks(*out, *bytes, tr_slots_stride(table->candidates));
    return TR_OK;
}

void tr_table_get_report(const tr_table *table, tr_table_report *report)
{
    *report = (tr_table_report){
        .rows = tr_slots_count(table->slots),
        .candidates = table->candidates ? tr_slots_count(table->candidates) : 0,
        .row_bytes = table->stride,
        .index_bytes = tr_slots_index_bytes(table->slots) + (table->candidates ? tr_slots_index_bytes(table->candidates) : 0),
        .undo_bytes = tr_undo_bytes(table->undo),
        .bytes = tr_slots_bytes(table->slots) + tr_undo_bytes(table->undo) +
                 (table->candidates ? tr_slots_bytes(table->candidates) : 0),
    };
}

const tr_slots *tr_table_slots(const tr_table *table)
{
    return table->slots;
}

tr_status tr_table_check(const tr_table *table)
{
    TR_TRY(tr_slots_check(table->slots));
    return table->candidates ? tr_slots_check(table->candidates) : TR_OK;
}
