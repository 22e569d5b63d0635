/* launcher.c - files for the launcher. */
#include "pserver/observe/launcher.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

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
bool tr__launcher_tell(const char *what, int rank, const char *text)
{
    const char *folder = getenv("TRIREME_JOB_FOLDER");
    char        path[1024], next[1024];

    if (!folder)
        return false;
    snprintf(path, sizeof path, "%s/%s.%d", folder, what, rank);
    snprintf(next, sizeof next, "%s/%s-%d-%d~", folder, what, rank, (int)getpid());
    return write_text(next, text ? text : "") && rename(next, path) == 0;
}

bool tr__launcher_tell_own(const char *what, const char *text)
{
    const char *rank = getenv("OMPI_COMM_WORLD_RANK");

    return rank && tr__launcher_tell(what, atoi(rank), text);
}

const char *tr__launcher_asked_by(char *name, size_t size, const char *or_else)
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
