/* job_desc.c - see job_desc.h. Each message has a pair of functions, one for each direction. */
#include "trainer/saved_job/job_desc.h"

#include <stdlib.h>
#include <string.h>

#include "framework/base/memory.h"
#include "framework/base/name.h"

static void *keep(tr_job_desc_memory *memory, size_t count, size_t size)
{
    if (memory->count == memory->capacity) {
        memory->capacity = memory->capacity ? 2 * memory->capacity : 64;
        memory->item = tr__must_realloc(memory->item, (size_t)memory->capacity * sizeof *memory->item);
    }
    return memory->item[memory->count++] = tr__must_alloc(count * size);
}

void tr_job_desc_free(tr_job_desc_memory *memory)
{
    for (int i = 0; i < memory->count; i++)
        free(memory->item[i]);
    free(memory->item);
    *memory = (tr_job_desc_memory){0};
}

/* A list of pointers to `count` messages of a type, made by its init function. */
#define NEW_MESSAGES(list, memory, count, type, init)                       \
    do {                                                                    \
        type *const items_ = keep(memory, (size_t)(count), sizeof(type));   \
        (list) = keep(memory, (size_t)(count), sizeof(type *));             \
        for (int i_ = 0; i_ < (count); i_++) {                              \
            init(&items_[i_]);                                              \
            (list)[i_] = &items_[i_];                                       \
        }                                                                   \
    } while (0)

static char *text(const char *from)
{
    return (char *)(uintptr_t)from;
}

static char **texts(const char *const *from)
{
    return (char **)(uintptr_t)from;
}

static ProtobufCBinaryData bytes(const tr_job_program *program)
{
    return (ProtobufCBinaryData){program->size, (uint8_t *)(uintptr_t)program->bytes};
}

/* == data ===================================================================================== */

static void write_slot(Trireme__Trainer__Slot *to, const tr_data_slot *slot)
{
    to->name = text(slot->name);
    to->dtype = (uint32_t)slot->dtype;
    to->n_dims = (size_t)slot->rank;
    to->dims = (int64_t *)(uintptr_t)slot->dims;
    to->lod_level = (uint32_t)slot->lod_level;
    to->n_columns = (size_t)slot->column_count;
    to->columns = texts(slot->columns);
    to->has_hash_buckets = slot->hash_buckets != 0;
    to->hash_buckets = slot->hash_buckets;
    to->has_missing = slot->has_missing;
    to->missing = slot->missing;
}

static void read_slot(tr_data_slot *to, const Trireme__Trainer__Slot *slot)
{
    *to = (tr_data_slot){
        .name = slot->name, .dtype = (tr_dtype)slot->dtype, .rank = (int)slot->n_dims, .dims = slot->dims,
        .lod_level = (int)slot->lod_level, .column_count = (int)slot->n_columns,
        .columns = (const char *const *)slot->columns, .hash_buckets = slot->hash_buckets,
        .has_missing = slot->has_missing, .missing = slot->missing};
}

static Trireme__Trainer__Data *write_data(tr_job_desc_memory *memory, const tr_saved_job_desc *desc)
{
    const tr_data_spec     *spec = &desc->data;
    Trireme__Trainer__Data *to = keep(memory, 1, sizeof *to);

    trireme__trainer__data__init(to);
    to->format = (uint32_t)spec->format;
    to->n_slots = (size_t)spec->slot_count;
    NEW_MESSAGES(to->slots, memory, spec->slot_count, Trireme__Trainer__Slot, trireme__trainer__slot__init);
    for (int i = 0; i < spec->slot_count; i++)
        write_slot(to->slots[i], &spec->slots[i]);
    to->n_files = (size_t)spec->file_count;
    to->files = texts(spec->files);
    to->n_columns = (size_t)spec->column_count;
    to->columns = texts(spec->columns);
    to->pipe_command = text(spec->pipe_command);
    to->batch_size = spec->batch_size;
#define PUT(field) to->has_##field = true, to->field = spec->field
    PUT(drop_last), PUT(is_unordered), PUT(bad_lines), PUT(has_header), PUT(first_index), PUT(block_bytes), PUT(task_bytes);
#undef PUT
    to->has_threads = to->has_delimiter = to->has_split = to->has_in_memory = true;
    to->threads = (uint32_t)spec->threads;
    to->delimiter = (uint8_t)spec->delimiter;
    to->split = (uint32_t)spec->split;
    to->in_memory = desc->in_memory;
    to->has_shuffle_seed = desc->loop.is_shuffled;
    to->shuffle_seed = desc->loop.shuffle_seed;
    return to;
}

