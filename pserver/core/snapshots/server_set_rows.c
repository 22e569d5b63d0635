#include "pserver/core/snapshots/server_set_rows.h"

#include "pserver/core/snapshots/server_replication.h"
#include "pserver/core/updates/server_streams.h"
#include "pserver/core/updates/server_updates.h"

tr_status tr__set_rows_check(const tr_server *server, const tr__trainer *trainer, uint32_t table)
{
    const char *name = tr__server_trainer_name(server, trainer);

    if (!server->setup || table >= server->table_count)
        return tr_fail(TR_EPEER, "%s sent rows of table %u; there are %u", name, table, server->table_count);
    if (!server->is_running && trainer->index != 0)
        return tr_fail(TR_EPEER, "%s sent rows of table %u before the first step; trainer 0 may", name, table);
    return TR_OK;
}

tr_status tr__set_rows_take(bool *replicates, tr_server *server, const tr__trainer *trainer, const tr_form_write_rows *what,
                            const void *rows, uint64_t bytes)
{
    if (server->is_running && tr__updates_is_updating(server))
        return tr_fail(TR_EPEER,
                       "%s sets rows of table '%s' after step %llu while an update is made: all trainers must come together first",
                       tr__server_trainer_name(server, trainer), server->setup->tables[what->table]->name, (unsigned long long)what->step);
    TR_TRY(server->store.write_rows(server->store.self, what, rows, bytes));
    *replicates = server->is_running && tr__replication_set_rows(server, what, rows, bytes);
    return TR_OK;
}

static tr_status on_write(tr_server *server, tr__trainer *trainer, const tr_wire *wire, uint8_t *payload, bool is_owned)
{
    bool replicates = false;

    (void)is_owned;
    TR_TRY(tr__set_rows_check(server, trainer, wire->write_rows.table));
    TR_TRY(tr__set_rows_take(&replicates, server, trainer, &wire->write_rows, payload, wire->bytes));
    if (replicates && !tr__stream_is_open(server, trainer, TR__OPEN_ROWS))
        tr__stream_open(server, trainer, TR__OPEN_ROWS, wire->seq);
    return TR_OK;
}

const tr__handler tr__set_rows_handlers[] = {{TR_WIRE_WRITE_ROWS, on_write, NULL}, {0}};

void tr__set_rows_finish(tr_server *server)
{
    for (int i = 0; i < server->trainer_count && tr__replication_has_rows(server); i++) {
        const tr__trainer *trainer = &server->trainer[i];
        if (!tr__stream_is_open(server, trainer, TR__OPEN_ROWS))
            continue;
        tr__stream_open(server, trainer, TR__OPEN_ROWS, 0);
        tr__stream_owe(server, trainer);
    }
}
