/* rows_writer.c - files of rows, for a training that exports. */
#include "serving/trireme_serving.h"

#include "storage/table/row_file.h"
#include "storage/table/table_var.h"

struct tr_rows_writer;                 /* it is a tr_row_writer */

tr_status tr_rows_writer_open(tr_rows_writer **out, const char *path, const tr_job_table *table)
{
    const tr_table_config config = tr_table_config_of(table);

    return tr_row_writer_open((tr_row_writer **)out, path, &config);
}

tr_status tr_rows_writer_add(tr_rows_writer *writer, const void *packed, int64_t bytes)
{
    return tr_row_writer_add((tr_row_writer *)writer, packed, (uint64_t)bytes);
}

tr_status tr_rows_writer_close(tr_rows_writer *writer, bool keep, int64_t *rows)
{
    uint64_t  count = 0;
    tr_status status = keep ? TR_OK : TR_EINTR;

    status = tr_row_writer_close((tr_row_writer *)writer, status, &count);
    if (rows)
        *rows = (int64_t)count;
    return keep ? status : TR_OK;
}
