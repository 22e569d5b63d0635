/* fuzz_checkpoint.c - manifests from outside: whatever passes the checks is packed and parsed again. The checksum is made
 * to fit, so that what lies after it is tried, too.
 *
 * An input that begins with "CHAIN" is a list of changes to the manifest of a chain: a full checkpoint and some of changes, of exact and of
 * coded rows, with removed keys, keys that wait, and shards that are inherited. Bytes of such a manifest that change at random seldom pass the
 * first checks; numbers that change in its message do. The files of the chain stay as they were, and are read as the manifest says. */
#include "pserver/wire/wire.h"
#include "storage/checkpoint/checkpoint.h"
#include "storage/util/crc32c.h"
#include "storage/util/little_endian.h"
#include "tests/support/expect.h"
#include "tests/support/kept_table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int    LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed);

static void must(bool holds)
{
    if (!holds)
        abort();
}

static void pack_and_parse(const tr_manifest *manifest)
{
    tr_manifest *again = NULL;
    size_t       size;
    uint8_t     *bytes = tr_manifest_pack(&size, manifest);

    must(tr_manifest_parse(&again, bytes, size, "again") == TR_OK);
    must(again->n_parts == manifest->n_parts && again->step == manifest->step);
    tr_manifest_free(again);
    free(bytes);
}

/* == a chain ===================================================================================== */

enum { STEPS = 6, MARK = 5, RECORD = 12 };

static char    *newest;                   /* the folder of the last checkpoint */
static uint8_t *whole;                    /* its manifest */
static size_t   whole_size;

static void save(const char *folder, const tr_table *t, int64_t step, tr_checkpoint_base *base)
{
    const tr_checkpoint_facts facts = {.step = step, .mode = "local", .base = *base, .rows = step % 2 ? TR_ROWS_INT8 : TR_ROWS_EXACT};
    const tr_job_table        words = kept_about(t, "words", step);
    const tr_checkpoint_item  item = {.name = "words", .kind = TR_STATE_TABLE, .data = &words};

    base->step = step;
    must(tr_checkpoint_save(&base->number, folder, &facts, 1, &item, 0) == TR_OK);
}

static void make_chain(void)
{
    const char        *folder = test_path("chain");
    tr_table_config    config = kept_config_of(2);
    tr_checkpoint_base base = {0};
    tr_manifest       *m = NULL;

    config.max_age = 2;
    tr_table *t = kept_make(&config, 0, TR_SHARDS);
    for (int i = 0; i < KEPT_KEYS; i++)
        kept_key[i] = (int64_t)i << (i % 50);
    for (int64_t step = 1; step <= STEPS; step++) {
        kept_touch(t, (uint64_t)step, step * 7, 30);
        for (uint64_t shard = 0; shard < TR_SHARDS; shard++)
            must(tr_table_evict(t, shard, NULL) == TR_OK);
        save(folder, t, step, &base);
    }
    tr_table_free(t);
    newest = tr_checkpoint_path(folder, STEPS);
    must(tr_manifest_read(&m, newest) == TR_OK);
    whole = tr_manifest_pack(&whole_size, m);
    tr_manifest_free(m);
}

/* -- changes: a record says which message, which field of it, and what becomes of it ------------------------ */

/* A message of the manifest: one of its parts, their tensors and tables, codes, or itself. */
static ProtobufCMessage *pick(tr_manifest *m, const uint8_t *record)
{
    tr_part       *part = m->n_parts ? m->parts[record[1] % m->n_parts] : NULL;
    const size_t   which = record[2] | (size_t)record[3] << 8;
    tr_part_tensor *t = part && part->n_tensors ? part->tensors[which % part->n_tensors] : NULL;

    switch (record[0] % 8) {
    case 0:
        return &m->base;
    case 1:
        return part ? &part->base : NULL;
    case 2:
        return part && part->n_tables ? &part->tables[0]->base : NULL;
    case 3: case 4:
        return t && t->code ? &t->code->base : NULL;
    default:
        return t ? &t->base : NULL;
    }
}

static uint64_t changed(uint64_t was, uint8_t how, uint64_t number)
{
    switch (how % 4) {
    case 0:
        return was + (number % 16) - 8;
    case 1:
        return was ^ (uint64_t)1 << number % 64;
    case 2:
        return number % 4;
    default:
        return number;
    }
}

/* Change a number, or its presence. Texts and lists stay. */
static void change_field(ProtobufCMessage *message, const uint8_t *record)
{
    const ProtobufCMessageDescriptor *about = message->descriptor;
    const ProtobufCFieldDescriptor   *field = &about->fields[record[4] % about->n_fields];
    const ProtobufCType type = field->type;
    const bool  is_long = type == PROTOBUF_C_TYPE_UINT64 || type == PROTOBUF_C_TYPE_INT64 || type == PROTOBUF_C_TYPE_FIXED64 ||
                         type == PROTOBUF_C_TYPE_SFIXED64 || type == PROTOBUF_C_TYPE_DOUBLE;
    const bool  is_short = type == PROTOBUF_C_TYPE_UINT32 || type == PROTOBUF_C_TYPE_ENUM || type == PROTOBUF_C_TYPE_FLOAT;
    char       *at = (char *)message + field->offset;
    uint64_t    number = 0, value = 0;
    const size_t size = is_long ? 8 : is_short ? 4 : sizeof(protobuf_c_boolean);

    if (field->label == PROTOBUF_C_LABEL_REPEATED || (!is_long && !is_short && type != PROTOBUF_C_TYPE_BOOL))
        return;
    memcpy(&number, record + 6, 6);
    memcpy(&value, at, size);
    value = changed(value, record[5], number);
    if (type == PROTOBUF_C_TYPE_BOOL)
        value &= 1;
    memcpy(at, &value, size);
    if (field->label == PROTOBUF_C_LABEL_OPTIONAL)
        *(protobuf_c_boolean *)(void *)((char *)message + field->quantifier_offset) = record[5] % 8 != 7;
}

