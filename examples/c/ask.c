/* ask.c - asks a model with a row of raw values, as the training's data had them.
 *
 *     cc ask.c $(pkg-config --cflags --libs trireme) -o ask
 *     ./ask exports user=u7 film=f48 genres=8            # a value for each slot; commas separate the values of a list
 *
 * The model was saved with its slots. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trireme_serving.h"

enum { MOST_VALUES = 100 };

/* The values of one slot in one row. */
typedef struct column {
    int64_t     ints[MOST_VALUES];
    double      numbers[MOST_VALUES];
    tr_raw_text texts[MOST_VALUES];
    int64_t     offsets[2];
} column;

static void check(tr_status status)
{
    if (status == TR_OK)
        return;
    fprintf(stderr, "ask: %s\n", tr_error());
    exit(1);
}

static const tr_raw_slot *find_slot(const tr_predictor *predictor, const char *name)
{
    for (int i = 0; i < tr_predictor_slot_count(predictor); i++)
        if (strcmp(tr_predictor_slot(predictor, i)->name, name) == 0)
            return tr_predictor_slot(predictor, i);
    fprintf(stderr, "ask: the model has no slot '%s'\n", name);
    exit(1);
}

/* Read NAME=VALUE,VALUE... The slot says whether its values are texts, integers or floats. */
static void read_argument(tr_raw_values *out, column *to, const tr_predictor *predictor, char *argument)
{
    char    *value = strchr(argument, '='), *rest = NULL;
    int64_t  count = 0;

    if (!value) {
        fprintf(stderr, "ask: expected NAME=VALUE, got '%s'\n", argument);
        exit(2);
    }
    *value++ = '\0';
    const tr_raw_slot *slot = find_slot(predictor, argument);
    for (char *one = strtok_r(value, ",", &rest); one && count < MOST_VALUES; one = strtok_r(NULL, ",", &rest), count++) {
        to->texts[count] = (tr_raw_text){one, (int64_t)strlen(one)};
        to->ints[count] = strtoll(one, NULL, 10);
        to->numbers[count] = strtod(one, NULL);
    }
    if (slot->lod_level == 0 && count != slot->width) {
        fprintf(stderr, "ask: slot '%s' has %lld values in each row\n", slot->name, (long long)slot->width);
        exit(2);
    }
    to->offsets[1] = count;
    *out = (tr_raw_values){.slot = slot->name, .ints = to->ints, .numbers = to->numbers, .texts = to->texts};
    out->kind = slot->hash_buckets ? TR_RAW_TEXTS : slot->dtype == TR_INT64 ? TR_RAW_INTS : TR_RAW_NUMBERS;
    if (slot->lod_level)
        out->offsets = to->offsets;
}

int main(int argc, char **argv)
{
    tr_predictor *predictor = NULL;
    tr_raw_rows  *rows = NULL;
    tr_tensor    *result = tr_tensor_new();

    if (argc < 2) {
        fprintf(stderr, "usage: ask MODEL_DIRECTORY SLOT=VALUE...\n");
        return 2;
    }
    check(tr_predictor_load(&predictor, argv[1]));
    check(tr_raw_rows_new(&rows, predictor));
    tr_raw_values *values = calloc((size_t)argc, sizeof *values);
    column        *columns = calloc((size_t)argc, sizeof *columns);
    for (int i = 2; values && columns && i < argc; i++)
        read_argument(&values[i - 2], &columns[i - 2], predictor, argv[i]);
    check(tr_raw_rows_fill(rows, 1, argc - 2, values));
    check(tr_predictor_run(predictor, tr_raw_rows_feeds(rows), &result));
    printf("%.9g\n", (double)*(const float *)tr_tensor_data(result));
    free(values);
    free(columns);
    tr_tensor_free(result);
    tr_raw_rows_free(rows);
    tr_predictor_free(predictor);
    return 0;
}
