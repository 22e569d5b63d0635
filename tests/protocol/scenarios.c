/* scenarios.c - runs the scripts of this folder: a small job in the simulator does what a script says, and all that happens is compared with
 * what the script expects.
 *
 *     scenarios [--rewrite] FILE.txt ...
 *
 * With --rewrite the expected text of each command is written anew. A script has comments (#), which its reader reads, and blocks: one
 * or more commands, a line "----", what happens, an empty line. Commands:
 *
 *     job servers=1 trainers=2 mode=sync ...    what the job is; first. More words: standbys=N, and replicas, replacements, snapshots,
 *                                               rows, restores (it goes on from a checkpoint), lossy (what is lost is said again), unreported (MPI says of no death), tasks=N,
 *                                               large (the parameter travels by itself), elsewhere (trainers share another host)
 *     start                                     all ranks begin; what follows shows the messages of the start
 *     start quietly                             the same without a word
 *     trainer 0 step [push ...]                 what trainers do next (tests/support/sim_script.c has the words); all at once by "trainers step"
 *     fact trainer 1 91                         what that trainer means by "seed", before the start; the others mean 90
 *     kill server 0                             by SIGKILL
 *     stop trainer 1 for 3500 ms                by SIGSTOP, and on by SIGCONT
 *     lose STEP_END from trainer 0 to server 0  the next such message, with the bundle that it is in
 *     again [without server 0]                  the job is started again; that server's memory is lost with its host
 *     wait 100 ms                               at the end of each block a job goes on for 50 ms anyway
 *
 * Each line of the output is an event. `server 0 <- trainer 1  STEP_END step=1 seq=3`: server 0's core gets this message; fields that are 0 are left
 * out, and signs of life. `server 0  ...`: what it does beside: effects of its store, a trainer's state as it sees it, words to the launcher. Where
 * more than a millisecond passes, a line says so. A rank has the name that it began with. */
#include "tests/support/sim_job.h"

#include "pserver/observe/trace.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINE = 1024, LOSSES = 8, PAUSE_MS = 50 };
static const int64_t MILLISECOND = 1000000;

typedef struct text {
    char  *bytes;
    size_t size, room;
} text;

typedef struct loss {
    char kind[32];
    int  from, to;
} loss;

typedef struct script {
    const char *path;
    bool        rewrites;
    int         line;                 /* that is being read */
    sim_options options;
    char        mode[64], fact[32];
    sim_watch   watch;
    sim_job    *job;
    bool        is_quiet, has_started;
    int64_t     heard_at;
    text        out;                  /* of the block */
    loss        loss[LOSSES];
    int         losses;
} script;

