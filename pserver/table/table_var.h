/* table_var.h - a sparse table as a variable of a scope: the object of kind RAW that lookup_sparse_table_init makes.
 *
 * In one process it holds the table. On a server it holds the server's shards, and the trainers' rows for the update that is being applied.
 * On a trainer it holds the description alone, because the servers have the rows. */
#ifndef TR_PSERVER_TABLE_VAR_H
#define TR_PSERVER_TABLE_VAR_H

#include "framework/scope.h"
#include "pserver/table/mapped_table.h"
#include "pserver/table/rows_merge.h"
#include "pserver/table/table_tile.h"
#include "pserver/trireme_checkpoint.h"

typedef struct tr_table_var {
    tr_table_config       config;
    tr_table             *table;      /* made at first use */
    tr_mapped_table      *mapped;     /* in its place: rows in files, which are only looked up. NULL: there are none */
    tr_table_place        place;      /* where that will be */
    char                 *name;       /* of the segments, or NULL */
    uint64_t              updates;    /* begun */
    uint64_t              before;     /* of them before this job */
    const tr_rows_update *inbox;      /* a server's; NULL elsewhere */
    tr_rows_merge         merge;
    tr_table_tile        *tile;       /* its optimizer, planned for this program */
    uint64_t              tile_program, tile_revision;
} tr_table_var;

/* Hang a new one, without rows, on the variable. `name` of the place is copied. */
tr_status tr_table_var_set(tr_var *var, const tr_table_config *config, const tr_table_place *place);
/* Hang one on the variable whose rows lie in files; it owns `mapped`, also on failure. */
tr_status tr_table_var_map(tr_var *var, tr_mapped_table *mapped);
/* That of a variable; TR_ENOTFOUND names it when it has none. */
tr_status tr_table_var_of(tr_table_var **out, tr_var *var, const char *op, const char *name);
/* Its table, which is made now if it was not. TR_EUNSUPPORTED: its rows lie in files. */
tr_status tr_table_var_table(tr_table **out, tr_table_var *tv);
/* What there is to say of it; the name is borrowed. */
void      tr_table_var_describe(tr_job_table *out, const tr_table_var *tv, const char *name);
/* The other way round. */
tr_table_config tr_table_config_of(const tr_job_table *table);
/* Take over the table that an earlier process has left in the segments of the place, as it was after update `updates`. */
tr_status tr_table_var_attach(tr_table_var *tv, uint64_t updates);

#endif
