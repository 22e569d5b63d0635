/* test_hot_keys.c - how even the load of servers is when few keys are hot: clicks, whose keys follow Zipf's law with exponent 1.05.
 *
 * Expected loads are summed exactly, nothing is drawn. A key with share q of all look-ups is among those of a step with probability
 * 1 - (1 - q)^n, for n look-ups. A trainer asks for it once then, however often the batch has it. So a hot key weighs no more than one row
 * a step and trainer, and there are many such rows. */
#include "tests/support/expect.h"

#include "pserver/store/server_part.h"
#include "storage/slots/slots.h"

#include <math.h>

enum { KEYS = 1000000, TRAINERS = 4 };

static const double EXPONENT = 1.05;

typedef enum naming { BY_RANK, FROM_ONE, HASHED, NAMINGS } naming;

/* The key of the k-th hottest: its number, from 0 or from 1 on, or an id of no order. */
static int64_t key_of(int64_t k, naming name)
{
    const uint64_t id = (uint64_t)k * 0x9E3779B97F4A7C15u + 12345;

    return name == HASHED ? (int64_t)(id ^ id >> 29) : k + (name == FROM_ONE);
}

static double in_a_step(double share, double lookups)
{
    return -expm1(lookups * log1p(-share));
}

enum { MOST_SERVERS = 8 };

/* Sums over keys, for each number of servers. */
typedef struct loads {
    double bytes[MOST_SERVERS + 1][MOST_SERVERS];      /* rows that travel: keys, values, gradients, of all trainers */
    double work[MOST_SERVERS + 1][MOST_SERVERS];       /* these rows, and those that an update changes: gradients of one row are merged */
} loads;

static void add(loads *to, int64_t key, double rows, double updated)
{
    for (int servers = 2; servers <= MOST_SERVERS; servers++) {
        const int server = tr_server_of_shard(tr_slots_shard(key), servers);
        to->bytes[servers][server] += rows;
        to->work[servers][server] += rows + updated;
    }
}

/* The busiest beside the mean. */
static double unevenness(const double *load, int servers)
{
    double most = 0, all = 0;

    for (int i = 0; i < servers; i++) {
        most = fmax(most, load[i]);
        all += load[i];
    }
    return most * servers / all;
}

static void check(int lookups, double most)
{
    static const char *const names[NAMINGS] = {"by rank", "from 1", "hashed"};
    loads                    sums[NAMINGS] = {0};
    double                   sum = 0;

    for (int64_t k = 0; k < KEYS; k++)
        sum += pow((double)(k + 1), -EXPONENT);
    for (int64_t k = 0; k < KEYS; k++) {
        const double share = pow((double)(k + 1), -EXPONENT) / sum;
        const double rows = TRAINERS * in_a_step(share, lookups), updated = in_a_step(share, (double)lookups * TRAINERS);
        for (naming name = BY_RANK; name < NAMINGS; name++)
            add(&sums[name], key_of(k, name), rows, updated);
    }
    for (int servers = 2; servers <= MOST_SERVERS; servers++)
        for (naming name = BY_RANK; name < NAMINGS; name++) {
            const double bytes = unevenness(sums[name].bytes[servers], servers), work = unevenness(sums[name].work[servers], servers);
            print_message("%5d look-ups, %d servers, keys %-8s the busiest has %.3f of the mean's bytes, %.3f of its work\n",
                          lookups, servers, names[name], bytes, work);
            assert_true(bytes <= most && work <= most);
        }
}

TEST(a_field_of_clicks_keeps_servers_even)
{
    check(512, 1.10);
}

TEST(a_table_of_26_fields_keeps_servers_even)
{
    check(26 * 512, 1.05);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_field_of_clicks_keeps_servers_even),
        cmocka_unit_test(a_table_of_26_fields_keeps_servers_even),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
