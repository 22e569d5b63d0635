/* test_shard_list.c - entries of tables' shards come out of their lists as they went in; damaged lists are refused. */
#include "storage/checkpoint/shard_list.h"

#include "storage/checkpoint/checkpoint.h"
#include "tests/support/expect.h"

#include <stdlib.h>
#include <string.h>

enum { TABLES = 2, ENTRIES = 9 };

typedef Trireme__Checkpoint__Table about;

/* A part with a dense array in front, entries of all kinds, and one that no list has (its shard is before that of the entry before). */
typedef struct example {
    tr_part                      part;
    about                        table[TABLES], *tables[TABLES];
    tr_part_tensor               tensor[ENTRIES], *tensors[ENTRIES];
    int64_t                      dims[ENTRIES][2];
    Trireme__Checkpoint__RowCode code;
} example;

static void add(example *e, const char *name, uint32_t shard, int64_t rows, int64_t bytes, uint64_t offset, int flags)
{
    const size_t    i = e->part.n_tensors++;
    tr_part_tensor *t = e->tensors[i] = &e->tensor[i];

    trireme__checkpoint__tensor__init(t);
    t->name = (char *)(uintptr_t)name;
    t->kind = flags < 0 ? TRIREME__CHECKPOINT__KIND__PARAMETER : TRIREME__CHECKPOINT__KIND__TABLE;
    t->dtype = flags < 0 ? TR_FP32 : TR_UINT8;
    e->dims[i][0] = rows;
    e->dims[i][1] = bytes;
    t->n_dims = 2;
    t->dims = e->dims[i];
    t->offset = offset;
    t->bytes = (uint64_t)(rows * bytes) * (flags < 0 ? 4 : 1);
    t->has_shard = flags >= 0;
    t->shard = shard;
    t->has_candidates = t->candidates = flags > 0 && flags & 1;
    t->has_removed = t->removed = flags > 0 && flags & 2;
    t->code = flags > 0 && flags & 4 ? &e->code : NULL;
}

static void make(example *e)
{
    static const char *const names[TABLES] = {"a", "b"};

    memset(e, 0, sizeof *e);
    trireme__checkpoint__part__init(&e->part);
    trireme__checkpoint__row_code__init(&e->code);
    e->code.first_key = -7;
    e->code.key_bits = 40;
    e->code.last = UINT32_MAX;
    e->part.file = (char *)"part";
    e->part.tables = e->tables;
    e->part.tensors = e->tensors;
    e->part.n_tables = TABLES;
    for (int i = 0; i < TABLES; i++) {
        trireme__checkpoint__table__init(e->tables[i] = &e->table[i]);
        e->table[i].name = (char *)(uintptr_t)names[i];
        e->table[i].shard_count = 1024;
    }
    add(e, "w", 0, 3, 4, 0, -1);
    add(e, "b", 0, 5, 8, 64, 2);
    add(e, "b", 0, 7, 24, 128, 0);
    add(e, "b", 1023, 1LL << 33, 24, 320, 0);
    add(e, "b", 1023, 9, 11, (24ULL << 33) + 320, 4);
    add(e, "a", 3, 2, 24, (24ULL << 33) + 1024, 0);
    add(e, "a", 4, 0, 24, (24ULL << 33) + 2048, 1);
    add(e, "a", 2, 1, 24, (24ULL << 33) + 4096, 0);
    add(e, "c", 2, 1, 24, (24ULL << 33) + 8192, 0);
}

TEST(entries_come_back_as_they_were)
{
    example e;
    size_t  size;

    make(&e);
    uint8_t *bytes = tr_part_pack(&size, &e.part);
    tr_part *part = tr_part_parse(bytes, size);
    assert_non_null(part);
    assert_int_equal(part->n_tensors, ENTRIES);
    for (size_t i = 0; i < ENTRIES; i++) {
        const tr_part_tensor *got = part->tensors[i], *want = e.tensors[i];
        assert_string_equal(got->name, want->name);
        assert_true(got->kind == want->kind && got->dtype == want->dtype && got->offset == want->offset && got->bytes == want->bytes);
        assert_true(got->has_shard == want->has_shard && got->shard == want->shard && got->candidates == want->candidates);
        assert_true(got->removed == want->removed && !memcmp(got->dims, want->dims, 2 * sizeof *got->dims));
        assert_true(!got->code == !want->code);
        if (got->code)
            assert_true(got->code->first_key == -7 && got->code->key_bits == 40 && got->code->last == UINT32_MAX);
    }
    for (int i = 0; i < TABLES; i++)
        assert_false(part->tables[i]->has_shards);
    tr_part_free(part);
    free(bytes);
}

TEST(an_entry_of_a_list_takes_few_bytes)
{
    static tr_part_tensor tensor[1024], *tensors[1024];
    static int64_t        dims[2] = {30, 48};
    example               e;
    size_t                size;

    make(&e);
    for (uint32_t i = 0; i < 1024; i++) {
        trireme__checkpoint__tensor__init(tensors[i] = &tensor[i]);
        tensor[i].name = (char *)"a";
        tensor[i].kind = TRIREME__CHECKPOINT__KIND__TABLE;
        tensor[i].dtype = TR_UINT8;
        tensor[i].dims = dims;
        tensor[i].n_dims = 2;
        tensor[i].has_shard = true;
        tensor[i].shard = i;
        tensor[i].offset = i * 1472ULL;
        tensor[i].bytes = 1440;
    }
    e.part.tensors = tensors;
    e.part.n_tensors = 1024;
    free(tr_part_pack(&size, &e.part));
    assert_true(size < 1024 * 5);
}

TEST(damaged_lists_are_refused)
{
    static const struct {
        const char *bytes;
        size_t      size;
    } wrong[] = {
        {"\x00\x01\x18", 3},                           /* it ends in an entry */
        {"\x80\x40\x01\x18\x00", 5},                   /* shard 1024 */
        {"\x00\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x18\x00", 13},               /* a negative number of rows */
        {"\x00\xff\xff\xff\xff\xff\xff\xff\xff\x7f\x18\x00", 12},                   /* too many bytes */
        {"\x00\x01\x18\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 13},               /* an offset beyond all files */
        {"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 12},                   /* a number of more than 64 bits */
    };

    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        example e;
        make(&e);
        e.part.n_tensors = 0;
        e.table[0].has_shards = true;
        e.table[0].shards = (ProtobufCBinaryData){wrong[i].size, (uint8_t *)(uintptr_t)wrong[i].bytes};
        const size_t size = trireme__checkpoint__part__get_packed_size(&e.part);
        uint8_t     *bytes = malloc(size);
        trireme__checkpoint__part__pack(&e.part, bytes);
        assert_null(tr_part_parse(bytes, size));
        assert_non_null(strstr(tr_error(), "the list of shards of table 'a' of part is damaged"));
        free(bytes);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(entries_come_back_as_they_were),
        cmocka_unit_test(an_entry_of_a_list_takes_few_bytes),
        cmocka_unit_test(damaged_lists_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
