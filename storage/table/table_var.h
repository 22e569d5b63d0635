/* table_var.h - a sparse table as a variable of a scope: the object of kind RAW that lookup_sparse_table_init makes.
 *
 * In one process it holds the table. On a server it holds the server's shards. On a trainer it holds the description alone, because the
 * servers have the rows: then it knows whom to ask (tr_table_source). So operators and files ask the variable, and nobody asks where the
 * process is. */
#pragma once

#include "framework/base/weak.h"
#include "framework/tensors/scope.h"
#include "storage/table/mapped_table.h"
#include "storage/table/rows_merge.h"
#include "storage/table/table_tile.h"
#include "storage/trireme_checkpoint.h"

/* Rows that are not in this variable: a job, whose servers have them, and whose type this floor does not know. `table` is its number for
 * the table. */
struct tr_job;
typedef struct tr_table_source {
    tr_status (*look_up)(struct tr_job *job, int table, int64_t count, const int64_t *keys, float *out);     /* rows as float32 */
    /* The table in which this process updates the rows of these keys; NULL: the servers update all rows. */
    tr_status (*own_table)(tr_table **out, struct tr_job *job, int table, int64_t count, const int64_t *keys);
} tr_table_source;

/* Files with the rows of a table, which are read when somebody wants a row. In a job the servers read them instead. */
typedef struct tr_table_files {
    int            count;
    tr_table_file *file;              /* the paths are malloc'ed, too */
    tr_status (*read)(tr_table *table, const struct tr_table_files *files);
} tr_table_files;

typedef struct tr_table_var {
    tr_table_config       config;
    tr_table             *table;      /* the table; made at first use */
    tr_table_files         *files;      /* instead of the table: rows that were not read yet; or NULL */
    tr_mapped_table      *mapped;     /* instead of the table: rows in files, for lookups only; or NULL */
    const tr_table_source *source;    /* instead of both: the rows are elsewhere; or NULL */
    tr_weak              *job;        /* of `source`: it ends with the job */
    int                   number;     /* of the table in that job */
    tr_table_segment        place;      /* the place of the future table */
    char                 *name;       /* name of its segments, or NULL */
    char                 *spill;      /* folder of its rows on disk, or NULL */
    uint64_t              updates;    /* number of updates that were begun */
    uint64_t              before;     /* of these: updates before this job */
    tr_rows_merge         merge;
    tr_table_tile        *tile;       /* its optimizer, planned for this program */
    uint64_t              tile_program, tile_revision;
} tr_table_var;

/* Put a new, empty object into the variable. The texts of the place are copied. */
tr_status tr_table_var_set(tr_var *var, const tr_table_config *config, const tr_table_segment *place);
/* Put an object whose rows lie in files into the variable. It owns `mapped`, also on failure. */
tr_status tr_table_var_map(tr_var *var, tr_mapped_table *mapped);
/* Put an object into the variable whose rows are in the job from now on, in table `number`. */
tr_status tr_table_var_bind(tr_var *var, const tr_table_config *config, const tr_table_source *source, tr_weak *job, int number);
/* The place of the variable's table. NULL and other variables: all rows in memory that ends with the process. */
tr_table_segment tr_table_var_place(const tr_var *var);
/* Are the variable's rows in a job? NULL and other variables have none. */
bool      tr_table_var_is_bound(const tr_var *var);
/* The job of a bound table. TR_EINVAL: it is over, or this process is a forked child. */
tr_status tr_table_var_job(struct tr_job **out, const tr_table_var *tv);
/* The object of a variable. TR_ENOTFOUND: it has none; the text names the variable. */
tr_status tr_table_var_of(tr_table_var **out, tr_var *var, const char *op, const char *name);
/* The object's table, which is made now if needed. TR_EUNSUPPORTED: its rows lie in files, or in a job. */
tr_status tr_table_var_table(tr_table **out, tr_table_var *tv);
/* Let the table have the rows of these files, and no others. The variable owns `files`. */
void            tr_table_var_read_later(tr_table_var *tv, tr_table_files *files);
/* Describe the table; the name is borrowed. */
void      tr_table_var_describe(tr_job_table *out, const tr_table_var *tv, const char *name);
/* Convert a description to the table's configuration. */
tr_table_config tr_table_config_of(const tr_job_table *table);
/* Attach to the table that an earlier process has left in the segments of the place, as it was after update `updates`. */
tr_status tr_table_var_attach(tr_table_var *tv, uint64_t updates);
