/* trireme_rows.h - the C API of sparse tables whose rows are in a variable, or with the servers of a job. */
#ifndef TRIREME_ROWS_H
#define TRIREME_ROWS_H

#include "pserver/trireme_dist.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Describe the table that the operator lookup_sparse_table_init made in the variable `name` of the scope. out->name is borrowed from
 * `name`. TR_EINVAL or TR_ENOTFOUND: there is no such table. */
TR_API tr_status tr_job_describe_table(tr_job_table *out, const tr_scope *scope, const char *name);

/* Make an empty table of this description in a variable of the scope. */
TR_API tr_status tr_table_declare(tr_scope *scope, const tr_job_table *table);
/* Before tr_job_setup: let each server keep so many bytes of the rows of this table in memory, and all others in files in this folder of
 * its host. TR_ERANGE: `memory` is not positive. */
TR_API tr_status tr_job_spill_table(tr_job *job, const char *name, int64_t memory, const char *folder);
/* After tr_job_setup: make an empty table of this description in a variable of the scope, whose rows are with the servers from now on. A
 * variable of this name in another scope has rows of its own, and so has every variable in a job that never makes this call. */
TR_API tr_status tr_job_bind_table(tr_job *job, tr_scope *scope, const tr_job_table *table);
/* Read the rows of `count` virtual shards (of 0 .. 1023) of a table from `shard` on, packed. Each row has its key (int64), the number of
 * its updates and the last of them (uint32 each), `width` values in the table's type, padded to 4 bytes, and states [states, width]
 * float32, padded to 8. The rows come from the servers if they have those of this variable (tr_job_bind_table), else from the variable. All
 * shards are asked for at once.
 *
 * `since`: only rows that a later update of their server changed; 0: all. Free *out by tr_free. TR_ERANGE: `shard`, `count` or `since`. */
TR_API tr_status tr_table_read_rows(void **out, int64_t *bytes, const tr_scope *scope, const char *name, int shard, int count,
                                    int64_t since);
/* -- files with the rows of a table ----------------------------------------------------------------- */

/* Plan files for all rows of a table: first[i] is the first shard of file i, first[*count] is 1024. A file has about `most` bytes of rows,
 * all of one server; there are at least `least` files, a power of two. `first` has room for 1025. */
TR_API tr_status tr_table_cut_files(int *first, int *count, const tr_scope *scope, const char *name, int64_t most, int least);
/* Write files of a table, and fill in what is said of them. In a job each server writes its files, all servers at the same time; a server
 * reads the rows of one file at one moment, and has room for them. If a server's host does not see the folder, this process writes. The
 * shards of a file are of one server. */
TR_API tr_status tr_table_save_files(const tr_scope *scope, const char *name, int count, tr_table_file *files);
/* Let the table of a variable have the rows of these files, with `head`s, and no others. `later`: they are read when they are wanted; so a
 * trainer lets the servers read the first rows, at the setup, and the rows of tr_job_set_rows, and a damaged file is told of then.
 * TR_EFORMAT: a file is damaged, and the table is empty. TR_ENOTFOUND: there is none. */
TR_API tr_status tr_table_load_files(const tr_scope *scope, const char *name, int count, const tr_table_file *files, bool later);

/* Put packed rows into the table of a variable. `clear`: remove its present rows first. In a job the first step begins with the rows of
 * trainer 0. After the first step the call fails, and tr_job_set_rows takes its place. */
TR_API tr_status tr_table_write_rows(const tr_scope *scope, const char *name, const void *rows, int64_t bytes, bool clear);

/* Set rows between two steps, when the servers have those of this variable (tr_job_has_rows). All trainers do the following, between the
 * same two steps: 1. each calls tr_job_set_rows_begin, which waits until its steps are settled (TR_EUNSUPPORTED: the mode allows no such
 * rows) 2. they come together (trireme_board.h); one of them calls tr_job_set_rows, which gives the servers the rows of the table of this
 * name in the scope `source`.
 *    `clear`: all other rows go, and ages count as in that table
 * 3. they come together again, and each calls tr_job_set_rows_end, which forgets the rows that this trainer has kept. */
TR_API bool      tr_job_has_rows(const tr_scope *scope, const char *name);
TR_API tr_status tr_job_set_rows_begin(const tr_scope *scope, const char *name);
TR_API tr_status tr_job_set_rows(const tr_scope *scope, const char *name, const tr_scope *source, bool clear);
TR_API tr_status tr_job_set_rows_end(const tr_scope *scope, const char *name);

/* -- memory of a table, and its most frequent keys -------------------------------------------------- */

/* Fill *out for a table. `server`: 0 .. servers - 1 if the servers of a job have the variable's rows, else 0 (TR_ERANGE). The call reads
 * the header of each row. On a server it waits for the updates of this trainer's ended steps. */
TR_API tr_status tr_table_get_part(tr_table_part *out, const tr_scope *scope, const char *name, int server);
/* Say what lies on disk of a table, likewise. */
TR_API tr_status tr_table_get_disk(tr_table_disk *out, const tr_scope *scope, const char *name, int server);

#ifdef __cplusplus
}
#endif
#endif
