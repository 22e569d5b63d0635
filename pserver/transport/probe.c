/* probe.c - see probe.h. Rank 0 gives orders and the other ranks obey; their messages use the transport directly. */
#include "pserver/transport/probe.h"

#include "pserver/observe/launcher.h"
#include "pserver/transport/transport.h"
#include "pserver/util/wake.h"

#include "framework/base/memory.h"
#include "framework/base/number.h"
#include "framework/trireme.h"

#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

enum { LARGEST = 16 << 20, NAME = 256 };
static const struct { int64_t bytes; int rounds; } sizes[] = {{8, 1000}, {256 << 10, 200}, {LARGEST, 16}};
enum { SIZES = sizeof sizes / sizeof sizes[0] };
static const int64_t BUDGET = 200000000;           /* nanoseconds for all rounds of one size, except the first three */

typedef enum kind {
    NONE = 0,
    HELLO,                            /* to rank 0: host and version, as text */
    MEASURE,                          /* from rank 0: measure the connection to rank `about` */
    THERE, BACK,                      /* `bytes` bytes of a pattern, compared at both ends if `is_checked` */
    RESULT,                           /* to rank 0: the times, or the news that bytes were damaged */
    STOP                              /* from rank 0: the end */
} kind;

/* Notes between ranks, packed into the header of 64 bytes. */
typedef struct note {
    char     magic[4];
    uint32_t kind;
    int64_t  bytes;
    uint32_t round, about;
    uint32_t is_checked, is_damaged;
    double   time[SIZES];             /* seconds for a round trip of each size */
    uint64_t unused;
} note;
_Static_assert(sizeof(note) == TR_TRANSPORT_HEADER, "a note is a header");
static const char MAGIC[4] = {'T', 'R', 'P', '1'};

typedef struct probe {
    const tr_transport_table *table;
    tr_transport *transport;
    int           rank, size;
    int64_t       timeout;
    uint8_t      *out, *in;           /* memory for the largest message, one for each direction */
    note          got;                /* the last note that nobody has handled yet; kind NONE: there is none */
    int           from;
    int           sending;            /* messages whose memory is still in use */
    int           hellos;
    char        (*host)[NAME];        /* rank 0: "HOST VERSION" of each rank; "": not known yet */
    bool          is_dead, is_damaged;
    int           dead;
    bool          has_stopped;
} probe;

/* == bytes ==================================================================================== */

/* A pattern that differs for each pair and size, and from one word to the next. */
static uint64_t pattern_at(uint64_t seed, int64_t at)
{
    uint64_t x = (seed + (uint64_t)at) * 0x9e3779b97f4a7c15u;
    return x ^ x >> 29;
}

static void fill(uint64_t *to, int64_t bytes, uint64_t seed)
{
    for (int64_t i = 0; i < bytes / 8; i++)
        to[i] = pattern_at(seed, i);
}

static bool is_intact(const uint64_t *from, int64_t bytes, uint64_t seed)
{
    for (int64_t i = 0; i < bytes / 8; i++)
        if (from[i] != pattern_at(seed, i))
            return false;
    return true;
}

/* The same seed for both directions of a pair. */
static uint64_t seed_of(int a, int b, int64_t bytes)
{
    return ((uint64_t)(a < b ? a : b) << 40) + ((uint64_t)(a < b ? b : a) << 20) + (uint64_t)bytes * 7;
}

/* == messages ================================================================================= */

static void step(probe *p);

static bool send_note(probe *p, int peer, const note *n, const void *payload)
{
    while (!p->table->send(p->transport, peer, (const uint8_t *)n, payload, n->bytes, &p->sending)) {
        if (p->is_dead)
            return false;
        step(p);
    }
    p->sending++;
    return true;
}