static tr_status read_data(tr_saved_job_desc *out, tr_job_desc_memory *memory, const Trireme__Trainer__Data *data)
{
    tr_data_slot *slots = keep(memory, data->n_slots, sizeof *slots);

    for (size_t i = 0; i < data->n_slots; i++) {
        if (data->slots[i]->n_dims > TR_MAX_RANK || data->slots[i]->dtype > INT8_MAX || data->slots[i]->lod_level > INT8_MAX)
            return tr_fail(TR_EFORMAT, "slot %zu of the data has %zu dimensions of type %u", i, data->slots[i]->n_dims,
                           data->slots[i]->dtype);
        read_slot(&slots[i], data->slots[i]);
    }
    if (data->format >= TR_DATA_FORMAT_COUNT || data->split >= TR_SPLIT_COUNT || data->threads > 256 || data->delimiter > 127)
        return tr_fail(TR_EFORMAT, "the data have the format %u, split %u, %u threads, delimiter %u", data->format, data->split,
                       data->threads, data->delimiter);
    out->data = (tr_data_spec){
        .format = (tr_data_format)data->format, .slot_count = (int)data->n_slots, .slots = slots,
        .file_count = (int)data->n_files, .files = (const char *const *)data->files, .batch_size = data->batch_size,
        .drop_last = data->drop_last, .threads = (int)data->threads, .is_unordered = data->is_unordered,
        .bad_lines = data->bad_lines, .pipe_command = data->pipe_command, .delimiter = (char)data->delimiter,
        .has_header = data->has_header, .column_count = (int)data->n_columns,
        .columns = (const char *const *)data->columns, .first_index = data->first_index,
        .block_bytes = data->block_bytes, .split = (tr_data_split)data->split, .task_bytes = data->task_bytes};
    out->in_memory = data->in_memory;
    return TR_OK;
}

/* == training ================================================================================= */

static Trireme__Trainer__Training *write_training(tr_job_desc_memory *memory, const tr_loop_options *loop)
{
    Trireme__Trainer__Training *to = keep(memory, 1, sizeof *to);

    trireme__trainer__training__init(to);
    to->has_epochs = to->has_steps = to->has_report_every = to->has_threads = to->has_check_finite = true;
    to->epochs = loop->epochs;
    to->steps = loop->steps;
    to->report_every = loop->report_every;
    to->threads = (uint32_t)loop->threads;
    to->has_weight = loop->has_weight;
    to->weight = loop->weight;
    to->check_finite = loop->check_finite;
    to->has_lease = loop->lease != 0;
    to->lease = loop->lease;
    to->has_loss = loop->loss != 0;
    to->loss = (uint32_t)loop->loss;
    to->precision = loop->has_precision ? text(tr_precision_name(loop->precision)) : NULL;
    return to;
}

static Trireme__Trainer__Fetch **write_fetches(tr_job_desc_memory *memory, int count, const char *const *names,
                                               const char *const *labels)
{
    Trireme__Trainer__Fetch **list;

    NEW_MESSAGES(list, memory, count, Trireme__Trainer__Fetch, trireme__trainer__fetch__init);
    for (int i = 0; i < count; i++) {
        list[i]->name = text(names[i]);
        list[i]->label = text(labels ? labels[i] : names[i]);
    }
    return list;
}

static const char *const *read_fetches(tr_job_desc_memory *memory, size_t count, Trireme__Trainer__Fetch *const *fetches,
                                       bool is_labels)
{
    const char **list = keep(memory, count, sizeof *list);

    for (size_t i = 0; i < count; i++)
        list[i] = is_labels ? fetches[i]->label : fetches[i]->name;
    return list;
}

static tr_status read_training(tr_loop_options *to, tr_job_desc_memory *memory, const Trireme__Trainer__Job *message)
{
    const Trireme__Trainer__Training *from = message->training;
    tr_precision                      precision = TR_PRECISION_FLOAT32;

    if (from->threads > 256)
        return tr_fail(TR_EFORMAT, "the training has %u threads", from->threads);
    if (from->loss > message->n_fetches)
        return tr_fail(TR_EFORMAT, "the training's loss is fetch %u of %zu", from->loss, message->n_fetches);
    if (from->precision && tr_precision_parse(&precision, from->precision) != TR_OK)
        return tr_context(TR_EFORMAT, "in the training");
    *to = (tr_loop_options){.fetch_count = (int)message->n_fetches,
                            .fetches = read_fetches(memory, message->n_fetches, message->fetches, false),
                            .labels = read_fetches(memory, message->n_fetches, message->fetches, true), .loss = (int)from->loss,
                            .report_every = from->report_every, .epochs = from->epochs, .steps = from->steps, .threads = (int)from->threads,
                            .is_shuffled = message->data->has_shuffle_seed, .shuffle_seed = message->data->shuffle_seed,
                            .has_weight = from->has_weight, .weight = from->weight, .check_finite = from->check_finite,
                            .lease = from->lease, .has_precision = from->precision != NULL, .precision = precision};
    return TR_OK;
}

