#include "storage/checkpoint/shard_list.h"

#include <stdlib.h>
#include <string.h>

#include "framework/base/memory.h"
#include "framework/base/status.h"
#include "storage/checkpoint/table_description.h"
#include "storage/slots/slots.h"

typedef Trireme__Checkpoint__Table   about;
typedef Trireme__Checkpoint__RowCode row_code;

/* What is said of an entry beside its numbers. */
enum { CANDIDATES = 1, REMOVED = 2, CODED = 4, FLAG_BITS = 3, MOST_ENTRIES = 8 * TR_SHARDS };

/* == writing ===================================================================================== */

/* The list of a table while it is made. */
typedef struct list {
    uint8_t *data;
    size_t   size, capacity;
    uint64_t shard, end;              /* of the entry before */
} list;

static void put(list *l, uint64_t number)
{
    if (l->size + 10 > l->capacity)
        l->data = tr__must_realloc(l->data, l->capacity = 2 * l->capacity + 64);
    for (; number > 127; number >>= 7)
        l->data[l->size++] = (uint8_t)(number | 128);
    l->data[l->size++] = (uint8_t)number;
}

static bool fits(const list *l, const tr_part_tensor *t)
{
    return t->kind == TRIREME__CHECKPOINT__KIND__TABLE && t->has_shard && !t->param && !t->has_row && !t->has_rows &&
           t->dtype == TR_UINT8 && t->n_dims == 2 && t->dims[0] >= 0 && t->dims[1] >= 0 &&
           (uint64_t)t->dims[0] * (uint64_t)t->dims[1] == t->bytes && t->shard >= l->shard && t->offset >= l->end;
}

static void put_entry(list *l, const tr_part_tensor *t)
{
    const unsigned flags = (t->candidates ? CANDIDATES : 0) | (t->removed ? REMOVED : 0) | (t->code ? CODED : 0);

    put(l, (t->shard - l->shard) << FLAG_BITS | flags);
    put(l, (uint64_t)t->dims[0]);
    put(l, (uint64_t)t->dims[1]);
    put(l, t->offset - l->end);
    if (t->code) {
        put(l, (uint64_t)t->code->first_key);
        put(l, t->code->key_bits);
        put(l, t->code->touch_bits);
        put(l, t->code->last);
        put(l, t->code->age_bits);
    }
    l->shard = t->shard;
    l->end = t->offset + t->bytes;
}

/* `tables` are the copies that the part's sorted descriptions point at, `lists` those of their shards. */
static void list_entries(tr_part *to, const tr_part *part, const about *tables, list *lists)
{
    const about *table = NULL;

    to->n_tensors = 0;
    for (size_t i = 0; i < part->n_tensors; i++) {
        tr_part_tensor *t = part->tensors[i];
        if (!table || strcmp(table->name, t->name) != 0)       /* entries of a table stand together */
            table = tr__find_description(to, t->name);
        if (table && fits(&lists[table - tables], t))
            put_entry(&lists[table - tables], t);
        else
            to->tensors[to->n_tensors++] = t;
    }
}

tr_part *tr__shards_list(const tr_part *part)
{
    tr_part *to = tr__must_alloc(sizeof *to);
    list    *lists = tr__must_array(part->n_tables + 1, sizeof *lists);
    about   *tables = tr__must_array(part->n_tables + 1, sizeof *tables);

    *to = *part;
    to->tensors = tr__must_array(part->n_tensors + 1, sizeof *to->tensors);
    to->tables = tr__must_array(part->n_tables + 1, sizeof *to->tables);
    for (size_t i = 0; i < part->n_tables; i++) {
        tables[i] = *part->tables[i];
        to->tables[i] = &tables[i];
    }
    tr__tables_sort(to);
    list_entries(to, part, tables, lists);
    for (size_t i = 0; i < part->n_tables; i++) {
        tables[i].has_shards = lists[i].size > 0;
        tables[i].shards = (ProtobufCBinaryData){lists[i].size, lists[i].data};
    }
    to->tables[part->n_tables] = tables;               /* for tr__shards_list_free */
    free(lists);
    return to;
}

void tr__shards_list_free(tr_part *listed)
{
    about *tables = listed->tables[listed->n_tables];

    for (size_t i = 0; i < listed->n_tables; i++)
        free(tables[i].shards.data);
    free(tables);
    free(listed->tables);
    free(listed->tensors);
    free(listed);
}

/* == reading ===================================================================================== */