static int64_t on_header(void *self, int peer, const uint8_t *header, void **to)
{
    const probe *p = self;
    note         n;

    (void)peer;
    memcpy(&n, header, sizeof n);
    if (memcmp(n.magic, MAGIC, sizeof MAGIC) || n.bytes < 0 || n.bytes > LARGEST)
        return -1;
    *to = n.bytes ? p->in : NULL;
    return n.bytes;
}

static void on_receive(void *self, int peer, const uint8_t *header, void *payload, int64_t bytes, bool is_direct)
{
    probe *p = self;
    note   n;

    memcpy(&n, header, sizeof n);
    if (memcmp(n.magic, MAGIC, sizeof MAGIC) || n.bytes != bytes)
        return;
    if (bytes && !is_direct)
        memcpy(p->in, payload, (size_t)bytes);
    if (n.kind == HELLO && p->rank == 0 && !p->host[peer][0]) {
        snprintf(p->host[peer], NAME, "%.*s", (int)(bytes < NAME ? bytes : NAME - 1), (const char *)p->in);
        p->hellos++;
        return;
    }
    if (n.kind == STOP)
        p->has_stopped = true;
    p->got = n;
    p->from = peer;
}

static void on_sent(void *self, void *token)
{
    (void)self;
    --*(int *)token;
}

static void on_dead(void *self, int peer)
{
    probe *p = self;

    p->is_dead = true;
    p->dead = peer;
}

/* Make one poll of the transport. */
static void step(probe *p)
{
    p->table->poll(p->transport);
}

/* Wait for a note of this kind (NONE: of any kind). False: it did not come in time, or a rank is dead. */
static bool await(probe *p, kind wanted)
{
    const int64_t begin = tr__clock();
    int           idle = 0;

    while (p->got.kind == NONE || (wanted != NONE && p->got.kind != (uint32_t)wanted)) {
        if (p->is_dead || tr__clock() - begin > p->timeout)
            return false;
        /* Ranks in a measurement poll without a pause; the others sleep and leave the cores to them. */
        idle = p->table->poll(p->transport) ? 0 : idle + 1;
        if (idle > 20000)
            usleep(200);
        else if (idle > 100)
            sched_yield();
    }
    return true;
}

static const char *name_of(const probe *p, int rank, char out[NAME + 32])
{
    if (p->host && p->host[rank][0])
        snprintf(out, NAME + 32, "rank %d (host %.*s)", rank, (int)strcspn(p->host[rank], " "), p->host[rank]);
    else
        snprintf(out, NAME + 32, "rank %d", rank);
    return out;
}

static tr_status silent(const probe *p, int rank, const char *what)
{
    char a[NAME + 32], b[NAME + 32];

    if (p->is_dead)
        return tr_fail(TR_EPEER, "%s died; %s was waiting for %s", name_of(p, p->dead, a), name_of(p, p->rank, b), what);
    return tr_fail(TR_ETIMEOUT, "%s did not answer %s for %.0f s: it was to give %s", name_of(p, rank, a),
                   name_of(p, p->rank, b), (double)p->timeout / 1e9, what);
}

/* == one pair ================================================================================= */

/* Make one round trip and return its time. Negative: the message did not come back. */
static int64_t go_and_return(probe *p, int peer, int64_t bytes, uint32_t round)
{
    note n = {.kind = THERE, .bytes = bytes, .round = round, .is_checked = round == 0};

    memcpy(n.magic, MAGIC, sizeof MAGIC);
    p->got.kind = NONE;
    const int64_t begin = tr__clock();
    if (!send_note(p, peer, &n, p->out) || !await(p, BACK))
        return -1;
    const int64_t time = tr__clock() - begin;
    const uint64_t seed = seed_of(p->rank, peer, bytes);
    p->is_damaged |= p->got.is_damaged || p->got.round != round || p->got.bytes != bytes;
    p->is_damaged |= !is_intact((const uint64_t *)p->in, round ? 8 : bytes, seed);
    return time;
}

