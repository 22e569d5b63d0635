/* server_sets.c - see server_sets.h. */
#include "pserver/core/updates/server_sets.h"

#include "framework/base/memory.h"

#include <stdlib.h>
#include <string.h>

typedef struct set {
    struct set *next;
    uint64_t    step;
    uint32_t    value;
    int         trainer;              /* whose value it is; -1: all trainers' */
    bool        is_given;             /* to the update in hand */
    uint8_t    *bytes;
    uint64_t    size, filled;
    uint64_t   *said;                 /* by each trainer: bytes so far */
} set;

struct tr__sets {
    set          *first;
    tr_set_value *given;              /* the array in the update in hand */
};

void tr__sets_new(tr_server *server)
{
    server->sets = tr__must_alloc(sizeof *server->sets);
}

static void free_set(set *s)
{
    free(s->bytes);
    free(s->said);
    free(s);
}

void tr__sets_free(tr_server *server)
{
    for (set *s = server->sets->first; s;) {
        set *next = s->next;
        free_set(s);
        s = next;
    }
    free(server->sets->given);
    free(server->sets);
}

/* == who sets what ============================================================================= */

static const char *name_of(const tr_server *server, uint32_t value)
{
    const Trireme__Pserver__Value *v = server->setup->values[value];
    return v->source ? v->source : v->name;
}

/* Do this trainer's values count, where trainers make their steps alone? */
static bool is_first(const tr_server *server, const tr__trainer *trainer)
{
    for (int i = 0; i < trainer->index; i++)
        if (tr__server_is_present(&server->trainer[i]))
            return false;
    return true;
}

static bool has_said(const set *s, int trainer)
{
    return s->said[trainer] == s->size;
}

/* Is the step in an update already, with another trainer's values? A trainer that was behind at a new start comes to it later. */
static bool is_settled(const tr_server *server, uint64_t step)
{
    for (int i = 0; server->policy.is_lockstep && i < server->trainer_count; i++)
        if (server->trainer[i].settled >= step)
            return true;
    return false;
}

/* A trainer that has set the value completely, or -1. */
static int first_sayer(const tr_server *server, const set *s)
{
    for (int i = 0; i < server->trainer_count; i++)
        if (has_said(s, i))
            return i;
    return -1;
}

static tr_status fail_difference(const tr_server *server, const set *s, int has, int has_not, const char *what)
{
    return tr_fail(
        TR_EPEER, "trainer %d has set '%s' before step %llu, and trainer %d %s: all trainers must set the same values before the same step",
        has, name_of(server, s->value), (unsigned long long)s->step, has_not, what);
}

static set *find(const tr_server *server, int trainer, uint64_t step, uint32_t value)
{
    set *s = server->sets->first;

    while (s && (s->step != step || s->value != value || s->trainer != trainer))
        s = s->next;
    return s;
}

/* The first chunk of a value that no trainer has set for this step. */
static tr_status make(set **out, tr_server *server, const tr__trainer *trainer, const tr_form_set *form)
{
    set **link = &server->sets->first, *s = tr__must_alloc(sizeof *s);

    while (*link && (*link)->step <= form->step)     /* in the order of steps: the last one that is assigned stays */
        link = &(*link)->next;
    *s = (set){.next = *link, .step = form->step, .value = form->value, .size = server->setup->values[form->value]->bytes,
               .trainer = server->policy.is_lockstep ? -1 : trainer->index};
    s->said = tr__must_array((size_t)server->trainer_count, sizeof *s->said);
    s->bytes = tr__array_alloc(s->size);
    *link = *out = s;
    if (!s->bytes)
        return tr_fail(TR_ENOMEM, "no memory for '%s' of %llu bytes, which trainers set", name_of(server, s->value),
                       (unsigned long long)s->size);
    for (int i = 0; server->policy.is_lockstep && i < server->trainer_count; i++)
        if (server->trainer[i].ended >= form->step && !tr_membership_is_over(server->trainer[i].state))
            return fail_difference(server, s, trainer->index, i, "has not");
    return TR_OK;
}

