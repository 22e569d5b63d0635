/* job_tables.h - the sparse tables of a trainer. */
#pragma once

#include "pserver/api/job.h"
#include "storage/table/table_var.h"

tr_status tr__job_check_tables(const tr_job_spec *spec);
tr_status tr__job_keep_tables(tr_job *job, const tr_job_spec *spec);
void      tr__job_free_tables(tr_job *job);
/* What tr_job_spill_table has said of a table; NULL: nothing. */
const tr__job_spill *tr__job_spill_of(const tr_job *job, const char *table);
/* Append the initial rows of server `server`'s tables at *rows. Returns their number, or -1. */
int       tr__job_pack_rows(tr_client_pack *rows, const tr_job_spec *spec, int server, int servers);
/* Pack the rows of one virtual shard, and its counted keys without rows: 0, 1 or 2 packs, which are added at rows[*count]. */
tr_status tr__job_pack_shard(tr_client_pack *rows, int *count, const tr_table *table, int index, uint32_t shard);
/* Wait until all servers have settled the steps that this trainer has ended. */
tr_status tr__job_await_servers(tr_job *job, int table);
/* Forget rows that were pulled or kept: the servers have others. */
tr_status tr__job_forget_rows(tr_job *job, int table);
/* Let the servers' table have the rows of these files, too. `only_checks`: the files are read, and no row is set. */
tr_status   tr__job_load_files(tr_job *job, int table, const tr_table_config *config, const tr_table_files *files, bool only_checks);
/* Find the job whose servers have the rows of this variable, and the number of the table there. NULL and -1: the variable has rows of its
 * own, or is no table. TR_EINVAL: that job is over. */
tr_status   tr__job_of_rows(tr_job **out, int *table, const tr_scope *scope, const char *name);
/* The name of a table that was not pushed in the present step; NULL: all were. */
const char *tr__job_first_missing_table(const tr_job *job);
/* The divisor of a trainer's change: the number of trainers where a server adds each change by itself, 1 where it adds their mean. */
int         tr__job_change_share(const tr_job *job);