/* Return the time, in seconds, of a message of one size: the best round. Other programs on the hosts make some rounds slow; a slow
 * connection makes all of them slow. Negative: the peer has not answered. */
static double measure_size(probe *p, int peer, int64_t bytes, int rounds)
{
    int64_t       best = INT64_MAX;
    const int64_t begin = tr__clock();

    fill((uint64_t *)p->out, bytes, seed_of(p->rank, peer, bytes));
    if (go_and_return(p, peer, bytes, 0) < 0)
        return -1;
    for (int i = 1; i <= rounds && (i <= 2 || tr__clock() - begin < BUDGET); i++) {
        const int64_t time = go_and_return(p, peer, bytes, (uint32_t)i);
        if (time < 0)
            return -1;
        best = time < best ? time : best;
    }
    return (double)best / 1e9;
}

/* Measure the connection to a peer; the result is a note for rank 0. */
static tr_status measure(probe *p, int peer, note *result)
{
    memcpy(result->magic, MAGIC, sizeof MAGIC);
    result->kind = RESULT;
    result->about = (uint32_t)peer;
    p->is_damaged = false;
    for (int i = 0; i < (int)SIZES; i++) {
        result->time[i] = measure_size(p, peer, sizes[i].bytes, sizes[i].rounds);
        if (result->time[i] < 0)
            return silent(p, peer, "a message back");
    }
    result->is_damaged = p->is_damaged;
    return TR_OK;
}

/* Send a message back. */
static tr_status answer(probe *p)
{
    note      n = p->got;
    const int peer = p->from;

    n.kind = BACK;
    n.is_damaged = n.is_checked && !is_intact((const uint64_t *)p->in, n.bytes, seed_of(p->rank, peer, n.bytes));
    p->got.kind = NONE;
    return send_note(p, peer, &n, p->in) ? TR_OK : silent(p, peer, "room for a message");
}

/* == ranks ==================================================================================== */

static tr_status say_hello(probe *p)
{
    char host[NAME] = "?", text[NAME];
    note n = {.kind = HELLO};

    memcpy(n.magic, MAGIC, sizeof MAGIC);
    gethostname(host, sizeof host - 1);
    n.bytes = snprintf(text, sizeof text, "%.*s %s", 200, host, tr_version());
    if (p->rank == 0) {
        snprintf(p->host[0], NAME, "%s", text);
        p->hellos++;
        return TR_OK;
    }
    return send_note(p, 0, &n, text) ? TR_OK : silent(p, 0, "room for a hello");
}

/* Obey notes until rank 0 says that the probe is over. Rank 0 may be busy with other pairs for long, so the bound is generous. MPI or
 * the launcher reports rank 0's death. */
static tr_status obey(probe *p)
{
    const int64_t timeout = p->timeout;
    const int64_t pairs = (int64_t)p->size * (p->size - 1) / 2;
    tr_status     status = TR_OK;

    while (status == TR_OK && !p->has_stopped) {
        p->timeout = timeout * (1 + pairs);
        const bool has_come = await(p, NONE);
        p->timeout = timeout;
        if (!has_come)
            return silent(p, 0, "something to do");
        const note n = p->got;
        if (n.kind == THERE) {
            status = answer(p);
        } else if (n.kind == MEASURE) {
            note result = {0};
            status = measure(p, (int)n.about, &result);
            p->got.kind = NONE;
            if (status == TR_OK && !send_note(p, 0, &result, NULL))
                status = silent(p, 0, "room for a result");
        } else {
            p->got.kind = NONE;
        }
    }
    return status;
}

static tr_status await_hellos(probe *p, FILE *out)
{
    const int64_t begin = tr__clock();

    while (p->hellos < p->size) {
        int missing = 0;
        step(p);
        while (missing < p->size - 1 && p->host[missing][0])
            missing++;
        if (p->is_dead || tr__clock() - begin > p->timeout)
            return silent(p, missing, "its hello");
    }
    for (int i = 0; i < p->size; i++) {
        char *space = strchr(p->host[i], ' ');
        fprintf(out, "probe rank %d host %.*s version %s\n", i, (int)(space - p->host[i]), p->host[i], space + 1);
    }
    return TR_OK;
}