/* == partitions ===================================================================================== */

static void write_lists(Trireme__Trainer__Partition *to, tr_job_desc_memory *memory, const tr_partition *partition)
{
    const tr_job_spec *spec = &partition->spec;

    to->n_blocks = (size_t)spec->block_count;
    NEW_MESSAGES(to->blocks, memory, spec->block_count, Trireme__Trainer__Block, trireme__trainer__block__init);
    for (int i = 0; i < spec->block_count; i++) {
        const tr_job_block *b = &spec->blocks[i];
        Trireme__Trainer__Block *block = to->blocks[i];
        block->param = text(b->param);
        block->grad = text(b->grad);
        block->server = (uint32_t)b->server;
        block->dtype = (uint32_t)b->dtype;
        block->bytes = (uint64_t)b->bytes;
        block->has_exact = block->exact = b->is_exact;
        block->has_may_be_nan = block->may_be_nan = b->may_be_nan;
        block->source = text(partition->block_rows[i].source);
        block->begin = partition->block_rows[i].begin;
    }
    to->n_values = (size_t)spec->value_count;
    NEW_MESSAGES(to->values, memory, spec->value_count, Trireme__Trainer__Value, trireme__trainer__value__init);
    for (int i = 0; i < spec->value_count; i++) {
        Trireme__Trainer__Value *value = to->values[i];
        value->server = (uint32_t)spec->values[i].server;
        value->name = text(spec->values[i].name);
        value->source = text(partition->value_rows[i].source);
        value->has_begin = value->has_end = partition->value_rows[i].begin >= 0;
        value->begin = partition->value_rows[i].begin;
        value->end = partition->value_rows[i].end;
    }
    to->n_facts = (size_t)spec->fact_count;
    NEW_MESSAGES(to->facts, memory, spec->fact_count, Trireme__Trainer__Fact, trireme__trainer__fact__init);
    for (int i = 0; i < spec->fact_count; i++) {
        to->facts[i]->key = text(spec->facts[i].key);
        to->facts[i]->value = text(spec->facts[i].value);
    }
}

static void write_kept(Trireme__Trainer__Job *to, tr_job_desc_memory *memory, const tr_saved_job_desc *desc)
{
    to->n_states = (size_t)desc->variable_count;
    NEW_MESSAGES(to->states, memory, desc->variable_count, Trireme__Trainer__SavedState, trireme__trainer__saved_state__init);
    for (int i = 0; i < desc->variable_count; i++) {
        to->states[i]->name = text(desc->variables[i].name);
        to->states[i]->param = text(desc->variables[i].param);
        to->states[i]->kind = (uint32_t)desc->variables[i].kind;
    }
}

static tr_status read_states(tr_saved_job_desc *out, tr_job_desc_memory *memory, const Trireme__Trainer__Job *job)
{
    tr_checkpoint_variable *variables = keep(memory, job->n_states, sizeof *variables);

    for (size_t i = 0; i < job->n_states; i++) {
        if (job->states[i]->kind >= TR_STATE_KIND_COUNT)
            return tr_fail(TR_EFORMAT, "'%s' is of kind %u", job->states[i]->name, job->states[i]->kind);
        variables[i] = (tr_checkpoint_variable){
            .name = job->states[i]->name, .param = job->states[i]->param, .kind = (tr_state_kind)job->states[i]->kind};
    }
    out->variables = variables;
    out->variable_count = (int)job->n_states;
    return TR_OK;
}

