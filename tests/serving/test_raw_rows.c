/* test_raw_rows.c - rows of raw values become feeds, and mistakes in them are explained. */
#include "tests/support/expect.h"

#include "framework/base/name.h"
#include "framework/base/status.h"
#include "serving/raw_rows.h"

#include <math.h>
#include <string.h>

enum { USER, TAGS, COUNT, PRICE, PAIRS, SLOTS };

static tr_raw_slot slot[SLOTS] = {
    {.name = "user", .dtype = TR_INT64, .rank = 2, .dims = {-1, 1}, .width = 1, .hash_buckets = 1000, .expected = "a text or an integer"},
    {.name = "tags", .dtype = TR_INT64, .rank = 2, .dims = {-1, 1}, .width = 1, .lod_level = 1, .hash_buckets = 1000},
    {.name = "count", .dtype = TR_INT64, .rank = 2, .dims = {-1, 1}, .width = 1, .expected = "an integer", .has_missing = true,
     .missing = -1},
    {.name = "price", .dtype = TR_FP32, .rank = 2, .dims = {-1, 1}, .width = 1, .expected = "a number"},
    {.name = "pairs", .dtype = TR_FP64, .rank = 2, .dims = {-1, 2}, .width = 2, .lod_level = 1, .expected = "a number"},
};
static const tr_raw_slots slots = {SLOTS, slot};

/* Values of two rows. A test changes one of them. */
static const tr_raw_text users[] = {{"Oslo", 4}, {"7", 1}}, tags[] = {{"7", 1}, {NULL, 0}, {"Oslo", 4}};
static const int64_t     counts[] = {5, INT64_MIN}, tag_offsets[] = {0, 0, 3}, pair_offsets[] = {0, 4, 6};
static const double      prices[] = {0.1, 16777217}, pairs[] = {1, 2, 3, 4, 5, 6};
static const bool        second_is_null[] = {false, true};
static const tr_raw_values good[SLOTS] = {
    {.slot = "pairs", .kind = TR_RAW_NUMBERS, .numbers = pairs, .offsets = pair_offsets},         /* in any order */
    {.slot = "user", .kind = TR_RAW_TEXTS, .texts = users},
    {.slot = "tags", .kind = TR_RAW_TEXTS, .texts = tags, .offsets = tag_offsets},
    {.slot = "count", .kind = TR_RAW_INTS, .ints = counts, .is_null = second_is_null},
    {.slot = "price", .kind = TR_RAW_NUMBERS, .numbers = prices},
};

static tr_raw_rows *new_rows(void)
{
    tr_raw_rows *rows = NULL;

    EXPECT_OK(tr__raw_rows_new(&rows, &slots, "model"));
    return rows;
}

static void expect_ids(const tr_feed *feed, int64_t first, int64_t second)
{
    const int64_t *ids = feed->data;

    assert_int_equal(ids[0], first);
    assert_int_equal(ids[1], second);
}

TEST(rows_become_feeds_in_the_order_of_the_slots)
{
    enum { OSLO = 394 };                                   /* trireme.feeds.hash_id("Oslo", 1000) */
    tr_raw_rows *rows = new_rows();

    assert_null(tr_raw_rows_feeds(rows));
    EXPECT_OK(tr_raw_rows_fill(rows, 2, SLOTS, good));
    const tr_feed *feeds = tr_raw_rows_feeds(rows);
    const int64_t *tag = feeds[TAGS].data;
    assert_int_equal(*(const int64_t *)feeds[USER].data, OSLO);
    assert_int_equal(tag[2], OSLO);
    assert_int_equal(tag[0], ((const int64_t *)feeds[USER].data)[1]);
    assert_true(feeds[TAGS].dims[0] == 3 && feeds[TAGS].lod_levels == 1 && feeds[TAGS].lod_counts[0] == 3);
    assert_true(feeds[TAGS].lod_offsets[0][1] == 0 && feeds[TAGS].lod_offsets[0][2] == 3);
    expect_ids(&feeds[COUNT], 5, -1);
    assert_true(((const float *)feeds[PRICE].data)[0] == 0.1f && ((const float *)feeds[PRICE].data)[1] == 16777216);
    assert_true(feeds[PAIRS].dims[0] == 3 && feeds[PAIRS].dims[1] == 2 && feeds[PAIRS].lod_offsets[0][1] == 2);
    assert_true(feeds[USER].dims[0] == 2 && feeds[USER].lod_levels == 0 && strcmp(feeds[USER].name, "user") == 0);
    const void *data = feeds[PAIRS].data;
    EXPECT_OK(tr_raw_rows_fill(rows, 1, SLOTS, good));     /* in the same memory */
    assert_ptr_equal(tr_raw_rows_feeds(rows)[PAIRS].data, data);
    assert_true(tr_raw_rows_feeds(rows)[PAIRS].dims[0] == 2 && tr_raw_rows_feeds(rows)[USER].dims[0] == 1);
    EXPECT_OK(tr_raw_rows_fill(rows, 0, SLOTS, good));
    assert_true(tr_raw_rows_feeds(rows)[USER].dims[0] == 0);
    tr_raw_rows_free(rows);
}

