/* launcher.h - news of a rank for the launcher that started its job (`trireme launch`), as files in the folder TRIREME_JOB_FOLDER.
 *
 * mpirun's exit code says nothing of a job that survives deaths, and mpirun may end before it has passed on a rank's last line. So each
 * rank N writes files:
 *
 *     began.N         the process has begun
 *     joins.N         it asks MPI to join;  late.N: that took too long (for how long);  joined.N: it has joined
 *     listens.N       signals may ask it for a checkpoint;  asked.N: one has
 *     left.N          its script has ended: the trainer's steps, those of this launch, and 1 where all trainers make the same steps
 *     done.N          it leaves well; written before its goodbye
 *     failed.N        it ends by its own doing: exit code and reason
 *     died.N          rank N has died: how;  lost.N: the same, and the job goes on;  silent.N: how long it was silent. Other ranks write these
 *     told.N          why the job failed, for the launcher to print; written by the rank that speaks for the job
 *     follows.N       a replica has all of its server's state: the server's number
 *     replacement.N   a standby has become a trainer: the trainer's number
 *     progress.N      how far the rank is, written anew all the time (runlog.h)
 *
 * A process that has begun and is gone without "done" or "failed" has died. */
#ifndef TR_PSERVER_LAUNCHER_H
#define TR_PSERVER_LAUNCHER_H

#include <stdbool.h>
#include <stddef.h>

/* Write a file for the launcher. False: there is no launcher, or the file could not be written. `text` may be NULL. A reader finds the
 * whole text or no file. */
bool tr__launcher_tell(const char *what, int rank, const char *text);
/* The same for this process before it has joined the job. */
bool tr__launcher_tell_own(const char *what, const char *text);

/* The name of the signal ("SIGTERM") that asked the launcher for the job's end. The launcher leaves it in the file "asked_by", because
 * mpirun sends SIGUSR1 to the ranks for any signal. Without that file: `or_else`. */
const char *tr__launcher_asked_by(char *name, size_t size, const char *or_else);

#endif
