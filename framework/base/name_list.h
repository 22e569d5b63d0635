/* name_list.h - a list of names that grows. The names themselves are somebody else's. */
#pragma once

typedef struct tr__name_list {
    const char **name;                /* owned: the array, not the names */
    int          count, capacity;
} tr__name_list;

void tr__name_list_add(tr__name_list *list, const char *name);
void tr__name_list_deinit(tr__name_list *list);