TEST(the_digits_of_an_integer_are_a_text_and_a_null_is_the_empty_one)
{
    static const int64_t ints[] = {7, 8};
    tr_raw_values        values[SLOTS];
    tr_raw_rows         *rows = new_rows();

    memcpy(values, good, sizeof values);
    EXPECT_OK(tr_raw_rows_fill(rows, 2, SLOTS, values));
    const int64_t seven = ((const int64_t *)tr_raw_rows_feeds(rows)[USER].data)[1];
    const int64_t nothing = ((const int64_t *)tr_raw_rows_feeds(rows)[TAGS].data)[1];
    values[1] = (tr_raw_values){.slot = "user", .kind = TR_RAW_INTS, .ints = ints, .is_null = second_is_null};
    EXPECT_OK(tr_raw_rows_fill(rows, 2, SLOTS, values));
    expect_ids(&tr_raw_rows_feeds(rows)[USER], seven, nothing);
    tr_raw_rows_free(rows);
}

/* Expect a refusal with this text. The values of one slot are `changed`, all others are good. */
static void expect_mistake(tr_status status, const char *text, const tr_raw_values *changed)
{
    tr_raw_values values[SLOTS];
    tr_raw_rows  *rows = new_rows();

    memcpy(values, good, sizeof values);
    for (int i = 0; i < SLOTS; i++)
        if (strcmp(values[i].slot, changed->slot) == 0)
            values[i] = *changed;
    EXPECT_FAIL(status, text, tr_raw_rows_fill(rows, 2, SLOTS, values));
    assert_null(tr_raw_rows_feeds(rows));
    tr_raw_rows_free(rows);
}

TEST(a_value_that_does_not_fit_is_explained)
{
    static const double      wrong[] = {1, INFINITY}, nan[] = {1, NAN};
    static const tr_raw_text bad[] = {{"ok", 2}, {"a\xff", 2}}, half[] = {{"ok", 2}, {"\xc3\xa4", 1}};
    static const int64_t     falls[] = {0, 3, 2}, late[] = {1, 2, 3}, odd[] = {0, 3, 4};

    expect_mistake(TR_EINVAL, "row 1 (from 0), slot 'price': expected a number, got inf",
                   &(tr_raw_values){.slot = "price", .kind = TR_RAW_NUMBERS, .numbers = wrong});
    expect_mistake(TR_EINVAL, "row 1 (from 0), slot 'price': expected a number (the slot says no `missing=` value), got null",
                   &(tr_raw_values){.slot = "price", .kind = TR_RAW_NUMBERS, .numbers = nan});
    expect_mistake(TR_EINVAL, "row 0 (from 0), slot 'count': expected an integer, got 1.0",
                   &(tr_raw_values){.slot = "count", .kind = TR_RAW_NUMBERS, .numbers = nan});
    expect_mistake(TR_EINVAL, "row 0 (from 0), slot 'count': expected an integer, got 'ok'",
                   &(tr_raw_values){.slot = "count", .kind = TR_RAW_TEXTS, .texts = bad});
    expect_mistake(TR_EINVAL, "row 0 (from 0), slot 'user': expected a text or an integer, got 1.0",
                   &(tr_raw_values){.slot = "user", .kind = TR_RAW_NUMBERS, .numbers = nan});
    expect_mistake(TR_EINVAL, "row 1 (from 0), slot 'user': expected a text or an integer, got 'a\\xff', of which byte 1 (from 0) is no "
                   "UTF-8",
                   &(tr_raw_values){.slot = "user", .kind = TR_RAW_TEXTS, .texts = bad});
    expect_mistake(TR_EINVAL, "got '\\xc3', of which byte 0", &(tr_raw_values){.slot = "user", .kind = TR_RAW_TEXTS, .texts = half});
    expect_mistake(TR_EINVAL, "'user': there is no kind 9", &(tr_raw_values){.slot = "user", .kind = (tr_raw_kind)9});
    expect_mistake(TR_EINVAL, "'user' is no sequence", &(tr_raw_values){.slot = "user", .texts = users, .offsets = odd});
    expect_mistake(TR_EINVAL, "'pairs' is a sequence", &(tr_raw_values){.slot = "pairs", .kind = TR_RAW_NUMBERS, .numbers = pairs});
    expect_mistake(TR_EINVAL, "the first is 0",
                   &(tr_raw_values){.slot = "pairs", .kind = TR_RAW_NUMBERS, .numbers = pairs, .offsets = late});
    expect_mistake(TR_EINVAL, "the offsets fall from 3 to 2",
                   &(tr_raw_values){.slot = "tags", .kind = TR_RAW_TEXTS, .texts = tags, .offsets = falls});
    expect_mistake(TR_EINVAL, "row 0 (from 0), slot 'pairs': expected a multiple of 2 values, got 3",
                   &(tr_raw_values){.slot = "pairs", .kind = TR_RAW_NUMBERS, .numbers = pairs, .offsets = odd});
}

