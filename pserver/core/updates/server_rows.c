/* server_rows.c - see server_rows.h. */
#include "pserver/core/updates/server_rows.h"

#include "framework/base/memory.h"
#include "pserver/core/updates/server_row_pulls.h"
#include "pserver/core/updates/server_streams.h"
#include "storage/table/table.h"

#include <stdlib.h>
#include <string.h>

/* A piece of a table's gradient, until its step is settled. */
typedef struct piece {
    struct piece *next;
    uint64_t      step;
    uint32_t      table;
    double        weight;
    int64_t       count;
    uint8_t      *payload;            /* keys, then values; a buffer of the pool, or NULL */
    bool          has_hints;          /* its rows were pulled, and looked up then (rows_merge.h) */
    uint32_t      hint[];
} piece;

/* The sum of a host group's rows of one table, as its carrier has sent it (carrier.h), until its step is settled. It is used in the place
 * of what the group's trainers send themselves. */
typedef struct sum {
    struct sum *next;
    uint64_t    step;
    uint32_t    table;
    int64_t     count;
    uint8_t    *payload;              /* as of a piece */
} sum;

/* The gradients of rows that a trainer has sent. */
typedef struct rows_of {
    piece    *pieces, **pieces_end;   /* of steps that are not settled, in order */
    uint64_t *arrived;                /* of each table: pieces of the step after the last ended one */
    bool     *has_all;                /* of each table: all pieces of that step are here */
    sum      *sums;                   /* of the first trainer of a group */
} rows_of;

struct tr__rows {
    rows_of        *of;               /* the gradients of each trainer */
    tr_rows_update *update;           /* of each table: for the update that is being applied */
    tr_rows_part  **part;
    uint64_t       *part_capacity;
};

static rows_of *rows_of_trainer(const tr_server *server, const tr__trainer *trainer)
{
    return &server->rows->of[trainer->index];
}

/* == life ===================================================================================== */

static tr_status check_table(const tr_server *server, const Trireme__Pserver__Table *t)
{
    const bool has_type = t->dtype == TR_FP32 || t->dtype == TR_FP16 || t->dtype == TR_BF16;

    if (!has_type || t->width < 1 || t->width > 65536)
        return tr_fail(TR_EFORMAT, "%s: table '%s' has rows of %lld %s", tr_roster_name(server->roster, server->roster->self),
                       t->name, (long long)t->width, tr_dtype_name((tr_dtype)t->dtype));
    return TR_OK;
}

tr_status tr__rows_new(tr_server *server)
{
    const Trireme__Pserver__Setup *setup = server->setup;
    tr__rows                      *r = server->rows = tr__must_alloc(sizeof *r);

    server->table = tr__must_array(setup->n_tables + 1, sizeof *server->table);
    r->of = tr__must_array((size_t)server->trainer_count, sizeof *r->of);
    r->update = tr__must_array(setup->n_tables + 1, sizeof *r->update);
    r->part = tr__must_array(setup->n_tables + 1, sizeof *r->part);
    r->part_capacity = tr__must_array(setup->n_tables + 1, sizeof *r->part_capacity);
    for (int i = 0; i < server->trainer_count; i++) {
        rows_of *of = &r->of[i];
        of->pieces_end = &of->pieces;
        of->arrived = tr__must_array(setup->n_tables + 1, sizeof *of->arrived);
        of->has_all = tr__must_array(setup->n_tables + 1, sizeof *of->has_all);
    }
    for (size_t i = 0; i < setup->n_tables; i++) {
        const Trireme__Pserver__Table *t = setup->tables[i];
        TR_TRY(check_table(server, t));
        const tr_table_config config = {.dtype = (tr_dtype)t->dtype, .width = t->width, .states = (int)t->n_state_values};
        server->table[i] = (tr__table){t->width, tr_table_row_bytes(&config), tr_table_stride(&config)};
        server->table_count++;
    }
    return TR_OK;
}

static void free_piece(tr_server *server, piece *p)
{
    tr__server_buffer_free(server, p->payload);
    free(p);
}

/* Free the gradients of steps up to `step`. */
static void forget_pieces(tr_server *server, rows_of *of, uint64_t step)
{
    while (of->pieces && of->pieces->step <= step) {
        piece *oldest = of->pieces;
        of->pieces = oldest->next;
        free_piece(server, oldest);
    }
    if (!of->pieces)
        of->pieces_end = &of->pieces;
}

static void forget_sums(tr_server *server, rows_of *of, uint64_t step)
{
    for (sum **at = &of->sums; *at;) {
        sum *one = *at;
        if (one->step > step) {
            at = &one->next;
            continue;
        }
        *at = one->next;
        tr__server_buffer_free(server, one->payload);
        free(one);
    }
}

