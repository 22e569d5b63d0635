/* rank_runlog.c - the figures of a rank as fields of JSON. They are read while other threads update them. */
#include "pserver/rank/rank_runlog.h"

#include "framework/base/memory.h"
#include "pserver/observe/runlog.h"
#include "pserver/util/wake.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void add_ms(tr_text *out, const char *name, int64_t nanoseconds)
{
    tr_text_add(out, ",\"%s_ms\":%.3f", name, (double)nanoseconds / 1e6);
}

/* Sums of the parts of all steps, and their medians. */
static void add_times(tr_text *out, const char *name, const tr_times *times)
{
    add_ms(out, name, tr_counter_get(&times->sum));
    tr_text_add(out, ",\"%s_median_ms\":%.3f,\"%s_max_ms\":%.3f", name, (double)tr_times_median(times) / 1e6, name,
                (double)tr_counter_get(&times->longest) / 1e6);
}

static void add_classes(tr_text *out, const char *name, const tr_counter *sent, const tr_counter *received)
{
    tr_text_add(out, ",\"%s_by_class\":{", name);
    for (int i = 0; i < TR_TRAFFIC_COUNT; i++)
        tr_text_add(out, "%s\"%s\":%lld", i ? "," : "", tr_traffic_class_name((tr_traffic_class)i),
                    (long long)(tr_counter_get(&sent[i]) + tr_counter_get(&received[i])));
    tr_text_add(out, "}");
}

static void add_wire(tr_text *out, const tr__rank *rank)
{
    tr_job_stats      stats = {0};
    const tr_traffic *sent, *received;

    tr_comm_stats(rank->comm, &stats);
    add_ms(out, "wire", stats.wire_nanoseconds);
    tr_text_add(out, ",\"sent_bytes\":%lld,\"received_bytes\":%lld,\"sent_messages\":%lld,\"received_messages\":%lld",
                (long long)stats.bytes_sent, (long long)stats.bytes_received, (long long)stats.messages_sent,
                (long long)stats.messages_received);
    tr_comm_traffic(rank->comm, &sent, &received);
    add_classes(out, "bytes", sent->bytes, received->bytes);
    add_classes(out, "messages", sent->messages, received->messages);
}

static void add_loss(tr_text *out, const tr_trainer_meter *m)
{
    const int64_t bits = tr_counter_get(&m->loss);
    double        loss;

    memcpy(&loss, &bits, sizeof loss);
    if (bits && loss - loss == 0)                  /* JSON has no word for NaN */
        tr_text_add(out, ",\"loss\":%.9g", loss);
}

/* == trainers ================================================================================== */

static long long steps_of(const tr_trainer_meter *m)
{
    const int64_t begun = tr_counter_get(&m->begun), ended = tr_counter_get(&m->ended);
    return begun > ended ? begun : ended;          /* in geo the servers are not told of every step */
}

/* Add the trainer's present activity, and the time since its last step's end. */
static void add_doing(tr_text *out, const tr_trainer_meter *m)
{
    const int64_t ended_at = tr_counter_get(&m->ended_at);

    tr_text_add(out, ",\"doing\":\"%s\"", tr_trainer_does_name((tr_trainer_does)tr_counter_get(&m->doing)));
    if (ended_at)
        add_ms(out, "quiet", tr__clock() - ended_at);
}

static void trainer_totals(tr_text *out, const tr__rank *rank)
{
    const tr_trainer_meter *m = rank->meter;

    add_doing(out, m);
    tr_text_add(out, ",\"step\":%lld,\"steps\":%lld,\"resumed\":%lld", steps_of(m), (long long)tr_counter_get(&m->step.count),
                (long long)tr_counter_get(&m->resumed));
    add_times(out, "step", &m->step);
    add_times(out, "compute", &m->compute);
    add_times(out, "script", &m->script);
    add_times(out, "encode", &m->encode);
    add_times(out, "wait", &m->wait);
    add_ms(out, "other_runs", tr_counter_get(&m->other_runs));
    tr_text_add(out, ",\"wait_by_server_ms\":[");
    for (int i = 0; i < m->servers; i++)
        tr_text_add(out, "%s%.3f", i ? "," : "", (double)tr_counter_get(&m->wait_by_server[i]) / 1e6);
    tr_text_add(out, "]");
    add_wire(out, rank);
    tr_text_add(out, ",\"skipped\":%lld", (long long)tr_counter_get(&rank->skipped));
    tr_text_add(out, ",\"rows_wanted\":%lld,\"rows_ahead\":%lld,\"rows_cached\":%lld", (long long)tr_counter_get(&rank->rows_wanted),
                (long long)tr_counter_get(&rank->rows_ahead), (long long)tr_counter_get(&rank->rows_cached));
    add_loss(out, m);
}

