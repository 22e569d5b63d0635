/* place.c - see place.h: what does not depend on the place. */
#include "storage/checkpoint/place.h"

#include <stdlib.h>
#include <string.h>

#include "framework/base/memory.h"
#include "framework/trireme.h"
#include "storage/stores/object_store.h"

const tr_place *tr_place_of(const char *path)
{
    return tr_store_is_uri(path) ? &tr__place_store : &tr__place_local;
}

tr_status tr_place_inside(char **out, const char *folder, const char *name)
{
    if (!tr_store_is_uri(folder))
        return tr_path_inside(out, folder, name);
    if (!name[0] || strchr(name, '/') || !strcmp(name, ".") || !strcmp(name, ".."))
        return tr_fail(TR_EFORMAT, "'%s' names no file in '%s'", name, folder);
    *out = tr__must_format("%s/%s", folder, name);
    return TR_OK;
}

tr_status tr_place_put(const char *path, const void *bytes, size_t size)
{
    const tr_place *place = tr_place_of(path);
    tr_new_file    *file;

    TR_TRY(place->create(&file, path));
    return place->finish(file, place->write(file, bytes, size));
}

tr_status tr_place_has(bool *has, const char *path)
{
    const tr_place *place = tr_place_of(path);
    const tr_status status = place->look(NULL, NULL, path);

    *has = status == TR_OK;
    return place->has_folders || status == TR_ENOTFOUND ? TR_OK : status;
}