void tr__rows_free(tr_server *server)
{
    tr__rows *r = server->rows;

    if (!r)
        return;
    for (uint32_t i = 0; i < server->table_count; i++)
        free(r->part[i]);
    for (int i = 0; i < server->trainer_count; i++) {
        rows_of *of = &r->of[i];
        forget_pieces(server, of, UINT64_MAX);
        forget_sums(server, of, UINT64_MAX);
        free(of->arrived);
        free(of->has_all);
    }
    free(r->of);
    free(r->part);
    free(r->part_capacity);
    free(r->update);
    free(r);
}

/* == gradients in ============================================================================= */

/* A group's sum of rows of that table in that step; NULL: none has come. */
static const sum *sum_of_group(const tr_server *server, const tr__trainer *trainer, uint32_t table, uint64_t step)
{
    const sum *at = server->rows->of[server->roster->group_first[trainer->index]].sums;

    while (at && (at->table != table || at->step != step))
        at = at->next;
    return at;
}

static tr_status check_row_bytes(const tr_server *server, const tr__trainer *trainer, const tr_wire *wire)
{
    const tr_form_push_rows *push = &wire->push_rows;

    if (push->table >= server->table_count)
        return tr_fail(TR_EFORMAT, "%s pushes rows of table %u; there are %u", tr__server_trainer_name(server, trainer),
                       push->table, server->table_count);
    const tr__table *table = &server->table[push->table];
    if (wire->bytes % (sizeof(int64_t) + (uint64_t)table->width * sizeof(float)))
        return tr_fail(TR_EFORMAT, "%s pushes %llu bytes to table '%s', which are no rows of %lld values",
                       tr__server_trainer_name(server, trainer), (unsigned long long)wire->bytes,
                       server->setup->tables[push->table]->name, (long long)table->width);
    return TR_OK;
}

tr_status tr__rows_take_sum(tr_server *server, const tr__trainer *first, const tr_wire *wire, uint8_t *payload)
{
    const tr_form_push_rows *push = &wire->push_rows;
    const tr_roster         *roster = server->roster;
    rows_of                 *of = rows_of_trainer(server, first);
    const bool is_group = roster->group_first[first->index] == first->index && roster->group_end[first->index] > first->index + 1;
    tr_status  status = check_row_bytes(server, first, wire);

    if (status == TR_OK && (!is_group || server->policy.gathers_per_trainer))
        status = tr_fail(TR_EFORMAT, "%s pushes the sum of its host's trainers, which it must not", tr__server_trainer_name(server, first));
    if (status != TR_OK || push->piece || push->step <= first->settled || sum_of_group(server, first, push->table, push->step)) {
        tr__server_buffer_free(server, payload);
        return status;
    }
    sum *one = tr__must_bytes(sizeof *one);
    const uint64_t row = sizeof(int64_t) + (uint64_t)server->table[push->table].width * sizeof(float);
    *one = (sum){of->sums, push->step, push->table, (int64_t)(wire->bytes / row), payload};
    of->sums = one;
    return TR_OK;
}

static tr_status check_push(const tr_server *server, const tr__trainer *trainer, const tr_wire *wire)
{
    const tr_form_push_rows *push = &wire->push_rows;
    const rows_of           *of = rows_of_trainer(server, trainer);

    TR_TRY(tr__server_check_step(server, trainer, wire, trainer->ended + 1));
    TR_TRY(check_row_bytes(server, trainer, wire));
    if (push->part != TR_PART_OWN && (wire->bytes || !sum_of_group(server, trainer, push->table, push->step)))
        return tr_fail(TR_EFORMAT, "%s pushes rows of '%s' in a sum of its host's trainers, which has not come",
                       tr__server_trainer_name(server, trainer), server->setup->tables[push->table]->name);
    if (of->has_all[push->table])
        return tr_fail(TR_EPEER, "%s pushed rows of '%s' twice in step %llu", tr__server_trainer_name(server, trainer),
                       server->setup->tables[push->table]->name, (unsigned long long)trainer->ended + 1);
    if (push->piece != of->arrived[push->table] || push->piece >= push->pieces)
        return tr_fail(TR_EFORMAT, "%s pushes piece %u of %u of rows of '%s', of which %llu came",
                       tr__server_trainer_name(server, trainer), push->piece, push->pieces,
                       server->setup->tables[push->table]->name, (unsigned long long)of->arrived[push->table]);
    return TR_OK;
}