/* A list loses an entry, or two change places. */
static void change_list(tr_manifest *m, const uint8_t *record)
{
    tr_part     *part = m->n_parts ? m->parts[record[1] % m->n_parts] : NULL;
    const size_t a = record[2] | (size_t)record[3] << 8, b = record[4] | (size_t)record[5] << 8;

    if (record[6] % 3 == 0 && m->n_parts) {
        tr_part *other = m->parts[a % m->n_parts];
        m->parts[a % m->n_parts] = m->parts[b % m->n_parts];
        m->parts[b % m->n_parts] = other;
    } else if (part && part->n_tensors) {
        tr_part_tensor *other = part->tensors[a % part->n_tensors];
        part->tensors[a % part->n_tensors] = part->tensors[b % part->n_tensors];
        part->tensors[b % part->n_tensors] = other;
        if (record[6] % 3 == 1)
            trireme__checkpoint__tensor__free_unpacked(part->tensors[--part->n_tensors], NULL);
    }
}

static void read_all(const char *folder)
{
    tr_checkpoint *c = NULL;
    tr_scope      *scope = tr_scope_new(NULL);
    tr_job_table   about;
    int64_t        rows, bytes;
    void          *read = NULL;

    if (tr_checkpoint_open(&c, folder) != TR_OK) {
        tr_scope_free(scope);
        return;
    }
    for (int i = 0; i < tr_checkpoint_tables(c); i++) {
        (void)tr_checkpoint_load_table(scope, c, i);
        tr_checkpoint_table(&about, &rows, c, i);
        if (rows < 1 << 16 && tr_checkpoint_read_table(&read, &bytes, c, i, 0, TR_SHARDS) == TR_OK)
            tr_free(read);
    }
    tr_checkpoint_free(c);
    tr_scope_free(scope);
}

static void read_changed_chain(const uint8_t *input, size_t size)
{
    tr_manifest *m = NULL;
    char        *path;

    if (!newest)
        make_chain();
    must(tr_manifest_parse(&m, whole, whole_size, "whole") == TR_OK);
    for (; size >= RECORD; input += RECORD, size -= RECORD) {
        ProtobufCMessage *message = pick(m, input);
        if (input[0] >= 224)
            change_list(m, input);
        else if (message)
            change_field(message, input);
    }
    size_t   packed_size;
    uint8_t *packed = tr_manifest_pack(&packed_size, m);
    tr_manifest_free(m);
    must(asprintf(&path, "%s/manifest", newest) > 0);
    FILE *file = fopen(path, "wb");
    must(file && fwrite(packed, packed_size, 1, file) == 1 && fclose(file) == 0);
    free(path);
    free(packed);
    read_all(newest);
}

/* == one input =================================================================================== */

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
    tr_manifest *manifest = NULL;
    uint8_t     *bytes;

    if (size >= MARK && !memcmp(input, "CHAIN", MARK)) {
        read_changed_chain(input + MARK, size - MARK);
        return 0;
    }
    bytes = malloc(size + 1);
    memcpy(bytes, input, size);
    for (int round = 0; round < 2; round++) {
        if (tr_manifest_parse(&manifest, bytes, size, "input") == TR_OK) {
            pack_and_parse(manifest);
            tr_manifest_free(manifest);
        }
        if (size < TR_MANIFEST_HEADER)
            break;
        tr_put_u32(bytes + 12, tr_crc32c(0, bytes + TR_MANIFEST_HEADER, size - TR_MANIFEST_HEADER));
    }
    free(bytes);
    return 0;
}

static unsigned draw(unsigned *seed)
{
    *seed = *seed * 1103515245 + 12345;
    return *seed >> 8;
}

/* Some records of changes; or some bytes of another input are others. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
    const size_t records = 1 + draw(&seed) % 3;

    if (draw(&seed) % 8 == 0 && size) {
        for (unsigned i = 0; i < 4; i++)
            data[draw(&seed) % size] = (uint8_t)draw(&seed);
        return size;
    }
    if (max_size < MARK + records * RECORD)
        return size;
    memcpy(data, "CHAIN", MARK);
    for (size_t i = 0; i < records * RECORD; i++)
        data[MARK + i] = (uint8_t)draw(&seed);
    for (size_t i = 0; i < records; i++)
        memset(data + MARK + i * RECORD + 7, 0, draw(&seed) % 6);     /* small numbers pass more checks */
    return MARK + records * RECORD;
}
