/* board.c - see board.h. */
#include "pserver/core/board/board.h"

#include "framework/base/memory.h"

#include <stdlib.h>
#include <string.h>

enum { CHAINS = 1024, POST_OVERHEAD = 128 };

struct tr_board {
    tr_durable_board  durable;
    int            trainers;
    uint64_t       bytes;             /* size of all items */
    uint64_t       forgotten;         /* the highest number of a deleted collective */
    uint32_t       stops;
    tr_board_item *first, **end;
    tr_board_item *chain[CHAINS];
};

/* == packed ======================================================================================= */

uint8_t *tr_board_pack(const tr_post *post, size_t *size)
{
    *size = trireme__pserver__post__get_packed_size(post);
    uint8_t *packed = tr__must_alloc(*size);
    trireme__pserver__post__pack(post, packed);
    return packed;
}

uint8_t *tr_board_pack_complete(uint64_t number, char *name, size_t *size)
{
    tr_post mark = TRIREME__PSERVER__POST__INIT;

    mark.number = number;
    mark.name = name;
    mark.has_is_complete = mark.is_complete = true;
    return tr_board_pack(&mark, size);
}

static uint64_t bytes_of(const tr_post *post)
{
    return POST_OVERHEAD + post->data.len + (post->call ? strlen(post->call) : 0) + (post->line ? strlen(post->line) : 0);
}

/* == items ======================================================================================== */

static uint32_t hash_of(uint64_t number, const char *name)
{
    uint64_t hash = 14695981039346656037u ^ number;

    for (const char *c = name; *c; c++)
        hash = (hash ^ (uint8_t)*c) * 1099511628211u;
    return (uint32_t)(hash % CHAINS);
}

static bool is_it(const tr_board_item *item, uint64_t number, const char *name)
{
    return item->number == number && !strcmp(item->name, name);
}

const tr_board_item *tr_board_find(const tr_board *board, uint64_t number, const char *name)
{
    const char    *text = name ? name : "";
    tr_board_item *item = board->chain[hash_of(number, text)];

    while (item && !is_it(item, number, text))
        item = item->chain;
    return item;
}

bool tr_board_has_forgotten(const tr_board *board, uint64_t number)
{
    return number > 0 && number <= board->forgotten;
}

uint32_t tr_board_stops(const tr_board *board)
{
    return board->stops;
}

const tr_post *tr_board_first(const tr_board *board, const tr_board_item *item)
{
    for (int i = 0; item && i < board->trainers; i++)
        if (item->post[i])
            return item->post[i];
    return NULL;
}

static tr_board_item *add_item(tr_board *board, uint64_t number, const char *name)
{
    tr_board_item  *item = tr__must_alloc(sizeof *item);
    tr_board_item **chain = &board->chain[hash_of(number, name)];

    item->number = number;
    item->name = tr__must_strdup(name);
    item->post = tr__must_alloc((size_t)board->trainers * sizeof(tr_post *));
    item->chain = *chain;
    *chain = item;
    *board->end = item;
    board->end = &item->next;
    return item;
}

static void free_item(tr_board_item *item, int trainers)
{
    for (int i = 0; i < trainers; i++)
        if (item->post[i])
            trireme__pserver__post__free_unpacked(item->post[i], NULL);
    free(item->post);
    free(item->name);
    free(item);
}

static bool is_settled(const tr_board_item *item)
{
    return item->is_complete || item->number == 0;
}

static void forget_first(tr_board *board)
{
    tr_board_item  *oldest = board->first;
    tr_board_item **chain = &board->chain[hash_of(oldest->number, oldest->name)];

    while (*chain != oldest)
        chain = &(*chain)->chain;
    *chain = oldest->chain;
    board->first = oldest->next;
    if (!board->first)
        board->end = &board->first;
    board->bytes -= oldest->bytes;
    board->forgotten = oldest->number > board->forgotten ? oldest->number : board->forgotten;
    free_item(oldest, board->trainers);
}

/* Delete the oldest complete items until the board is within the limit. The newest item stays, because it was added just now. */
static void forget(tr_board *board, uint64_t limit)
{
    while (board->bytes > limit && board->first && board->first->next && is_settled(board->first))
        forget_first(board);
}

/* == kept ========================================================================================= */

/* The size of half of the durable memory: space for the complete items, and for two collectives that are not complete. */
static uint64_t half_of(int trainers)
{
    return TR_BOARD_LIMIT + 2 * (uint64_t)trainers * (TR_BOARD_POST + 4096) + (1 << 16);
}

