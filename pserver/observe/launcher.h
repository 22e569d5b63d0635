/* launcher.h - what a rank tells the launcher that started its job, if one did (`trireme launch`).
 *
 * mpirun's exit code says nothing of a job that survives deaths, and mpirun may be gone before it has passed a rank's
 * last line on. So each rank says by files in the folder TRIREME_JOB_FOLDER that it has begun ("began.2"), that it asks MPI to
 * join ("joins.2"), that this took too long ("late.2": how long) or that it has joined ("joined.2"), that signals may ask it for a
 * checkpoint ("listens.2") and that one has ("asked.2"), that its script has ended ("left.2": the trainer's steps, those of this
 * launch, and 1 where all trainers make the same steps), that it has left well ("done.2": before it says goodbye to the others),
 * that it ends by its own doing ("failed.2": exit code and reason), that another has died ("died.2": how) or that it has and the
 * job goes on ("lost.2"), that it was silent before ("silent.2": for how long), and, if it speaks for the job, why that failed
 * ("told.2": the text, for the launcher to print). A process that has begun and is gone without "done" or "failed" has died.
 * A replica says that it has all that its server has, and of which server ("follows.5": the number).
 * A standby says which trainer it has become ("replacement.4": the number). "progress.2", written anew all the time, is how far it is (runlog.h). */
#ifndef TR_PSERVER_LAUNCHER_H
#define TR_PSERVER_LAUNCHER_H

#include <stdbool.h>
#include <stddef.h>

/* False: there is no launcher, or the file could not be written. `text` may be NULL. Whoever reads finds all of one text. */
bool tr__launcher_tell(const char *what, int rank, const char *text);
/* Of this process, before it has joined. */
bool tr__launcher_tell_own(const char *what, const char *text);

/* The name of the signal by which somebody asked the launcher for the job's end ("SIGTERM"), which it leaves for ranks in "asked_by":
 * mpirun sends SIGUSR1 to the ranks, whatever it was. Otherwise `or_else`. */
const char *tr__launcher_asked_by(char *name, size_t size, const char *or_else);

#endif