static tr_status take_chunk(const tr_server *server, set *s, const tr__trainer *trainer, const tr_form_set *form, const uint8_t *payload,
                            uint64_t bytes)
{
    uint64_t *said = &s->said[trainer->index];

    if (form->offset == 0)                         /* perhaps again: a dead process of this trainer has begun it */
        *said = 0;
    if (form->offset != *said || bytes > s->size - *said)
        return tr_fail(TR_EFORMAT, "%s sets %llu bytes at %llu of '%s': no such piece is missing", tr__server_trainer_name(server, trainer),
                       (unsigned long long)bytes, (unsigned long long)form->offset, name_of(server, s->value));
    const uint64_t known = s->filled > *said ? s->filled - *said : 0, same = bytes < known ? bytes : known;
    if (memcmp(s->bytes + *said, payload, same) != 0) {
        const int other = first_sayer(server, s);
        return fail_difference(server, s, other < 0 ? trainer->index : other, other < 0 ? 0 : trainer->index, "to another value");
    }
    memcpy(s->bytes + *said + same, payload + same, bytes - same);
    *said += bytes;
    s->filled = *said > s->filled ? *said : s->filled;
    return TR_OK;
}

tr_status tr__sets_on_set(tr_server *server, const tr__trainer *trainer, const tr_wire *wire, const uint8_t *payload)
{
    const tr_form_set *form = &wire->set;
    set               *s;

    if (tr__server_has_ended(trainer, form->step))
        return TR_OK;
    TR_TRY(tr__server_check_step(server, trainer, wire, trainer->ended + 1));
    if (form->value >= server->setup->n_values || !server->setup->values[form->value]->bytes)
        return tr_fail(TR_EFORMAT, "%s sets value %u: this server has no such value", tr__server_trainer_name(server, trainer),
                       form->value);
    if (is_settled(server, form->step) || (!server->policy.is_lockstep && !is_first(server, trainer)))
        return TR_OK;
    s = find(server, server->policy.is_lockstep ? -1 : trainer->index, form->step, form->value);
    if (!s)
        TR_TRY(make(&s, server, trainer, form));
    return take_chunk(server, s, trainer, form, payload, wire->bytes);
}

tr_status tr__sets_ended(tr_server *server, const tr__trainer *trainer, uint64_t step, bool has_gradient)
{
    for (set *s = server->sets->first; s; s = s->next) {
        if (s->step != step || (s->trainer >= 0 && s->trainer != trainer->index))
            continue;
        if (!has_gradient && s->trainer >= 0)          /* the value waits for this trainer's next gradient */
            s->step++;
        else if (!has_said(s, trainer->index) && first_sayer(server, s) >= 0)
            return fail_difference(server, s, first_sayer(server, s), trainer->index, "has not");
    }
    return TR_OK;
}

/* == in an update ============================================================================== */

bool tr__sets_has(const tr_server *server, int trainer, uint64_t step)
{
    for (const set *s = server->sets->first; s; s = s->next)
        if (s->step == step && (trainer < 0 || s->trainer < 0 || s->trainer == trainer))
            return true;
    return false;
}

/* Is the value for this update: was it set before the step that one of its trainers has in it? */
static bool is_for(const tr_server *server, const set *s, const tr_update *update)
{
    for (int i = 0; i < server->trainer_count; i++)
        if (update->takes_part[i] && server->trainer[i].settled + 1 == s->step && has_said(s, i))
            return true;
    return false;
}

void tr__sets_give(tr_server *server, tr_update *update)
{
    tr__sets *sets = server->sets;
    uint32_t  count = 0;

    for (set *s = sets->first; s; s = s->next)
        count += s->is_given = is_for(server, s, update);
    if (!count)
        return;
    free(sets->given);
    sets->given = tr__must_array(count, sizeof *sets->given);
    for (set *s = sets->first; s; s = s->next)
        if (s->is_given)
            sets->given[update->set_count++] = (tr_set_value){s->value, s->bytes};
    update->set = sets->given;
}

void tr__sets_finish(tr_server *server)
{
    for (set **link = &server->sets->first; *link;) {
        set *s = *link;
        if (s->is_given) {
            *link = s->next;
            free_set(s);
        } else {
            link = &s->next;
        }
    }
}
