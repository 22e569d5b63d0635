/* checkpoint_file.c - a queue of chunks between the thread that makes them and the thread that writes them. */
#include "storage/checkpoint/checkpoint_file.h"

#include "storage/checkpoint/checkpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "framework/base/memory.h"
#include "storage/checkpoint/place.h"

enum { WAITING = 8 };                 /* length of the queue, in pieces */

typedef struct piece {
    const uint8_t *data;
    size_t         size;
} piece;

struct tr_checkpoint_file {
    const tr_place *place;
    tr_new_file    *file;
    char           *path;
    uint8_t        *chunk;            /* WAITING chunks: chunk i is for piece i, if that piece needs one */
    pthread_t       thread;
    pthread_mutex_t lock;             /* guards all fields from `piece` on */
    pthread_cond_t  changed;
    piece           piece[WAITING];   /* piece i is at place i % WAITING */
    uint64_t        put, done;        /* pieces so far: queued, written */
    bool            is_ended;         /* no more pieces will come */
    tr_status       status;           /* failure of the writing */
    char           *error;
};

tr_status tr_checkpoint_sync_folder(const char *path)
{
    tr_status status = TR_OK;

    if (!tr_place_of(path)->has_folders)
        return TR_OK;
    const int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return tr_fail(TR_EIO, "cannot open '%s': %s", path, strerror(errno));
    if (fsync(fd) != 0 && errno != EINVAL && errno != ENOTSUP)      /* some file systems cannot do this */
        status = tr_fail(TR_EIO, "cannot sync '%s': %s", path, strerror(errno));
    close(fd);
    return status;
}

/* == the writing thread ============================================================================= */

/* Wait for the next piece. False: there are no more. */
static bool await_piece(piece *out, tr_checkpoint_file *f)
{
    pthread_mutex_lock(&f->lock);
    while (f->done == f->put && !f->is_ended)
        pthread_cond_wait(&f->changed, &f->lock);
    const bool is_there = f->done < f->put;
    if (is_there)
        *out = f->piece[f->done % WAITING];
    pthread_mutex_unlock(&f->lock);
    return is_there;
}

static void finish_piece(tr_checkpoint_file *f, tr_status status)
{
    pthread_mutex_lock(&f->lock);
    if (status != TR_OK && f->status == TR_OK) {
        f->status = status;
        f->error = tr__must_strdup(tr_error());
    }
    f->done++;
    pthread_cond_signal(&f->changed);
    pthread_mutex_unlock(&f->lock);
}

static void *run(void *payload)
{
    tr_checkpoint_file *f = payload;
    tr_status           status = TR_OK;
    piece               p;

    while (await_piece(&p, f)) {
        if (status == TR_OK)
            status = f->place->write(f->file, p.data, p.size);
        finish_piece(f, status);
    }
    return NULL;
}

/* == the calling thread =============================================================================== */

static void free_file(tr_checkpoint_file *f)
{
    pthread_mutex_destroy(&f->lock);
    pthread_cond_destroy(&f->changed);
    free(f->chunk);
    free(f->error);
    free(f->path);
    free(f);
}

static tr_status start(tr_checkpoint_file *f)
{
    f->chunk = aligned_alloc(4096, (size_t)WAITING * TR_CHECKPOINT_CHUNK);
    if (!f->chunk)
        return tr_fail(TR_ENOMEM, "no memory to write '%s'", f->path);
    TR_TRY(f->place->create(&f->file, f->path));
    if (!pthread_create(&f->thread, NULL, run, f))
        return TR_OK;
    f->place->finish(f->file, TR_ENOMEM);
    return tr_fail(TR_ENOMEM, "cannot start a thread to write '%s'", f->path);
}

tr_status tr_checkpoint_file_open(tr_checkpoint_file **out, const char *folder, const char *name)
{
    tr_checkpoint_file *f = tr__must_alloc(sizeof *f);

    f->place = tr_place_of(folder);
    f->path = tr__must_format("%s/%s", folder, name);
    pthread_mutex_init(&f->lock, NULL);
    pthread_cond_init(&f->changed, NULL);
    const tr_status status = start(f);
    if (status == TR_OK)
        *out = f;
    else
        free_file(f);
    return status;
}

/* Wait for room for another piece. The caller holds the lock. */
static void await_place(tr_checkpoint_file *f)
{
    while (f->put - f->done == WAITING)
        pthread_cond_wait(&f->changed, &f->lock);
}

uint8_t *tr_checkpoint_file_chunk(tr_checkpoint_file *file)
{
    pthread_mutex_lock(&file->lock);
    await_place(file);
    uint8_t *chunk = file->chunk + file->put % WAITING * TR_CHECKPOINT_CHUNK;
    pthread_mutex_unlock(&file->lock);
    return chunk;
}

tr_status tr_checkpoint_file_write(tr_checkpoint_file *file, const uint8_t *data, size_t size)
{
    pthread_mutex_lock(&file->lock);
    await_place(file);
    file->piece[file->put++ % WAITING] = (piece){data, size};
    const tr_status status = file->status;
    pthread_cond_signal(&file->changed);
    pthread_mutex_unlock(&file->lock);
    return status == TR_OK ? TR_OK : tr_fail(status, "%s", file->error);
}

/* Wait until all pieces are written, or one has failed. */
static tr_status end(tr_checkpoint_file *f, tr_status status)
{
    pthread_mutex_lock(&f->lock);
    f->is_ended = true;
    pthread_cond_signal(&f->changed);
    pthread_mutex_unlock(&f->lock);
    pthread_join(f->thread, NULL);
    return status == TR_OK && f->status != TR_OK ? tr_fail(f->status, "%s", f->error) : status;
}

tr_status tr_checkpoint_file_close(tr_checkpoint_file *file, tr_status status)
{
    status = file->place->finish(file->file, end(file, status));
    free_file(file);
    return status;
}