/* == servers =================================================================================== */

static void add_peers(tr_text *out, const char *name, const tr_server *server, int trainers, size_t offset)
{
    tr_text_add(out, ",\"%s_by_trainer_ms\":[", name);
    for (int i = 0; i < trainers; i++) {
        const char *m = (const char *)tr_server_peer_meter(server, i);
        tr_text_add(out, "%s%.3f", i ? "," : "", (double)tr_counter_get((const tr_counter *)(const void *)(m + offset)) / 1e6);
    }
    tr_text_add(out, "]");
}

static void add_staleness(tr_text *out, const tr_server *server)
{
    tr_job_stats stats = {0};

    tr_server_stats(server, &stats);
    tr_text_add(out, ",\"staleness\":[");
    for (int i = 0; i < TR_STALENESS_BINS; i++)
        tr_text_add(out, "%s%lld", i ? "," : "", (long long)stats.staleness[i]);
    tr_text_add(out, "],\"dropped\":%lld", (long long)stats.dropped);
}

static void server_totals(tr_text *out, const tr__rank *rank, const tr_server *server)
{
    const int trainers = rank->trainer_count;

    tr_text_add(out, ",\"server\":%d,\"updates\":%lld", rank->server_index, (long long)tr_counter_get(&rank->applied.count));
    add_times(out, "apply", &rank->applied);
    add_ms(out, "idle", tr_counter_get(&rank->idle));
    tr_text_add(out, ",\"steps_by_trainer\":[");
    for (int i = 0; i < trainers; i++)
        tr_text_add(out, "%s%lld", i ? "," : "", (long long)tr_counter_get(&tr_server_peer_meter(server, i)->steps));
    tr_text_add(out, "]");
    add_peers(out, "late", server, trainers, offsetof(tr_peer_meter, late));
    add_peers(out, "kept", server, trainers, offsetof(tr_peer_meter, kept));
    add_peers(out, "held", server, trainers, offsetof(tr_peer_meter, held));
    add_staleness(out, server);
    add_wire(out, rank);
}

/* == both ====================================================================================== */

static const char *role_name(tr_role role)
{
    static const char *const names[TR_ROLE_COUNT] = {"trainer", "server", "standby", "replica"};
    return names[role];
}

static void totals(void *self, tr_text *out)
{
    const tr__rank *rank = self;
    const tr_server *server = tr__rank_server(rank);

    if (rank->meter)
        trainer_totals(out, rank);
    else if (server)
        server_totals(out, rank, server);
    else
        add_wire(out, rank);
}

/* The memory of this process, with what it shares; 0: unknown. */
static long long resident_bytes(void)
{
    FILE *in = fopen("/proc/self/statm", "re");
    char  line[128] = "";

    if (!in)
        return 0;
    const char *resident = fgets(line, sizeof line, in) ? strchr(line, ' ') : NULL;
    fclose(in);
    return resident ? strtoll(resident, NULL, 10) * sysconf(_SC_PAGESIZE) : 0;
}

static void add_sums(tr_text *out, const tr__rank *rank)
{
    tr_job_stats stats = {0};

    tr_comm_stats(rank->comm, &stats);
    tr_text_add(out, ",\"sent_bytes\":%lld,\"received_bytes\":%lld,\"memory_bytes\":%lld", (long long)stats.bytes_sent,
                (long long)stats.bytes_received, resident_bytes());
}