static void write_partition(Trireme__Trainer__Partition *to, tr_job_desc_memory *memory, const tr_partition *partition,
                      const tr_loop_options *loop)
{
    to->mode = text(partition->spec.mode);
    to->compress = text(partition->spec.compress);
    to->compress_parameters = text(partition->spec.compress_parameters);
    to->on_nan = text(partition->spec.on_nan);
    to->has_cache_rows = to->has_cache_staleness = partition->spec.cache_rows != 0;
    to->cache_rows = partition->spec.cache_rows;
    to->cache_staleness = partition->spec.cache_staleness;
    to->trainer = bytes(&partition->trainer);
#define PUT(program) to->has_##program = partition->program.bytes != NULL, to->program = bytes(&partition->program)
    PUT(idle), PUT(prepare), PUT(begin), PUT(flush), PUT(after);
#undef PUT
    to->n_servers = (size_t)partition->spec.program_count;
    to->servers = keep(memory, to->n_servers, sizeof *to->servers);
    for (size_t i = 0; i < to->n_servers; i++)
        to->servers[i] = bytes(&partition->spec.programs[i]);
    write_lists(to, memory, partition);
    to->n_fetches = (size_t)loop->fetch_count;
    to->fetches = write_fetches(memory, loop->fetch_count, partition->fetches, loop->labels);
    to->n_tables = (size_t)partition->table_count;
    to->tables = texts(partition->tables);
    to->n_remote = (size_t)partition->remote_count;
    to->remote = texts(partition->remote);
}

static tr_job_program program_of(protobuf_c_boolean has, ProtobufCBinaryData data)
{
    return has ? (tr_job_program){data.data, data.len} : (tr_job_program){0};
}

static tr_status read_blocks(tr_partition *to, tr_job_desc_memory *memory, const Trireme__Trainer__Partition *partition)
{
    tr_job_block  *blocks = keep(memory, partition->n_blocks, sizeof *blocks);
    tr_partition_rows *rows = keep(memory, partition->n_blocks, sizeof *rows);

    for (size_t i = 0; i < partition->n_blocks; i++) {
        const Trireme__Trainer__Block *b = partition->blocks[i];
        if (b->server >= partition->n_servers || b->dtype > INT8_MAX || b->bytes > INT64_MAX || b->begin < 0)
            return tr_fail(TR_EFORMAT, "block '%s' of %llu bytes, from row %lld, is for server %u of %zu", b->param,
                           (unsigned long long)b->bytes, (long long)b->begin, b->server, partition->n_servers);
        blocks[i] = (tr_job_block){b->param, b->grad, (int)b->server, (tr_dtype)b->dtype, (int64_t)b->bytes, b->exact, b->may_be_nan};
        rows[i] = (tr_partition_rows){b->source, b->begin, -1};
    }
    to->spec.block_count = (int)partition->n_blocks;
    to->spec.blocks = blocks;
    to->block_rows = rows;
    return TR_OK;
}

static tr_status read_values(tr_partition *to, tr_job_desc_memory *memory, const Trireme__Trainer__Partition *partition)
{
    tr_job_value  *values = keep(memory, partition->n_values, sizeof *values);
    tr_partition_rows *rows = keep(memory, partition->n_values, sizeof *rows);

    for (size_t i = 0; i < partition->n_values; i++) {
        const Trireme__Trainer__Value *v = partition->values[i];
        if (v->server >= partition->n_servers || (v->has_begin && (v->begin < 0 || v->end < v->begin)))
            return tr_fail(TR_EFORMAT, "the first value of '%s', rows %lld to %lld, is for server %u of %zu", v->name,
                           (long long)v->begin, (long long)v->end, v->server, partition->n_servers);
        values[i] = (tr_job_value){.server = (int)v->server, .name = v->name};
        rows[i] = (tr_partition_rows){v->source, v->has_begin ? v->begin : -1, v->end};
    }
    to->spec.value_count = (int)partition->n_values;
    to->spec.values = values;
    to->value_rows = rows;
    return TR_OK;
}

static tr_status read_partition(tr_partition *to, tr_job_desc_memory *memory, const Trireme__Trainer__Partition *partition, int fetch_count)
{
    tr_job_program *servers = keep(memory, partition->n_servers, sizeof *servers);
    tr_job_fact    *facts = keep(memory, partition->n_facts, sizeof *facts);

    for (size_t i = 0; i < partition->n_servers; i++)
        servers[i] = program_of(true, partition->servers[i]);
    for (size_t i = 0; i < partition->n_facts; i++)
        facts[i] = (tr_job_fact){partition->facts[i]->key, partition->facts[i]->value};
    if (partition->n_fetches != (size_t)fetch_count)
        return tr_fail(TR_EFORMAT, "the programs for %zu servers fetch %zu variables, the job %d", partition->n_servers,
                       partition->n_fetches, fetch_count);
    *to = (tr_partition){
        .spec = {.mode = partition->mode, .compress = partition->compress, .compress_parameters = partition->compress_parameters,
                 .on_nan = partition->on_nan, .program_count = (int)partition->n_servers, .programs = servers,
                 .fact_count = (int)partition->n_facts, .facts = facts, .cache_rows = partition->cache_rows,
                 .cache_staleness = partition->cache_staleness},
        .trainer = program_of(true, partition->trainer), .idle = program_of(partition->has_idle, partition->idle),
        .prepare = program_of(partition->has_prepare, partition->prepare), .begin = program_of(partition->has_begin, partition->begin),
        .flush = program_of(partition->has_flush, partition->flush),
        .after = program_of(partition->has_after, partition->after),
        .fetches = read_fetches(memory, partition->n_fetches, partition->fetches, false),
        .table_count = (int)partition->n_tables, .tables = (const char *const *)partition->tables,
        .remote_count = (int)partition->n_remote, .remote = (const char *const *)partition->remote};
    TR_TRY(read_blocks(to, memory, partition));
    return read_values(to, memory, partition);
}