static void write_again(void *self, uint8_t *packed, size_t size)
{
    tr_durable_board_add(self, packed, size);
    free(packed);
}

/* Store a post in durable memory. When a half is full, the older complete items are deleted before the rest moves to the other half. */
static void make_durable(tr_board *board, const uint8_t *packed, size_t size)
{
    if (tr_durable_board_add(&board->durable, packed, size))
        return;
    forget(board, TR_BOARD_LIMIT / 2);
    tr_durable_board_begin(&board->durable);
    tr_board_each(board, write_again, &board->durable);       /* includes the new post, which is on the board already */
    tr_durable_board_switch(&board->durable);
}

static void read_durable(tr_board *board)
{
    const tr_durable_board durable = board->durable;
    const uint8_t      *packed;
    uint64_t            at = 0;
    size_t              size;
    bool                is_new;

    board->durable.memory = NULL;                     /* posts that are read from the memory must not be appended to it */
    while ((packed = tr_durable_board_next(&durable, &at, &size)))
        if (tr_board_put(&is_new, board, packed, size) != TR_OK)
            break;
    board->durable = durable;
    for (const tr_board_item *item = board->first; item; item = item->next)
        if (item->number) {
            const uint64_t before = item->number - 1;
            board->forgotten = before > board->forgotten ? before : board->forgotten;
            break;
        }
}

/* == life ========================================================================================= */

tr_board *tr_board_new(const tr_store *store, int trainers, bool resumes)
{
    tr_board *board = tr__must_alloc(sizeof *board);

    board->trainers = trainers;
    board->end = &board->first;
    if (resumes && tr_durable_board_attach(&board->durable, store))
        read_durable(board);
    else
        tr_durable_board_create(&board->durable, store, half_of(trainers));
    return board;
}

void tr_board_free(tr_board *board)
{
    if (!board)
        return;
    while (board->first) {
        tr_board_item *next = board->first->next;
        free_item(board->first, board->trainers);
        board->first = next;
    }
    free(board);
}

/* == posts ======================================================================================== */

static tr_status unpack(tr_post **out, const tr_board *board, const uint8_t *packed, size_t size)
{
    tr_post *post = trireme__pserver__post__unpack(NULL, size, packed);

    *out = NULL;
    if (!post || post->trainer >= (uint32_t)board->trainers || (!post->has_data && !post->is_complete) || post->data.len > TR_BOARD_POST) {
        if (post)
            trireme__pserver__post__free_unpacked(post, NULL);
        return tr_fail(TR_EFORMAT, "a post of %zu bytes is damaged", size);
    }
    *out = post;
    return TR_OK;
}

static bool is_addable(const tr_board *board, const tr_board_item *item, const tr_post *post)
{
    if (post->is_complete)
        return item && !item->is_complete;
    return !tr_board_has_forgotten(board, post->number) && (!item || (!item->is_complete && !item->post[post->trainer]));
}

tr_status tr_board_put(bool *is_new, tr_board *board, const uint8_t *packed, size_t size)
{
    tr_post *post;

    TR_TRY(unpack(&post, board, packed, size));
    const char    *name = post->name ? post->name : "";
    tr_board_item *item = (tr_board_item *)(uintptr_t)tr_board_find(board, post->number, name);
    *is_new = is_addable(board, item, post);
    if (!*is_new) {
        trireme__pserver__post__free_unpacked(post, NULL);
        return TR_OK;
    }
    if (!item)
        item = add_item(board, post->number, name);
    board->stops = post->stops > board->stops ? post->stops : board->stops;
    item->bytes += bytes_of(post);
    board->bytes += bytes_of(post);
    if (post->is_complete) {
        item->is_complete = true;
        trireme__pserver__post__free_unpacked(post, NULL);
    } else {
        item->post[post->trainer] = post;
    }
    make_durable(board, packed, size);
    forget(board, TR_BOARD_LIMIT);
    return TR_OK;
}

void tr_board_each(const tr_board *board, void (*visit)(void *self, uint8_t *packed, size_t size), void *self)
{
    size_t size;

    for (const tr_board_item *item = board->first; item; item = item->next) {
        for (int i = 0; i < board->trainers; i++)
            if (item->post[i]) {
                uint8_t *packed = tr_board_pack(item->post[i], &size);
                visit(self, packed, size);
            }
        if (item->is_complete) {
            uint8_t *packed = tr_board_pack_complete(item->number, item->name, &size);
            visit(self, packed, size);
        }
    }
}
