/* launcher.c - files for the launcher. */
#include "pserver/observe/launcher.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static const char *const FILES[TR_NOTICE_COUNT] = {
    [TR_NOTICE_BEGAN] = "began", [TR_NOTICE_JOINS] = "joins", [TR_NOTICE_LATE] = "late",
    [TR_NOTICE_JOINED] = "joined", [TR_NOTICE_BEGINS] = "begins", [TR_NOTICE_LISTENS] = "listens",
    [TR_NOTICE_ASKED] = "asked", [TR_NOTICE_PROGRESS] = "progress", [TR_NOTICE_FOLLOWS] = "follows",
    [TR_NOTICE_REPLACEMENT] = "replacement", [TR_NOTICE_SILENT] = "silent", [TR_NOTICE_LOST] = "lost",
    [TR_NOTICE_DIED] = "died", [TR_NOTICE_STARVED] = "starved", [TR_NOTICE_LEFT] = "left",
    [TR_NOTICE_DONE] = "done", [TR_NOTICE_FAILED] = "failed", [TR_NOTICE_TOLD] = "told",
};

const char *tr_notice_file(tr_notice what)
{
    return what < TR_NOTICE_COUNT ? FILES[what] : NULL;
}

static bool write_text(const char *path, const char *text)
{
    FILE *out = fopen(path, "we");

    if (!out)
        return false;
    const bool is_written = fputs(text, out) >= 0;
    return fclose(out) == 0 && is_written;
}

/* Write a file that appears at once: several ranks may write the same name while the launcher reads. The launcher ignores files without
 * a dot in their names. */
bool tr__launcher_tell(tr_notice what, int rank, const char *text)
{
    const char *folder = getenv("TRIREME_JOB_FOLDER");
    char        path[1024], next[1024];

    if (!folder)
        return false;
    snprintf(path, sizeof path, "%s/%s.%d", folder, FILES[what], rank);
    snprintf(next, sizeof next, "%s/%s-%d-%d~", folder, FILES[what], rank, (int)getpid());
    return write_text(next, text ? text : "") && rename(next, path) == 0;
}

bool tr_notice_tell(tr_notice what, const char *text)
{
    const char *rank = getenv("OMPI_COMM_WORLD_RANK");

    return rank && tr__launcher_tell(what, atoi(rank), text);
}

const char *tr_notice_asked_by(char *name, size_t size, const char *or_else)
{
    const char *folder = getenv("TRIREME_JOB_FOLDER");
    char        path[1024];
    FILE       *in = NULL;

    if (folder) {
        snprintf(path, sizeof path, "%s/asked_by", folder);
        in = fopen(path, "re");
    }
    const size_t length = in ? fread(name, 1, size - 1, in) : 0;
    if (in)
        fclose(in);
    name[length] = '\0';
    return length ? name : or_else;
}
