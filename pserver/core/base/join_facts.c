/* join_facts.c - see join_facts.h. */
#include "pserver/core/base/join_facts.h"

#include "framework/base/map.h"
#include "framework/base/memory.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { LINES_MAX = 12 };

/* The facts of one trainer, for look-ups by key. Two trainers nearly always list facts in the same order. So a fact is looked up at the
 * same position of the other list first; only if it is not there, all keys are put into a map. */
typedef struct fact_index {
    const Trireme__Pserver__Join *join;
    tr_map                        value;           /* key -> value of the first fact with this key */
} fact_index;

static const char *value_of(fact_index *facts, size_t place, const char *key)
{
    const Trireme__Pserver__Join *join = facts->join;

    if (place < join->n_facts && !strcmp(join->facts[place]->key, key))
        return join->facts[place]->value;
    for (size_t i = facts->value.entry_count ? 0 : join->n_facts; i-- > 0;)
        if (tr_map_put(&facts->value, join->facts[i]->key, join->facts[i]->value) != 0)
            tr__out_of_memory(sizeof(void *));
    return tr_map_find(&facts->value, key);
}

/* Append one line to a diff, if it still fits. */
static void print_difference(char *out, size_t size, const char *key, const char *a, const char *b)
{
    const size_t used = strlen(out);
    snprintf(out + used, size - used, "\n  %s: %s%s%s here, %s%s%s there", key, a ? "\"" : "", a ? a : "nothing",
             a ? "\"" : "", b ? "\"" : "", b ? b : "nothing", b ? "\"" : "");
}

/* Append the facts of `a` that `b` lacks or has with another value. `differences`: their number so far. Returns the new number. */
static int print_differences(char *out, size_t size, const fact_index *a, fact_index *b, int differences)
{
    for (size_t i = 0; i < a->join->n_facts; i++) {
        const char *key = a->join->facts[i]->key, *mine = a->join->facts[i]->value, *theirs = value_of(b, i, key);
        if ((!theirs || strcmp(mine, theirs)) && differences++ < LINES_MAX)
            print_difference(out, size, key, mine, theirs);
    }
    return differences;
}

int tr_join_facts_diff(char *out, size_t size, const Trireme__Pserver__Join *first, const Trireme__Pserver__Join *second, bool both)
{
    fact_index a = {.join = first}, b = {.join = second};

    out[0] = '\0';
    int differences = print_differences(out, size, &a, &b, 0);
    for (size_t i = 0; both && i < second->n_facts; i++)
        if (!value_of(&a, i, second->facts[i]->key) && differences++ < LINES_MAX)
            print_difference(out, size, second->facts[i]->key, NULL, second->facts[i]->value);
    if (differences > LINES_MAX) {
        const size_t used = strlen(out);
        snprintf(out + used, size - used, "\n  and %d more", differences - LINES_MAX);
    }
    tr_map_deinit(&a.value);
    tr_map_deinit(&b.value);
    return differences;
}