/* A list while it is read. */
typedef struct reader {
    const uint8_t *at, *end;
    bool           is_good;
} reader;

static uint64_t take(reader *r)
{
    uint64_t number = 0;

    for (int shift = 0; shift < 64 && r->at < r->end; shift += 7) {
        const uint8_t byte = *r->at++;
        number |= (uint64_t)(byte & 127) << shift;
        if (byte < 128)
            return number;
    }
    r->is_good = false;
    return 0;
}

static row_code *take_code(reader *r)
{
    row_code *code = tr__must_alloc(sizeof *code);

    trireme__checkpoint__row_code__init(code);
    code->first_key = (int64_t)take(r);
    code->key_bits = (uint32_t)take(r);
    code->touch_bits = (uint32_t)take(r);
    code->last = (uint32_t)take(r);
    code->age_bits = (uint32_t)take(r);
    return code;
}

static tr_part_tensor *take_entry(reader *r, const char *name, uint64_t *shard, uint64_t *end)
{
    tr_part_tensor *t = tr__must_alloc(sizeof *t);
    const uint64_t  head = take(r);

    trireme__checkpoint__tensor__init(t);
    t->name = tr__must_strdup(name);
    t->kind = TRIREME__CHECKPOINT__KIND__TABLE;
    t->dtype = TR_UINT8;
    t->has_shard = t->has_candidates = t->has_removed = true;
    t->candidates = (head & CANDIDATES) != 0;
    t->removed = (head & REMOVED) != 0;
    t->n_dims = 2;
    t->dims = tr__must_array(2, sizeof *t->dims);
    t->dims[0] = (int64_t)take(r);
    t->dims[1] = (int64_t)take(r);
    t->offset = *end + take(r);
    t->code = head & CODED ? take_code(r) : NULL;
    *shard += head >> FLAG_BITS;
    r->is_good = r->is_good && *shard < TR_SHARDS && t->dims[0] >= 0 && t->dims[1] >= 0 && t->offset >= *end && t->offset <= INT64_MAX &&
                 !__builtin_mul_overflow((uint64_t)t->dims[0], (uint64_t)t->dims[1], &t->bytes) && t->bytes <= INT64_MAX - t->offset;
    t->shard = (uint32_t)*shard;
    *end = t->offset + t->bytes;
    return t;
}

static tr_status expand(tr_part *part, about *table, size_t *capacity)
{
    reader   r = {table->shards.data, table->shards.data + table->shards.len, true};
    uint64_t shard = 0, end = 0;

    for (int count = 0; r.at < r.end && r.is_good; count++) {
        if (part->n_tensors == *capacity) {
            *capacity = 2 * *capacity + 64;
            part->tensors = tr__must_realloc(part->tensors, *capacity * sizeof(tr_part_tensor *));
        }
        part->tensors[part->n_tensors++] = take_entry(&r, table->name, &shard, &end);
        r.is_good = r.is_good && count < MOST_ENTRIES;
    }
    free(table->shards.data);
    table->shards = (ProtobufCBinaryData){0, NULL};
    table->has_shards = false;
    return r.is_good ? TR_OK : tr_fail(TR_EFORMAT, "the list of shards of table '%.200s' of %.200s is damaged", table->name, part->file);
}

typedef struct placed {
    tr_part_tensor *tensor;
    size_t          number;
} placed;

static int by_offset(const void *left, const void *right)
{
    const placed *a = left, *b = right;

    if (a->tensor->offset != b->tensor->offset)
        return a->tensor->offset < b->tensor->offset ? -1 : 1;
    return (a->number > b->number) - (a->number < b->number);
}

static void sort(tr_part *part)
{
    placed *all = tr__must_array(part->n_tensors + 1, sizeof *all);

    for (size_t i = 0; i < part->n_tensors; i++)
        all[i] = (placed){part->tensors[i], i};
    qsort(all, part->n_tensors, sizeof *all, by_offset);
    for (size_t i = 0; i < part->n_tensors; i++)
        part->tensors[i] = all[i].tensor;
    free(all);
}

tr_status tr__shards_expand(tr_part *part)
{
    size_t capacity = part->n_tensors;
    bool   is_listed = false;

    for (size_t i = 0; i < part->n_tables; i++) {
        is_listed |= part->tables[i]->has_shards;
        if (part->tables[i]->has_shards)
            TR_TRY(expand(part, part->tables[i], &capacity));
    }
    if (is_listed)
        sort(part);
    return TR_OK;
}