static tr_status on_push(tr_server *server, tr__trainer *trainer, const tr_wire *wire, uint8_t *payload, bool is_owned)
{
    const tr_form_push_rows *push = &wire->push_rows;
    rows_of                 *of = rows_of_trainer(server, trainer);

    if (tr__server_has_ended(trainer, push->step)) {
        tr__server_buffer_free(server, is_owned ? payload : NULL);
        return TR_OK;
    }
    TR_TRY(check_push(server, trainer, wire));
    const uint64_t row = sizeof(int64_t) + (uint64_t)server->table[push->table].width * sizeof(float);
    const int64_t  count = (int64_t)(wire->bytes / row);
    piece         *p = tr__must_bytes(sizeof *p + (size_t)count * sizeof *p->hint);
    if (!is_owned && wire->bytes)
        payload = memcpy(tr__server_buffer_new(server, wire->bytes), payload, wire->bytes);
    *p = (piece){.step = push->step, .table = push->table, .weight = push->weight, .count = count,
                 .payload = is_owned || wire->bytes ? payload : NULL};
    p->has_hints = tr__row_pulls_take_hints(server, trainer, push->table, push->piece == 0, p->payload, p->hint, count);
    *of->pieces_end = p;
    of->pieces_end = &p->next;
    of->has_all[push->table] = ++of->arrived[push->table] == push->pieces;
    return TR_OK;
}

const char *tr__rows_first_missing(const tr_server *server, const tr__trainer *trainer)
{
    for (uint32_t i = 0; i < server->table_count; i++)
        if (!rows_of_trainer(server, trainer)->has_all[i])
            return server->setup->tables[i]->name;
    return NULL;
}

void tr__rows_ended(tr_server *server, const tr__trainer *trainer)
{
    rows_of *of = rows_of_trainer(server, trainer);

    memset(of->arrived, 0, server->table_count * sizeof *of->arrived);
    memset(of->has_all, 0, server->table_count * sizeof *of->has_all);
}

void tr__rows_abandon(tr_server *server, const tr__trainer *trainer)
{
    rows_of *of = rows_of_trainer(server, trainer);
    piece  **at = &of->pieces;

    while (*at && (*at)->step <= trainer->ended)
        at = &(*at)->next;
    of->pieces_end = at;
    while (*at) {
        piece *oldest = *at;
        *at = oldest->next;
        free_piece(server, oldest);
    }
    tr__rows_ended(server, trainer);
}

uint64_t tr__rows_stored(const tr_server *server, const tr__trainer *trainer)
{
    uint64_t count = 0;

    for (const piece *p = rows_of_trainer(server, trainer)->pieces; p; p = p->next)
        count++;
    return count;
}

static void list(tr__rows *r, uint32_t table, const tr_rows_part *one)
{
    tr_rows_update *update = &r->update[table];
    uint64_t       *capacity = &r->part_capacity[table];
    tr_rows_part  **part = &r->part[table];

    if ((uint64_t)update->count == *capacity) {
        *capacity = *capacity ? 2 * *capacity : 16;
        *part = tr__must_realloc(*part, *capacity * sizeof **part);
    }
    (*part)[update->count++] = *one;
    update->part = *part;
}

static tr_rows_part part_of(int trainer, int group, double weight, int64_t count, const uint8_t *payload)
{
    const float *values = count ? (const float *)(const void *)(payload + count * (int64_t)sizeof(int64_t)) : NULL;

    return (tr_rows_part){trainer, weight, count, (const int64_t *)(const void *)payload, values, true, .group = group};
}

/* List a piece of a trainer's gradient. Where the sum of its group has come, all of the group's rows are in that, which is listed with the
 * first piece of the first trainer. */
static void list_piece(tr_server *server, const tr__trainer *trainer, piece *p)
{
    tr__rows     *r = server->rows;
    const int     group = server->policy.gathers_per_trainer ? 0 : server->roster->group_first[trainer->index];
    const sum    *all = server->policy.gathers_per_trainer ? NULL : sum_of_group(server, trainer, p->table, p->step);
    tr_rows_part  part = part_of(trainer->index, group, p->weight, all ? 0 : p->count, p->payload);
    const int     listed = r->update[p->table].count;
    const bool    is_first = !listed || r->part[p->table][listed - 1].group != group;

    part.hints = p->has_hints || part.count == 0 ? p->hint : NULL;
    list(r, p->table, &part);
    if (all && is_first) {
        part = part_of(trainer->index, group, p->weight, all->count, all->payload);
        part.is_sum = true;
        list(r, p->table, &part);
    }
}

const tr_rows_update *tr__rows_update(tr_server *server, const bool *takes_part)
{
    tr__rows *r = server->rows;

    for (uint32_t i = 0; i < server->table_count; i++)
        r->update[i].count = 0;
    for (int i = 0; i < server->trainer_count; i++)
        for (piece *p = takes_part[i] ? r->of[i].pieces : NULL; p; p = p->next)
            if (p->step == server->trainer[i].settled + 1)
                list_piece(server, &server->trainer[i], p);
    return r->update;
}

void tr__rows_forget_settled(tr_server *server)
{
    for (int i = 0; server->rows && i < server->trainer_count; i++) {
        forget_pieces(server, &server->rows->of[i], server->trainer[i].settled);
        forget_sums(server, &server->rows->of[i], server->trainer[i].settled);
    }
}

const tr__handler tr__rows_handlers[] = {{TR_WIRE_PUSH_ROWS, on_push, NULL}, {0}};
