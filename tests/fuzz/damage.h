/* damage.h - what was written as it should be, and then damaged as an input says: for targets of memory that a dead process has left.
 *
 * An input is a list of records of 12 bytes. Inputs of whole memories would be long, and seldom near to what was there. */
#pragma once

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <fcntl.h>
#include <unistd.h>

enum { DAMAGE_RECORD = 12, DAMAGE_HEAD = 128 };

/* Memory, and what it is damaged to; `size` may become less. */
typedef struct damaged {
    uint8_t *whole, *bytes;
    size_t   whole_size, size;
} damaged;

/* Take a copy that is damaged again and again. */
static inline void damaged_init(damaged *d, const void *bytes, size_t size)
{
    *d = (damaged){malloc(size), malloc(size), size, size};
    memcpy(d->whole, bytes, size);
}

static inline void damaged_restore(damaged *d)
{
    memcpy(d->bytes, d->whole, d->whole_size);
    d->size = d->whole_size;
}

/* A record: which memory, how, where (2 bytes), a number (8 bytes). */
static inline void damage_once(damaged *all, int count, const uint8_t *record)
{
    damaged       *d = &all[record[0] % count];
    const uint64_t where = record[2] | (uint64_t)record[3] << 8, words = d->whole_size / 8;
    uint64_t       number, word;

    memcpy(&number, record + 4, sizeof number);
    if (record[1] % 8 == 7) {                          /* cut off */
        d->size = where < d->whole_size ? where : d->whole_size;
        return;
    }
    /* What stands at the beginning decides most. */
    uint8_t *at = d->bytes + 8 * ((record[1] % 8 < 4 ? where % DAMAGE_HEAD : where) % words);
    memcpy(&word, at, sizeof word);
    word = record[1] % 8 == 1 ? word + number : record[1] % 8 == 2 ? word ^ number : number;
    memcpy(at, &word, sizeof word);
}

static inline void damage(damaged *all, int count, const uint8_t *input, size_t size)
{
    for (int i = 0; i < count; i++)
        damaged_restore(&all[i]);
    for (; size >= DAMAGE_RECORD; input += DAMAGE_RECORD, size -= DAMAGE_RECORD)
        damage_once(all, count, input);
}

/* -- segments, as the files that they are -------------------------------------------------------------- */

enum { DAMAGE_PAGE = 4096 };          /* a segment's own header, which is damaged apart */

static inline int segment_file(const char *name, int flags)
{
    char path[160];

    snprintf(path, sizeof path, "/dev/shm/%s", name);
    const int file = open(path, O_RDWR | flags, 0600);
    if (file < 0)
        abort();
    return file;
}

static inline void read_segment(damaged *d, const char *name)
{
    const int   file = segment_file(name, 0);
    const off_t size = lseek(file, 0, SEEK_END);
    uint8_t    *bytes = malloc((size_t)size);

    if (pread(file, bytes, (size_t)size, 0) != size)
        abort();
    damaged_init(d, bytes + DAMAGE_PAGE, (size_t)size - DAMAGE_PAGE);
    free(bytes);
    close(file);
}

/* The contents alone: the header stays. */
static inline void write_segment(const damaged *d, const char *name)
{
    const int file = segment_file(name, 0);

    if (ftruncate(file, (off_t)(DAMAGE_PAGE + d->size)) != 0 ||
        pwrite(file, d->bytes, d->size, DAMAGE_PAGE) != (ssize_t)d->size)
        abort();
    close(file);
}
