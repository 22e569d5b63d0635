/* transport_mpi_begin.h - the begin and the end of MPI in this process; part of trireme_mpi.so. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Start MPI in this thread. False: the reason is in `error`. */
bool tr__mpi_begin(char *error, size_t size);
/* Finalize MPI. All ranks of the job do. */
void tr__mpi_end(void);
