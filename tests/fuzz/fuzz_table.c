/* fuzz_table.c - a sparse table as a dead process has left it in shared memory, damaged: it is refused, or used without a step outside.
 *
 * The input damages the five segments of a table that was written as it should be, in the middle of its index's growth and of an
 * update (damage.h): rows, index, rows and index of the keys that wait, log. */
#include "storage/table/table.h"
#include "tests/fuzz/damage.h"

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);

enum { PARTS = 5, KEYS = 850, WIDTH = 2, STEP = 5, NEW = 40 };
static const char *const part[PARTS] = {"rows", "index", "waiting.rows", "waiting.index", "undo"};

static const tr_table_config config = {.dtype = TR_FP32, .width = WIDTH, .states = 1, .entry_count = 2, .max_age = 100, .max_rows = 4096};
static char                  name[64];
static damaged               left[PARTS];

static tr_table_segment place(void)
{
    return (tr_table_segment){name, 0, TR_SHARDS, 1 << 20, false};
}

static const char *name_of(int index)
{
    static char text[80];
    snprintf(text, sizeof text, "%s.%s", name, part[index]);
    return text;
}

static void update(tr_table *t, uint64_t step, int64_t first, int64_t n)
{
    static int64_t  keys[KEYS];
    static uint32_t slots[KEYS];
    static float    values[KEYS * WIDTH], states[KEYS * WIDTH];
    float          *const all[1] = {states};
    const float    *const back[1] = {states};

    for (int64_t i = 0; i < n; i++)
        keys[i] = first + i;
    if (tr_table_begin(t, step) != TR_OK || tr_table_take(t, slots, keys, n) != TR_OK)
        return;
    tr_table_gather(t, slots, n, values, all);
    if (tr_table_keep(t, slots, n) == TR_OK)
        tr_table_scatter(t, slots, n, values, back);
}

static void make_whole(void)
{
    const tr_table_segment here = place();
    tr_table            *t = NULL;

    if (tr_table_create(&t, &config, &here) != TR_OK)
        abort();
    update(t, 1, 0, KEYS);
    update(t, 2, 0, KEYS - 20);
    update(t, 3, 0, KEYS - 20);
    tr_table_evict(t, 4, NULL);
    update(t, STEP, 10, NEW);
    tr_table_free(t);
}

static void remove_all(void)
{
    tr_table_remove(name);
}

static void begin(void)
{
    snprintf(name, sizeof name, "trireme-fuzz-%d", (int)getpid());
    make_whole();
    for (int i = 0; i < PARTS; i++)
        read_segment(&left[i], name_of(i));
    atexit(remove_all);
}

static void read_all(tr_table *t)
{
    static int64_t keys[KEYS];
    static float   out[KEYS * WIDTH];
    void          *rows;
    uint64_t       bytes;

    for (int i = 0; i < KEYS; i++)
        keys[i] = i;
    tr_table_pull(t, out, keys, KEYS);
    tr_table_pull_before(t, out, keys, KEYS);
    for (uint32_t shard = 0; shard < TR_SHARDS; shard += 37) {
        if (tr_table_pack(t, shard, &rows, &bytes) == TR_OK)
            free(rows);
        if (tr_table_pack_candidates(t, shard, &rows, &bytes) == TR_OK)
            free(rows);
    }
}

static void use(tr_table *t)
{
    void    *rows;
    uint64_t bytes;

    read_all(t);
    if (tr_table_snapshot(t, 0, 0) != TR_OK)
        return;
    update(t, STEP + 1, KEYS - 30, 60);
    for (uint32_t shard = 0; shard < TR_SHARDS; shard += 61)
        if (tr_table_snapshot_read(t, shard, &rows, &bytes) == TR_OK)
            free(rows);
    tr_table_snapshot_end(t);
    update(t, STEP + 2, KEYS - 30, 60);                /* whose keys have waited */
    for (uint64_t step = 1; step <= TR_SHARDS; step += 17)
        tr_table_evict(t, 200 + step, NULL);
    update(t, 3000, 2000, 200);
    tr_table_go_back(t, 2999);
    read_all(t);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
    const tr_table_segment here = place();
    tr_table            *t = NULL;

    if (!name[0])
        begin();
    damage(left, PARTS, input, size);
    for (int i = 0; i < PARTS; i++)
        write_segment(&left[i], name_of(i));
    for (int time = 0; time < 2; time++) {             /* and once more, by who comes after */
        if (tr_table_attach(&t, &config, &here, STEP - 1) != TR_OK)
            return 0;
        use(t);
        tr_table_free(t);
    }
    return 0;
}