static tr_status measure_pair(probe *p, int a, int b, FILE *out)
{
    note result = {0}, order = {.kind = MEASURE, .about = (uint32_t)b};
    char first[NAME + 32], second[NAME + 32];

    if (a == 0) {
        TR_TRY(measure(p, b, &result));
    } else {
        memcpy(order.magic, MAGIC, sizeof MAGIC);
        p->got.kind = NONE;
        if (!send_note(p, a, &order, NULL) || !await(p, RESULT))
            return silent(p, a, "what it measured");
        result = p->got;
    }
    if (result.is_damaged)
        return tr_fail(TR_EFORMAT, "bytes were damaged between %s and %s", name_of(p, a, first), name_of(p, b, second));
    tr__print(out, "probe pair %d %d latency_us %.2f small_mbs %.1f large_mbs %.1f\n", a, b, result.time[0] / 2 * 1e6,
            2e-6 * (double)sizes[1].bytes / result.time[1], 2e-6 * (double)sizes[2].bytes / result.time[2]);
    fflush(out);
    return TR_OK;
}

static tr_status lead(probe *p, FILE *out)
{
    note stop = {.kind = STOP};

    TR_TRY(await_hellos(p, out));
    for (int a = 0; a < p->size; a++)
        for (int b = a + 1; b < p->size; b++)
            TR_TRY(measure_pair(p, a, b, out));
    memcpy(stop.magic, MAGIC, sizeof MAGIC);
    for (int i = 1; i < p->size; i++)
        if (!send_note(p, i, &stop, NULL))
            return silent(p, i, "room for a message");
    return TR_OK;
}

/* Poll until all messages are sent. */
static bool settle(probe *p)
{
    const int64_t begin = tr__clock();

    while (p->sending && !p->is_dead && tr__clock() - begin < p->timeout)
        step(p);
    return !p->sending && !p->is_dead;
}

tr_status tr_probe_run(FILE *out, double timeout)
{
    probe                     p = {.timeout = (int64_t)(timeout * 1e9)};
    const tr_transport_events events = {&p, on_header, on_receive, on_sent, on_dead};
    char                      path[1024], error[2048] = "";

    tr_transport_find(path, sizeof path, NULL);
    prctl(PR_SET_PDEATHSIG, SIGKILL);              /* this process ends with mpirun */
    p.table = tr_transport_load(path, error, sizeof error);
    if (p.table)
        p.transport = p.table->start(&events, error, sizeof error);
    if (!p.transport)
        return tr_fail(TR_EUNSUPPORTED, "%s", error);
    p.rank = p.table->rank(p.transport);
    p.size = p.table->size(p.transport);
    p.out = tr__must_aligned(LARGEST);
    p.in = tr__must_aligned(LARGEST);
    p.host = tr__must_array((size_t)p.size, NAME);
    tr__launcher_tell(TR_NOTICE_JOINED, p.rank, NULL);
    tr_status status = say_hello(&p);
    if (status == TR_OK)
        status = p.rank == 0 ? lead(&p, out) : obey(&p);
    if (status != TR_OK) {
        if (!tr__launcher_tell(TR_NOTICE_TOLD, p.rank, tr_error()))
            fprintf(stderr, "trireme-pserver: %s\n", tr_error());
        return status;
    }
    const bool is_clean = settle(&p);
    tr__launcher_tell(TR_NOTICE_DONE, p.rank, NULL);
    p.table->stop(p.transport, is_clean);
    free(p.out);
    free(p.in);
    free(p.host);
    return is_clean ? TR_OK : tr_fail(TR_EPEER, "a rank died at the end of the probe");
}
