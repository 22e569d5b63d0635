/* name_list.c - see name_list.h. */
#include "framework/base/name_list.h"

#include <stdlib.h>

#include "framework/base/memory.h"

void tr__name_list_add(tr__name_list *list, const char *name)
{
    if (list->count == list->capacity) {
        list->capacity = list->capacity ? 2 * list->capacity : 8;
        list->name = tr__must_realloc(list->name, (size_t)list->capacity * sizeof *list->name);
    }
    list->name[list->count++] = name;
}

void tr__name_list_deinit(tr__name_list *list)
{
    free(list->name);
    *list = (tr__name_list){0};
}
