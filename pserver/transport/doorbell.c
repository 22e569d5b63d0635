#include "pserver/transport/doorbell.h"

#include "framework/base/memory.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGE = 4096 };

static tr_doorbell *map(int file)
{
    const int kind = file < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
    void     *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, kind, file, 0);

    return page == MAP_FAILED ? NULL : page;
}

tr_doorbell *tr_doorbell_new(int *file)
{
    *file = memfd_create("trireme-doorbell", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (*file >= 0 && (ftruncate(*file, PAGE) != 0 || fcntl(*file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)) {
        close(*file);
        *file = -1;
    }
    tr_doorbell *bell = map(*file);
    if (!bell)
        tr__out_of_memory(PAGE);
    return bell;
}

/* Another process may have the number of a dead rank by now. So check that the opened file is a page of the right kind. */
tr_doorbell *tr_doorbell_open(int64_t pid, int file)
{
    char path[64];

    if (file < 0)
        return NULL;
    snprintf(path, sizeof path, "/proc/%lld/fd/%d", (long long)pid, file);
    const int      opened = open(path, O_RDWR | O_CLOEXEC);
    const bool     is_one = opened >= 0 && fcntl(opened, F_GET_SEALS) == (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) &&
                            lseek(opened, 0, SEEK_END) == PAGE;
    tr_doorbell   *bell = is_one ? map(opened) : NULL;
    if (opened >= 0)
        close(opened);
    return bell;
}

void tr_doorbell_close(tr_doorbell *bell)
{
    if (bell)
        munmap(bell, PAGE);
}

void tr_doorbell_arm(tr_doorbell *bell, unsigned who, int cpu)
{
    atomic_store_explicit(&bell->cpu, cpu, memory_order_relaxed);
    atomic_store(&bell->armed, who);
}

bool tr_doorbell_is_armed(const tr_doorbell *bell, bool is_receipt)
{
    const unsigned armed = atomic_load_explicit(&bell->armed, memory_order_relaxed);
    return is_receipt ? armed & TR_BELL_RECEIPTS : armed;
}

bool tr_doorbell_is_near(const tr_doorbell *bell, int cpu)
{
    return atomic_load_explicit(&bell->cpu, memory_order_relaxed) == cpu;
}

unsigned tr_doorbell_disarm(tr_doorbell *bell)
{
    return atomic_load_explicit(&bell->armed, memory_order_relaxed) ? atomic_exchange(&bell->armed, 0) : 0;
}