static void add(text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void add(text *t, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    const int length = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (t->size + (size_t)length + 1 > t->room) {
        t->room = 2 * (t->room + (size_t)length + 1);
        t->bytes = realloc(t->bytes, t->room);
    }
    va_start(args, format);
    t->size += (size_t)vsnprintf(t->bytes + t->size, t->room - t->size, format, args);
    va_end(args);
}

static _Noreturn void fail_at(const script *s, const char *format, ...) __attribute__((format(printf, 2, 3)));
static _Noreturn void fail_at(const script *s, const char *format, ...)
{
    va_list args;

    fprintf(stderr, "%s:%d: ", s->path, s->line);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fprintf(stderr, "\n");
    exit(1);
}

/* == names ===================================================================================== */

static const char *const roles[] = {"server", "trainer", "standby", "replica"};

static int count_of(const script *s, int role)
{
    const int counts[] = {s->options.servers, s->options.trainers, s->options.standbys, s->options.replicas ? s->options.servers : 0};
    return counts[role];
}

static const char *name_of(const script *s, int rank)
{
    static char name[4][32];
    static int  next;
    char       *out = name[next = (next + 1) % 4];
    int         role = 0;

    while (role < 3 && rank >= count_of(s, role))
        rank -= count_of(s, role++);
    snprintf(out, sizeof name[0], "%s %d", roles[role], rank);
    return out;
}

static int rank_of(const script *s, const char *role, const char *number)
{
    int first = 0;

    for (int r = 0; r < 4; r++) {
        char     *end;
        const long n = strtol(number, &end, 10);
        if (strcmp(role, roles[r]) == 0) {
            if (*end || end == number || n < 0 || n >= count_of(s, r))
                fail_at(s, "there is no %s %s: the job has %d", role, number, count_of(s, r));
            return first + (int)n;
        }
        first += count_of(s, r);
    }
    fail_at(s, "'%s' is no role: server, trainer, standby or replica", role);
}

/* == what is heard ============================================================================= */

static void say_time(script *s, int64_t now)
{
    if (!s->is_quiet && now - s->heard_at > MILLISECOND)
        add(&s->out, "... %lld ms later\n", (long long)((now - s->heard_at + MILLISECOND / 2) / MILLISECOND));
    s->heard_at = now;
}

/* Without the frame that the line says already, and without what is 0. */
static void add_fields(text *out, const tr_wire *wire)
{
    char  line[512], *rest = NULL;

    tr_wire_print(line, sizeof line, wire);
    for (char *word = strtok_r(line, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
        const char *value = strchr(word, '=');
        if (!value || (strcmp(value, "=0") && strncmp(word, "sender=", 7) && strcmp(word, "incarnation=1") && strcmp(word, "initiator=4294967294")))
            add(out, " %s", word);
    }
}

static void on_message(void *payload, int64_t now, int from, int to, const tr_wire *wire, bool is_lost)
{
    script *s = payload;

    if (s->is_quiet || wire->kind == TR_WIRE_BEAT)
        return;
    say_time(s, now);
    add(&s->out, "%s <- %s ", name_of(s, to), name_of(s, from));
    add_fields(&s->out, wire);
    add(&s->out, is_lost ? "  LOST\n" : "\n");
}

static void on_line(void *payload, int64_t now, int rank, const char *what)
{
    script *s = payload;

    if (s->is_quiet)
        return;
    say_time(s, now);
    add(&s->out, "%s  %s\n", name_of(s, rank), what);
}

static void on_member(void *payload, int64_t now, int rank, int trainer, tr_membership from, tr_membership to)
{
    char what[96];

    snprintf(what, sizeof what, "trainer %d: %s -> %s", trainer, tr_membership_name(from), tr_membership_name(to));
    on_line(payload, now, rank, what);
}

static bool on_lose(void *payload, int from, int to, const tr_wire *wire)
{
    script *s = payload;

    for (int i = 0; i < s->losses; i++)
        if (s->loss[i].from == from && s->loss[i].to == to && !strcmp(s->loss[i].kind, tr_wire_kind_name(wire->kind))) {
            s->loss[i] = s->loss[--s->losses];
            return true;
        }
    return false;
}

/* == commands ================================================================================== */

static int number_of(const script *s, const char *what, const char *value)
{
    char      *end;
    const long n = strtol(value, &end, 10);

    if (*end || end == value || n < 0 || n > 1000000)
        fail_at(s, "%s must be a number, got '%s'", what, value);
    return (int)n;
}

static void set_option(script *s, char *word)
{
    char *value = strchr(word, '=');

    if (value)
        *value++ = '\0';
    if (value && !strcmp(word, "servers"))
        s->options.servers = number_of(s, word, value);
    else if (value && !strcmp(word, "trainers"))
        s->options.trainers = number_of(s, word, value);
    else if (value && !strcmp(word, "standbys"))
        s->options.standbys = number_of(s, word, value);
    else if (value && !strcmp(word, "tasks"))
        s->options.tasks = number_of(s, word, value);
    else if (value && !strcmp(word, "mode"))
        snprintf(s->mode, sizeof s->mode, "%s", value);
    else if (!value && !strcmp(word, "replicas"))
        s->options.replicas = true;
    else if (!value && !strcmp(word, "standbys-there"))
        s->options.standbys_there = true;
    else if (!value && !strcmp(word, "replacements"))
        s->options.replacements = true;
    else if (!value && !strcmp(word, "snapshots"))
        s->options.snapshots = true;
    else if (!value && !strcmp(word, "restores"))
        s->options.restores = true;
    else if (!value && !strcmp(word, "rows"))
        s->options.has_rows = true;
    else if (!value && !strcmp(word, "large"))
        s->options.is_large = true;
    else if (!value && !strcmp(word, "elsewhere"))
        s->options.is_elsewhere = true;
    else if (!value && !strcmp(word, "lossy"))
        s->options.loss = 1e-300;                  /* never by chance */
    else if (!value && !strcmp(word, "unreported"))
        s->options.unreported = true;
    else
        fail_at(s, "'%s' is no word of a job: see the head of scenarios.c", word);
}

static void begin_job(script *s, char **word, int words)
{
    tr_policy policy;

    if (s->job)
        fail_at(s, "a script has one job");
    s->options = (sim_options){.seed = 1, .servers = 1, .trainers = 2, .steps = 1, .is_scripted = true, .mode = s->mode, .watch = &s->watch};
    snprintf(s->mode, sizeof s->mode, "sync");
    for (int i = 1; i < words; i++)
        set_option(s, word[i]);
    if (s->options.servers < 1 || s->options.servers > 2 || s->options.trainers < 1 || s->options.trainers > 3)
        fail_at(s, "a scenario is small: 1 or 2 servers and 1 to 3 trainers");
    if (tr_policy_parse(&policy, s->mode) != TR_OK)
        fail_at(s, "%s", tr_error());
    s->watch = (sim_watch){s, on_message, on_line, on_lose};
    s->job = sim_job_new(&s->options);
}

static void start(script *s, char **word, int words)
{
    if (s->has_started || words > 2 || (words == 2 && strcmp(word[1], "quietly")))
        fail_at(s, "a job starts once: start, or start quietly");
    s->has_started = true;
    s->is_quiet = words == 2;
    sim_job_pass(s->job, PAUSE_MS * MILLISECOND);
    s->is_quiet = false;
}

static void ask(const script *s, int trainer, char **word, int words)
{
    for (int i = 0; i < words; i++)
        if (!sim_job_ask(s->job, trainer, word[i]))
            fail_at(s, "'%s' is nothing that a trainer does: see tests/support/sim_script.c", word[i]);
}

static void again(script *s, char **word, int words)
{
    const bool has_lost = words == 4 && !strcmp(word[1], "without");

    if (words != 1 && !has_lost)
        fail_at(s, "again, or again without server N");
    sim_job *old = s->job;
    s->job = sim_job_again(old, has_lost ? rank_of(s, word[2], word[3]) : -1);
    sim_job_free(old);
    s->heard_at = tr_sim_now(sim_job_sim(s->job));
}

static void command(script *s, char **word, int words)
{
    if (!strcmp(word[0], "job")) {
        begin_job(s, word, words);
        return;
    }
    if (!s->job)
        fail_at(s, "the first command of a script is 'job'");
    if (!strcmp(word[0], "start"))
        start(s, word, words);
    else if (!strcmp(word[0], "trainer") && words >= 3)
        ask(s, rank_of(s, word[0], word[1]) - s->options.servers, word + 2, words - 2);
    else if (!strcmp(word[0], "trainers") && words >= 2)
        for (int i = 0; i < s->options.trainers; i++)
            ask(s, i, word + 1, words - 1);
    else if (!strcmp(word[0], "fact") && words == 4 && !s->has_started) {
        snprintf(s->fact, sizeof s->fact, "%s", word[3]);
        sim_job_set_fact(s->job, rank_of(s, word[1], word[2]) - s->options.servers, s->fact);
    } else if (!strcmp(word[0], "kill") && words == 3)
        sim_job_kill(s->job, rank_of(s, word[1], word[2]), 0);
    else if (!strcmp(word[0], "stop") && words == 6 && !strcmp(word[3], "for") && !strcmp(word[5], "ms"))
        sim_job_stop(s->job, rank_of(s, word[1], word[2]), 0, number_of(s, "a time", word[4]) * MILLISECOND);
    else if (!strcmp(word[0], "lose") && words == 8 && s->losses < LOSSES) {
        loss *l = &s->loss[s->losses++];
        snprintf(l->kind, sizeof l->kind, "%s", word[1]);
        l->from = rank_of(s, word[3], word[4]);
        l->to = rank_of(s, word[6], word[7]);
    } else if (!strcmp(word[0], "again"))
        again(s, word, words);
    else if (!strcmp(word[0], "wait") && words == 3 && !strcmp(word[2], "ms"))
        sim_job_pass(s->job, number_of(s, "a time", word[1]) * MILLISECOND);
    else
        fail_at(s, "this is no command, or it lacks a word: see the head of scenarios.c");
}

static void run_line(script *s, char *line)
{
    char *word[16], *rest = NULL;
    int   words = 0;

    for (char *w = strtok_r(line, " \t\n", &rest); w; w = strtok_r(NULL, " \t\n", &rest)) {
        if (words == 16)
            fail_at(s, "more than 16 words");
        word[words++] = w;
    }
    command(s, word, words);
}

/* == a script ================================================================================== */

/* What happens after the commands of a block, as the script has it now. False: it expects something else. */
static bool end_block(script *s, FILE *in, text *anew)
{
    char      line[LINE];
    text      expected = {0};
    const int first = s->line;

    if (s->has_started)
        sim_job_pass(s->job, PAUSE_MS * MILLISECOND);
    while (fgets(line, sizeof line, in) && line[0] != '\n') {
        s->line++;
        add(&expected, "%s", line);
    }
    s->line++;
    add(&s->out, "%s", "");
    add(&expected, "%s", "");
    add(anew, "----\n%s\n", s->out.bytes);
    const bool is_same = strcmp(s->out.bytes, expected.bytes) == 0;
    if (!is_same && !s->rewrites)
        printf("%s:%d: something else happens.\n-- expected:\n%s-- happens:\n%s", s->path, first, expected.bytes, s->out.bytes);
    free(expected.bytes);
    s->out.size = 0;
    s->out.bytes[0] = '\0';
    return is_same;
}

static bool run(const char *path, bool rewrites, text *anew)
{
    script s = {.path = path, .rewrites = rewrites};
    FILE  *in = fopen(path, "r");
    char   line[LINE];
    bool   is_open = false, is_same = true;

    if (!in) {
        perror(path);
        exit(1);
    }
    tr_trace_watch_members(on_member, &s);
    while (fgets(line, sizeof line, in)) {
        s.line++;
        if (!strcmp(line, "----\n")) {
            if (!is_open)
                fail_at(&s, "there is no command in front of this output");
            is_same &= end_block(&s, in, anew);
            is_open = false;
            continue;
        }
        add(anew, "%s", line);
        if (line[0] == '#' || line[0] == '\n')
            continue;
        if (!is_open && s.job)
            s.heard_at = tr_sim_now(sim_job_sim(s.job));
        is_open = true;
        run_line(&s, line);
    }
    if (is_open)
        fail_at(&s, "after the last command there is no line \"----\"");
    if (s.job)
        sim_job_free(s.job);
    tr_trace_watch_members(NULL, NULL);
    free(s.out.bytes);
    fclose(in);
    return is_same;
}

static void rewrite(const char *path, const text *anew)
{
    FILE *out = fopen(path, "w");

    if (!out || fwrite(anew->bytes, 1, anew->size, out) != anew->size || fclose(out) != 0) {
        perror(path);
        exit(1);
    }
}

int main(int argc, char **argv)
{
    const bool rewrites = argc > 1 && !strcmp(argv[1], "--rewrite");
    int        differ = 0;

    for (int i = 1 + rewrites; i < argc; i++) {
        text       anew = {0};
        const bool is_same = run(argv[i], rewrites, &anew);
        if (rewrites && !is_same)
            rewrite(argv[i], &anew);
        differ += !is_same;
        free(anew.bytes);
    }
    if (differ && !rewrites)
        printf("%d scripts expect something else. If what happens is right: %s --rewrite FILE ...\n", differ, argv[0]);
    return differ && !rewrites;
}
