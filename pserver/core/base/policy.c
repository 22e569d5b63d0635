/* policy.c - the consistency modes: the policy of each mode, and the parser of their texts: NAME, NAME(NUMBER), NAME(key=NUMBER) or
 * NAME(word).
 *
 * To add a mode, add a function that fills in its policy and a line in `forms`. */
#include "framework/base/number.h"
#include "pserver/trireme_dist.h"

#include "framework/base/status.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The form of a mode's text: its name, the argument in parentheses, and the function that makes its policy. */
typedef struct form {
    const char *texts;                /* what may be written, for messages */
    const char *name, *key;           /* the mode's name; the key of its argument, "" if the argument has no key */
    bool        is_needed, is_whole;  /* the number is required; the number must be an integer */
    double      low, high;
    const char *what;                 /* the meaning of the number, for messages */
    const char *word, *old_word;      /* a word that may stand in place of the number, and its earlier name; or NULL */
    void      (*fill)(tr_policy *out, double number, bool has_suffix);
} form;

/* == what the modes mean ========================================================================== */

static const tr_policy together = {.is_lockstep = true, .lead = -1, .period = 1};
static const tr_policy alone = {
    .gathers_per_trainer = true, .survives_trainers = true, .snapshots_all = true, .leases_tasks = true, .lead = -1, .period = 1};

static void fill_sync(tr_policy *out, double number, bool has_suffix)
{
    const bool decides = number > 0 || has_suffix;

    *out = together;
    out->backups = (int64_t)number;
    out->goes_on = has_suffix;
    out->text = has_suffix ? "sync(degraded)" : NULL;
    out->decides = out->gathers_per_trainer = out->survives_trainers = decides;
    out->snapshots_all = number > 0;
}

static void fill_async(tr_policy *out, double number, bool has_suffix)
{
    (void)has_suffix;
    *out = alone;
    out->caches_rows = true;
    out->compensation = number;
}

static void fill_ssp(tr_policy *out, double number, bool has_suffix)
{
    (void)has_suffix;
    *out = alone;
    out->caches_rows = true;
    out->lead = (int64_t)number;
}

static void fill_geo(tr_policy *out, double number, bool has_suffix)
{
    (void)has_suffix;
    *out = alone;
    out->trains_copies = true;
    out->period = (int64_t)number;
}

static void fill_average(tr_policy *out, double number, bool has_suffix)
{
    (void)has_suffix;
    *out = together;
    out->trains_copies = true;
    out->period = (int64_t)number;
}

static const form forms[] = {
    {"sync, sync(degraded), sync(backups=N)", "sync", "backups", false, true, 0, 1 << 20, "trainers whose lateness nobody waits for",
     "degraded", "fewer", fill_sync},
    {"async, async(compensation=X)", "async", "compensation", false, false, 0, 1e6, "a factor of the squared gradient", NULL, NULL,
     fill_async},
    {"ssp(N)", "ssp", "", true, true, 0, 1 << 30, "steps between the fastest and the slowest trainer", NULL, NULL, fill_ssp},
    {"geo(N)", "geo", "", true, true, 1, 1 << 30, "steps of a trainer by itself", NULL, NULL, fill_geo},
    {"average(N)", "average", "", true, true, 1, 1 << 30, "steps of each trainer by itself", NULL, NULL, fill_average},
};

/* == the text ===================================================================================== */

const char *tr_policy_texts(int index)
{
    return index >= 0 && (size_t)index < sizeof forms / sizeof *forms ? forms[index].texts : NULL;
}

static tr_status unknown(const char *text)
{
    char possible[256] = "";

    for (int i = 0; tr_policy_texts(i); i++)
        snprintf(possible + strlen(possible), sizeof possible - strlen(possible), "%s%s", i ? ", " : "", tr_policy_texts(i));
    return tr_fail(TR_EINVAL, "mode '%s'; possible are %s", text, possible);
}

static tr_status read_number(double *out, const form *f, const char *at, const char *text)
{
    const size_t key = strlen(f->key);
    char        *end;

    if (key) {
        if (strncmp(at, f->key, key) || at[key] != '=')
            return tr_fail(TR_EINVAL, "mode '%s': %s takes %s=NUMBER (%s)%s%s", text, f->name, f->key, f->what,
                           f->word ? ", or " : "", f->word ? f->word : "");
        at += key + 1;
    }
    *out = tr__strtod(at, &end);
    if (end == at || strcmp(end, ")"))
        return tr_fail(TR_EINVAL, "mode '%s': a number and ')' must stand at '%s' (%s)", text, at, f->what);
    if (!(*out >= f->low && *out <= f->high) || (f->is_whole && *out != floor(*out)))
        return tr_fail(TR_ERANGE, "mode '%s': %s takes %s from %.10g to %.10g (%s)", text, f->name,
                       f->is_whole ? "a whole number" : "a number", f->low, f->high, f->what);
    return TR_OK;
}

static bool is_suffix(const char *word, const char *at)
{
    const size_t length = word ? strlen(word) : 0;
    return length && !strncmp(at, word, length) && !strcmp(at + length, ")");
}

tr_status tr_policy_parse(tr_policy *out, const char *text)
{
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        const form  *f = &forms[i];
        const size_t length = strlen(f->name);
        double       number = 0;
        if (strncmp(text, f->name, length) || (text[length] && text[length] != '('))
            continue;
        const bool has_suffix = text[length] && (is_suffix(f->word, text + length + 1) || is_suffix(f->old_word, text + length + 1));
        if (text[length] && !has_suffix)
            TR_TRY(read_number(&number, f, text + length + 1, text));
        else if (f->is_needed && !has_suffix)
            return tr_fail(TR_EINVAL, "mode '%s': %s needs a number, like %s(4): %s", text, f->name, f->name, f->what);
        f->fill(out, number, has_suffix);
        return TR_OK;
    }
    return unknown(text);
}