static void progress(void *self, tr_text *out)
{
    const tr__rank *rank = self;
    const tr_server *server = tr__rank_server(rank);

    if (rank->meter) {
        tr_text_add(out, ",\"role\":\"trainer\",\"step\":%lld", steps_of(rank->meter));
        add_doing(out, rank->meter);
        add_ms(out, "wait", tr_counter_get(&rank->meter->wait.sum));
        tr_text_add(out, ",\"skipped\":%lld", (long long)tr_counter_get(&rank->skipped));
        add_loss(out, rank->meter);
    } else if (server) {
        tr_text_add(out, ",\"role\":\"server\",\"server\":%d,\"updates\":%lld", rank->server_index,
                    (long long)tr_counter_get(&rank->applied.count));
        add_ms(out, "idle", tr_counter_get(&rank->idle));
        add_staleness(out, server);
    } else {
        tr_text_add(out, ",\"role\":\"%s\"", role_name(rank->role));
    }
    add_sums(out, rank);
}

void tr__rank_runlog_start(tr__rank *rank)
{
    const tr_runlog_source source = {rank, totals, progress};
    const tr_roster       *roster = tr_comm_roster(rank->comm);
    const tr_rank         *self = &roster->rank[roster->self];
    const char            *attempt = getenv("TRIREME_ATTEMPT");
    const long             number = attempt ? strtol(attempt, NULL, 10) : 0;
    char                   name[64], host[256];

    snprintf(name, sizeof name, "%s-%d", role_name(rank->role), self->index);
    tr_runlog_start(name, roster->self, number > 0, &source);
    tr_runlog_note("joined", ",\"schema\":%d,\"role\":\"%s\",\"index\":%d,\"rank\":%d,\"host\":%s,\"pid\":%lld,\"attempt\":%ld,"
                   "\"servers\":%d,\"trainers\":%d,\"standbys\":%d,\"version\":\"%s\"", TR_RUNLOG_SCHEMA, role_name(rank->role),
                   self->index, roster->self, tr_json_quote(host, sizeof host, self->host), (long long)self->pid, number,
                   roster->servers, roster->trainers, roster->standbys, tr_version());
}

/* Of a table with rows on disk. */
static void add_disk(tr_text *out, const tr_table_disk *disk)
{
    if (disk->looked_up)
        tr_text_add(out, ",\"disk\":{\"rows\":%lld,\"looked_up\":%lld,\"found_in_memory\":%lld,\"reads\":%lld,\"reads_ahead\":%lld,"
                    "\"wait_ms\":%.3f,\"written_bytes\":%lld}", (long long)disk->rows, (long long)disk->looked_up,
                    (long long)disk->found_in_memory, (long long)disk->reads, (long long)disk->reads_ahead,
                    (double)disk->wait_microseconds / 1e3, (long long)disk->written_bytes);
}

static void note_tables(const tr__rank *rank)
{
    tr_table_part *part = tr__must_alloc(sizeof *part);
    tr_table_disk  disk;
    const char    *name;

    for (uint32_t i = 0; part && tr_server_program_table(rank->program, i, part, &disk, &name); i++) {
        tr_text hot = {0};
        char    quoted[256];
        for (int64_t k = 0; k < part->hot_count; k++)
            tr_text_add(&hot, "%s[%lld,%lld]", k ? "," : "", (long long)part->hot[k].key, (long long)part->hot[k].updates);
        tr_text_add(&hot, "]");
        add_disk(&hot, &disk);
        tr_runlog_note("table", ",\"server\":%d,\"table\":%s,\"rows\":%lld,\"row_bytes\":%lld,\"bytes\":%lld,\"hot_keys\":[%s",
                       rank->server_index, tr_json_quote(quoted, sizeof quoted, name), (long long)part->rows,
                       (long long)part->row_bytes, (long long)part->bytes, hot.data && !hot.failed ? hot.data : "]");
        tr_text_deinit(&hot);
    }
    free(part);
}

void tr__rank_runlog_end(tr__rank *rank, tr_status status)
{
    char why[4096];

    if (status == TR_OK) {
        if (rank->program && tr_runlog_has_file())
            note_tables(rank);
        tr_runlog_end(",\"end\":\"well\"");
    } else {
        tr_json_quote(why, sizeof why, tr_error());
        tr_runlog_end(",\"end\":\"failed\",\"why\":%s", why);
    }
}
