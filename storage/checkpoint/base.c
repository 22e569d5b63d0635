/* base.c - see base.h. */
#include "storage/checkpoint/base.h"

#include <stdlib.h>
#include <string.h>

#include "framework/base/memory.h"
#include "storage/checkpoint/table_description.h"

tr_status tr__base_read(tr_manifest **out, const char *folder, const tr_checkpoint_base *base)
{
    char     *path = tr__checkpoint_beside(folder, base->step);
    tr_status status = tr_manifest_read(out, path);

    if (status == TR_OK && (*out)->snapshot != base->number) {
        tr_manifest_free(*out);
        *out = NULL;
        status = tr_fail(TR_EFORMAT, "'%s' is another checkpoint than the one whose changes are to be written", path);
    }
    free(path);
    return status;
}

bool tr_checkpoint_has(const char *folder, const tr_checkpoint_base *checkpoint)
{
    char       *path = tr_checkpoint_path(folder, checkpoint->step);
    tr_manifest *m = NULL;
    const bool  has = tr__base_read(&m, path, checkpoint) == TR_OK;

    tr_manifest_free(m);
    free(path);
    return has;
}

void tr__base_mark(bool *stays, const tr_folder *all, const tr_manifest *m)
{
    for (size_t p = 0; p < m->n_parts; p++)
        for (int i = 0; m->parts[p]->has_of_step && i < all->count; i++)
            stays[i] |= all->item[i].step == (int64_t)m->parts[p]->of_step;
}

/* Does one of the new parts have only changes of this shard? */
static bool is_built_on(const char *table, uint32_t shard, int count, tr_part *const *parts)
{
    for (int i = 0; i < count; i++) {
        const Trireme__Checkpoint__Table *t = tr__find_description(parts[i], table);
        if (t && shard >= t->first_shard && shard - t->first_shard < t->shard_count)
            return t->changes;
    }
    return false;
}

bool tr__base_inherit(tr_part *part, int64_t step, int count, tr_part *const *parts)
{
    size_t kept = 0;

    for (size_t i = 0; i < part->n_tensors; i++) {
        tr_part_tensor *t = part->tensors[i];
        if (t->kind == TRIREME__CHECKPOINT__KIND__TABLE && is_built_on(t->name, t->shard, count, parts))
            part->tensors[kept++] = t;
        else
            trireme__checkpoint__tensor__free_unpacked(t, NULL);
    }
    part->n_tensors = kept;
    if (!part->has_of_step) {
        part->has_of_step = true;
        part->of_step = (uint64_t)step;
    }
    return kept > 0;
}
