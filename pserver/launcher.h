/* launcher.h - what a rank tells the launcher that started its job, if one did (`trireme launch`).
 *
 * mpirun's exit code says nothing of a job that survives deaths. So each rank says by empty files in the folder
 * TRIREME_JOB_FOLDER that it has joined ("joined.2"), that it has left well ("done.2"), that it has printed why the job
 * failed ("told.2"). A process that is gone without "done" has died. */
#ifndef TR_PSERVER_LAUNCHER_H
#define TR_PSERVER_LAUNCHER_H

void tr__launcher_tell(const char *what, int rank);

#endif
