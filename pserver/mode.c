/* mode.c - NAME, NAME(NUMBER), NAME(key=NUMBER) or NAME(word). */
#include "pserver/mode.h"

#include "framework/status.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* What may stand in the parentheses, if anything must. */
typedef struct form {
    const char  *name, *key;          /* key "": a bare number */
    tr_mode_kind kind;
    bool         is_needed, is_whole; /* the number */
    double       low, high;
    const char  *what;
    const char  *word;                /* may stand there instead: tr_mode.goes_on; or NULL */
} form;

static const form forms[] = {
    {"sync", "backups", TR_MODE_SYNC, false, true, 0, 1 << 20, "trainers whose lateness nobody waits for", "fewer"},
    {"async", "compensation", TR_MODE_ASYNC, false, false, 0, 1e6, "a factor of the squared gradient", NULL},
    {"ssp", "", TR_MODE_SSP, true, true, 0, 1 << 30, "steps between the fastest and the slowest trainer", NULL},
    {"geo", "", TR_MODE_GEO, true, true, 1, 1 << 30, "steps of a trainer by itself", NULL},
};

static tr_status unknown(const char *text)
{
    return tr_fail(TR_EINVAL, "mode '%s'; possible are sync, sync(fewer), sync(backups=N), async, async(compensation=X), ssp(N), geo(N)",
                   text);
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
    *out = strtod(at, &end);
    if (end == at || strcmp(end, ")"))
        return tr_fail(TR_EINVAL, "mode '%s': a number and ')' must stand at '%s' (%s)", text, at, f->what);
    if (!(*out >= f->low && *out <= f->high) || (f->is_whole && *out != floor(*out)))
        return tr_fail(TR_ERANGE, "mode '%s': %s takes %s from %.10g to %.10g (%s)", text, f->name,
                       f->is_whole ? "a whole number" : "a number", f->low, f->high, f->what);
    return TR_OK;
}

static bool is_word(const form *f, const char *at)
{
    const size_t length = f->word ? strlen(f->word) : 0;
    return length && !strncmp(at, f->word, length) && !strcmp(at + length, ")");
}

tr_status tr_mode_parse(tr_mode *out, const char *text)
{
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        const form  *f = &forms[i];
        const size_t length = strlen(f->name);
        double       number = 0;
        if (strncmp(text, f->name, length) || (text[length] && text[length] != '('))
            continue;
        const bool has_word = text[length] && is_word(f, text + length + 1);
        if (text[length] && !has_word)
            TR_TRY(read_number(&number, f, text + length + 1, text));
        else if (f->is_needed && !has_word)
            return tr_fail(TR_EINVAL, "mode '%s': %s needs a number, like %s(4): %s", text, f->name, f->name, f->what);
        *out = (tr_mode){.kind = f->kind, .goes_on = has_word};
        if (f->is_whole)
            out->count = (int64_t)number;
        else
            out->compensation = number;
        return TR_OK;
    }
    return unknown(text);
}

bool tr_mode_keeps_apart(const tr_mode *mode)
{
    return mode->kind != TR_MODE_SYNC || tr_mode_decides(mode);
}

bool tr_mode_decides(const tr_mode *mode)
{
    return mode->kind == TR_MODE_SYNC && (mode->count > 0 || mode->goes_on);
}

bool tr_mode_goes_back(const tr_mode *mode)
{
    return mode->kind == TR_MODE_SYNC;
}

bool tr_mode_overtakes(const tr_mode *mode)
{
    return mode->kind != TR_MODE_SYNC;
}

bool tr_mode_cuts_by_all(const tr_mode *mode)
{
    return tr_mode_keeps_apart(mode) && !mode->goes_on;
}

/* Where an update is of all trainers each is to have a batch for each. */
bool tr_mode_leases(const tr_mode *mode)
{
    return mode->kind != TR_MODE_SYNC;
}

bool tr_mode_survives_trainers(const tr_mode *mode)
{
    return tr_mode_keeps_apart(mode);
}