/* == names ==================================================================================== */

static tr_status check_names(size_t count, char *const *names)
{
    for (size_t i = 0; i < count; i++)
        TR_TRY(tr_name_check(names[i]));
    return TR_OK;
}

static tr_status check_partition(const Trireme__Trainer__Partition *partition)
{
    for (size_t i = 0; i < partition->n_blocks; i++)
        TR_TRY(check_names(3, (char *const[]){partition->blocks[i]->param, partition->blocks[i]->grad, partition->blocks[i]->source}));
    for (size_t i = 0; i < partition->n_values; i++)
        TR_TRY(check_names(2, (char *const[]){partition->values[i]->name, partition->values[i]->source}));
    for (size_t i = 0; i < partition->n_fetches; i++)
        TR_TRY(tr_name_check(partition->fetches[i]->name));
    TR_TRY(check_names(partition->n_tables, partition->tables));
    return check_names(partition->n_remote, partition->remote);
}

/* Check the variables that the job names beside its programs. */
static tr_status check_job(const Trireme__Trainer__Job *job)
{
    for (size_t i = 0; i < job->data->n_slots; i++)
        if (job->data->slots[i]->name)
            TR_TRY(tr_name_check(job->data->slots[i]->name));
    for (size_t i = 0; i < job->n_fetches; i++)
        TR_TRY(tr_name_check(job->fetches[i]->name));
    for (size_t i = 0; i < job->n_states; i++)
        TR_TRY(tr_name_check(job->states[i]->name));
    for (size_t i = 0; i < job->n_partitions; i++)
        TR_TRY(check_partition(job->partitions[i]));
    return check_names(job->n_saved, job->saved);
}

/* == jobs ===================================================================================== */

const Trireme__Trainer__Job *tr_job_desc_write(tr_job_desc_memory *memory, const tr_saved_job_desc *desc)
{
    Trireme__Trainer__Job *job = keep(memory, 1, sizeof *job);

    trireme__trainer__job__init(job);
    job->version = text(tr_version());
    job->startup = bytes(&desc->startup);
    job->main = bytes(&desc->main);
    job->data = write_data(memory, desc);
    job->training = write_training(memory, &desc->loop);
    job->n_fetches = (size_t)desc->loop.fetch_count;
    job->fetches = write_fetches(memory, desc->loop.fetch_count, desc->loop.fetches, desc->loop.labels);
    job->save_folder = text(desc->save_folder);
    job->n_saved = (size_t)desc->saved_count;
    job->saved = texts(desc->saved);
    write_kept(job, memory, desc);
    job->n_partitions = (size_t)desc->partition_count;
    NEW_MESSAGES(job->partitions, memory, desc->partition_count, Trireme__Trainer__Partition, trireme__trainer__partition__init);
    for (int i = 0; i < desc->partition_count; i++)
        write_partition(job->partitions[i], memory, &desc->partitions[i], &desc->loop);
    return job;
}

tr_status tr_job_desc_read(tr_saved_job_desc *out, tr_job_desc_memory *memory, const Trireme__Trainer__Job *message)
{
    tr_partition *partitions = keep(memory, message->n_partitions, sizeof *partitions);

    TR_TRY(check_job(message));
    *out = (tr_saved_job_desc){
        .startup = program_of(true, message->startup), .main = program_of(true, message->main),
        .save_folder = message->save_folder, .saved_count = (int)message->n_saved,
        .saved = (const char *const *)message->saved, .partition_count = (int)message->n_partitions, .partitions = partitions};
    TR_TRY(read_data(out, memory, message->data));
    TR_TRY(read_training(&out->loop, memory, message));
    TR_TRY(read_states(out, memory, message));
    for (size_t i = 0; i < message->n_partitions; i++)
        TR_TRY(read_partition(&partitions[i], memory, message->partitions[i], out->loop.fetch_count));
    return TR_OK;
}