TEST(each_slot_has_values_once)
{
    tr_raw_values values[SLOTS + 1];
    tr_raw_rows  *rows = new_rows();

    memcpy(values, good, sizeof good);
    EXPECT_FAIL(TR_ENOTFOUND, "slot 'price' has no values", tr_raw_rows_fill(rows, 2, SLOTS - 1, values));
    values[SLOTS] = good[0];
    EXPECT_FAIL(TR_EEXIST, "the values of slot 'pairs' are there twice", tr_raw_rows_fill(rows, 2, SLOTS + 1, values));
    values[SLOTS - 1] = good[0];
    EXPECT_FAIL(TR_EEXIST, "the values of slot 'pairs' are there twice", tr_raw_rows_fill(rows, 2, SLOTS, values));
    values[SLOTS - 1].slot = "cost";
    EXPECT_FAIL(TR_ENOTFOUND, "the model has no slot 'cost'", tr_raw_rows_fill(rows, 2, SLOTS, values));
    EXPECT_FAIL(TR_ERANGE, "-1 rows", tr_raw_rows_fill(rows, -1, SLOTS, good));
    EXPECT_FAIL(TR_EUNSUPPORTED, "the model in 'model' was saved without slots", tr__raw_rows_new(&rows, NULL, "model"));
    tr_raw_rows_free(rows);
}

TEST(the_first_byte_that_is_no_utf_8_is_found)
{
    static const char text[] = "a\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80";

    assert_int_equal(tr__utf8_mistake(text, sizeof text - 1), -1);
    for (int64_t size = 0; size < (int64_t)sizeof text - 1; size++) {          /* a character is cut, or none is */
        const bool is_whole = size <= 1 || size == 3 || size == 6;
        assert_int_equal(tr__utf8_mistake(text, size), is_whole ? -1 : size < 3 ? 1 : size < 6 ? 3 : 6);
    }
    assert_int_equal(tr__utf8_mistake("\0b", 2), -1);
    assert_int_equal(tr__utf8_mistake("ab\xc3", 3), 2);
    assert_int_equal(tr__utf8_mistake("\xed\xa0\x80", 3), 0);                  /* half of a pair of UTF-16 */
    assert_int_equal(tr__utf8_mistake("\xc0\x80", 2), 0);                      /* longer than needed */
}

TEST(texts_of_the_network_are_read_to_their_end)
{
    static const char good_texts[] = "\4\0\0\0Oslo\0\0\0\0\1\0\0\0" "7", not_utf8[] = "\1\0\0\0\xff";
    int64_t           ids[3], nothing;

    EXPECT_OK(tr_raw_ids(ids, 3, 1000, good_texts, sizeof good_texts - 1));
    assert_int_equal(ids[0], 394);
    EXPECT_OK(tr_raw_ids(&nothing, 1, 1000, good_texts + 8, 4));
    assert_int_equal(ids[1], nothing);
    EXPECT_OK(tr_raw_ids(NULL, 0, 1000, NULL, 0));
    EXPECT_FAIL(TR_EINVAL, "text 2 of 3 (from 0) says that it has 1 bytes, and 0 are left", tr_raw_ids(ids, 3, 1000, good_texts, 16));
    EXPECT_FAIL(TR_EINVAL, "text 2 of 3 (from 0) has no size", tr_raw_ids(ids, 3, 1000, good_texts, 15));
    EXPECT_FAIL(TR_EINVAL, "2 texts take 12 bytes, 17 came", tr_raw_ids(ids, 2, 1000, good_texts, 17));
    EXPECT_FAIL(TR_EINVAL, "expected UTF-8, and byte 0 is none", tr_raw_ids(ids, 1, 1000, not_utf8, 5));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_become_feeds_in_the_order_of_the_slots),
        cmocka_unit_test(the_digits_of_an_integer_are_a_text_and_a_null_is_the_empty_one),
        cmocka_unit_test(a_value_that_does_not_fit_is_explained),
        cmocka_unit_test(each_slot_has_values_once),
        cmocka_unit_test(the_first_byte_that_is_no_utf_8_is_found),
        cmocka_unit_test(texts_of_the_network_are_read_to_their_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
