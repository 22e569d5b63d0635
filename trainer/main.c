/* main.c - the program that runs a saved job without Python, alone or as the trainers of an MPI job.
 *
 *     trireme-trainer JOB
 *     trireme launch --servers 2 --trainers 4 JOB
 *     mpirun -np 2 trireme-pserver : -np 4 trireme-trainer JOB */
#include "trainer/trireme_trainer.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char usage[] =
    "usage: trireme-trainer [options] JOB [FILE...]\n"
    "Runs a job that trireme.io.save_job wrote, alone or beside servers:\n"
    "    trireme launch --servers 2 --trainers 4 JOB\n"
    "    mpirun -np 2 trireme-pserver : -np 4 trireme-trainer JOB\n"
    "FILEs take the place of those that the job names.\n"
    "  --standby         in front of all else: wait until a trainer dies, or a server of this host, and take its place\n"
    "  --epochs N      passes over the data            (as the job says, here and below)\n"
    "  --steps N       end after so many\n"
    "  --report N      a line every N steps; 0: none\n"
    "  --threads N     that train (one process alone)\n"
    "  --readers N     threads that parse\n"
    "  --save FOLDER   write the parameters there at the end\n"
    "  --checkpoint DIR            keep checkpoints in this folder, which all hosts see\n"
    "  --checkpoint-steps N        one every N steps, or\n"
    "  --checkpoint-seconds S      every S seconds (600)\n"
    "  --checkpoint-keep N         the newest N stay (3)\n"
    "  --checkpoint-full-every N   of N in a row one is full, the others have changed rows (1)\n"
    "  --checkpoint-rows HOW       rows of tables: exact, or int8 (exact)\n"
    "  --resume                    go on from the newest valid one; a folder without any is refused\n"
    "  --resume=auto               go on if the folder holds checkpoints of this job, begin if it holds none\n"
    "  --anew                      begin, and move another run's checkpoints into DIR/aside-DATE\n"
    "  --help, --version\n";

/* 2, the exit code for a wrong command line. */
static int refuse(const char *what, const char *value)
{
    fprintf(stderr, "trireme-trainer: %s '%s'; see trireme-trainer --help\n", what, value);
    return 2;
}

typedef struct choices {
    const char *job, *save;
    int64_t     epochs, steps, report, threads, readers;   /* -1: as the job says */
    int64_t     checkpoint_steps, checkpoint_keep, checkpoint_full_every;
    double      checkpoint_seconds;
    const char *checkpoint;
    tr_checkpoint_rows rows;
    bool        resume, needs_one, anew;
    tr_checkpoint_entry resumed;                           /* whose checkpoints a training goes on from: TR_ENTRY_RESUME... */
    char        command[4096];
    int         file_count;
    char      **files;
} choices;

static int read_count(int64_t *out, const char *text)
{
    char *end;

    errno = 0;
    *out = strtoll(text, &end, 10);
    return errno || end == text || *end || *out < 0 || *out > INT32_MAX ? -1 : 0;
}

static int read_seconds(double *out, const char *text)
{
    char *end;

    *out = strtod(text, &end);
    return end == text || *end || !(*out >= 0) || *out > 1e9 ? -1 : 0;
}

/* Read a variable of the environment. NULL: it does not exist, or is empty. */
static const char *environment(const char *variable)
{
    const char *text = getenv(variable);

    return text && *text ? text : NULL;
}

static int refuse_environment(const char *variable, const char *text)
{
    fprintf(stderr, "trireme-trainer: %s='%s' in the environment; a number above 0 is possible\n", variable, text);
    return 2;
}

/* The options of `trireme launch --checkpoint` for every trainer. The trainer's own options override them. */
static int read_environment(choices *c)
{
    static const char *const names[] = {"TRIREME_CHECKPOINT_STEPS", "TRIREME_CHECKPOINT_KEEP", "TRIREME_CHECKPOINT_FULL_EVERY",
                                        "TRIREME_CHECKPOINT_SECONDS"};
    int64_t *const           counts[] = {&c->checkpoint_steps, &c->checkpoint_keep, &c->checkpoint_full_every};
    enum { COUNTS = sizeof counts / sizeof *counts };
    const char *resume = environment("TRIREME_RESUME"), *anew = environment("TRIREME_ANEW"), *seconds = environment(names[COUNTS]);

    const char *rows = environment("TRIREME_CHECKPOINT_ROWS");

    c->checkpoint = environment("TRIREME_CHECKPOINT");
    if (!c->checkpoint)
        return 0;
    c->resume = resume && strcmp(resume, "0") != 0;
    c->resumed = resume && !strcmp(resume, "auto") ? TR_ENTRY_RESUME_COMMAND : TR_ENTRY_RESUME;
    c->anew = anew && strcmp(anew, "0") != 0;
    for (int i = 0; i < COUNTS; i++) {
        const char *text = environment(names[i]);
        if (text && (read_count(counts[i], text) || *counts[i] == 0))
            return refuse_environment(names[i], text);
    }
    if (seconds && (read_seconds(&c->checkpoint_seconds, seconds) || !(c->checkpoint_seconds > 0)))
        return refuse_environment(names[COUNTS], seconds);
    if (rows && tr_checkpoint_rows_parse(&c->rows, rows) != TR_OK)
        return refuse("TRIREME_CHECKPOINT_ROWS is neither exact nor int8:", rows);
    return 0;
}

/* "job.trj --epochs 3": by this text checkpoints know whose they are. A text that is too long is cut. */
static void write_command(char *out, size_t size, int argc, char **argv)
{
    size_t length = 0;

    *out = '\0';
    for (int i = 1; i < argc && length < size; i++) {
        const char *slash = i == 1 ? strrchr(argv[i], '/') : NULL;
        length += (size_t)snprintf(out + length, size - length, "%s%s", i > 1 ? " " : "", slash ? slash + 1 : argv[i]);
    }
}

/* Returns 0: go on; 1: there is nothing more to do; 2: the command line is wrong. */
static int read_options(choices *c, int argc, char **argv)
{
    enum { EPOCHS = 1, STEPS, REPORT, THREADS, READERS, CHECKPOINT_STEPS, CHECKPOINT_SECONDS, CHECKPOINT_KEEP, CHECKPOINT_FULL_EVERY,
           CHECKPOINT_ROWS, SAVE, CHECKPOINT, RESUME, ANEW, HELP, VERSION };
    static const struct option names[] = {
        {"epochs", required_argument, NULL, EPOCHS}, {"steps", required_argument, NULL, STEPS},
        {"report", required_argument, NULL, REPORT}, {"threads", required_argument, NULL, THREADS},
        {"readers", required_argument, NULL, READERS}, {"save", required_argument, NULL, SAVE},
        {"checkpoint", required_argument, NULL, CHECKPOINT}, {"checkpoint-steps", required_argument, NULL, CHECKPOINT_STEPS},
        {"checkpoint-seconds", required_argument, NULL, CHECKPOINT_SECONDS},
        {"checkpoint-keep", required_argument, NULL, CHECKPOINT_KEEP},
        {"checkpoint-full-every", required_argument, NULL, CHECKPOINT_FULL_EVERY},
        {"checkpoint-rows", required_argument, NULL, CHECKPOINT_ROWS}, {"resume", optional_argument, NULL, RESUME},
        {"anew", no_argument, NULL, ANEW},
        {"help", no_argument, NULL, HELP}, {"version", no_argument, NULL, VERSION}, {0},
    };
    int64_t *const counts[] = {NULL, &c->epochs, &c->steps, &c->report, &c->threads, &c->readers,
                              &c->checkpoint_steps, NULL, &c->checkpoint_keep, &c->checkpoint_full_every};

    opterr = 0;
    for (int found, at; at = optind, (found = getopt_long(argc, argv, ":", names, NULL)) != -1;) {
        if (found == '?' || found == ':')
            return refuse(found == '?' ? "there is no option" : "a value is missing after", argv[at]);
        if (found == HELP || found == VERSION) {
            printf("%s%s", found == HELP ? usage : tr_version(), found == HELP ? "" : "\n");
            return 1;
        }
        if (found == SAVE)
            c->save = optarg;
        else if (found == CHECKPOINT)
            c->checkpoint = optarg;
        else if (found == CHECKPOINT_ROWS) {
            if (tr_checkpoint_rows_parse(&c->rows, optarg) != TR_OK)
                return refuse("rows are exact or int8, not", optarg);
        } else if (found == RESUME) {
            if (optarg && strcmp(optarg, "auto") != 0)
                return refuse("--resume and --resume=auto are possible, not", optarg);
            c->resume = true;
            c->needs_one = !optarg;
            c->resumed = optarg ? TR_ENTRY_RESUME_SCRIPT : TR_ENTRY_RESUME;
        } else if (found == ANEW)
            c->anew = true;
        else if (found == CHECKPOINT_SECONDS ? read_seconds(&c->checkpoint_seconds, optarg) : read_count(counts[found], optarg))
            return refuse("not a number from 0 on:", optarg);
    }
    if (optind == argc)
        return refuse("a job is missing:", "JOB");
    if (!c->checkpoint && (c->resume || c->anew || c->checkpoint_steps >= 0 || c->checkpoint_seconds >= 0 || c->checkpoint_keep >= 0 ||
                           c->checkpoint_full_every >= 0 || c->rows != TR_ROWS_EXACT))
        return refuse("checkpoints need a folder:", "--checkpoint");
    c->job = argv[optind];
    c->files = argv + optind + 1;
    c->file_count = argc - optind - 1;
    return 0;
}

static tr_checkpoint_entry entry_of(const choices *c)
{
    if (c->resume)
        return c->resumed;
    return c->anew ? TR_ENTRY_ANEW : TR_ENTRY_BEGIN;
}

static void choose(tr_saved_job_desc *desc, const choices *c)
{
    desc->loop.epochs = c->epochs >= 0 ? c->epochs : desc->loop.epochs;
    desc->loop.steps = c->steps >= 0 ? c->steps : desc->loop.steps;
    desc->loop.report_every = c->report >= 0 ? c->report : desc->loop.report_every;
    desc->loop.threads = c->threads >= 0 ? (int)c->threads : desc->loop.threads;
    desc->data.threads = c->readers >= 0 ? (int)c->readers : desc->data.threads;
    desc->save_folder = c->save ? c->save : desc->save_folder;
    desc->checkpoints = (tr_checkpoint_options){
        .folder = c->checkpoint, .every_steps = c->checkpoint_steps > 0 ? c->checkpoint_steps : 0,
        .every_seconds = c->checkpoint_seconds > 0 ? c->checkpoint_seconds : 0,
        .keep = c->checkpoint_keep >= 0 ? (int)c->checkpoint_keep : 3, .full_every = c->checkpoint_full_every, .rows = c->rows,
        .resume = c->resume, .needs_one = c->needs_one, .entry = entry_of(c), .command = c->command};
    if (c->file_count) {
        desc->data.files = (const char *const *)c->files;
        desc->data.file_count = c->file_count;
    }
}

/* Is this process one of several ranks? A process of `mpirun -np 1` trains by itself. */
static bool is_in_job(void)
{
    const char *local = getenv("TRIREME_LOCAL"), *size = getenv("OMPI_COMM_WORLD_SIZE");

    if (!size)
        size = getenv("SLURM_NTASKS");
    return tr_job_is_launched() && !(local && *local && strcmp(local, "0")) && !(size && !strcmp(size, "1"));
}

static void watch(const tr_loop_report *report, double seconds, void *payload)
{
    (void)payload;
    if (report->is_due)
        printf("%s\n", report->line);
    else
        printf("%lld steps, %lld samples in %.3f s, %.3f us a step\n", (long long)report->step, (long long)report->samples,
               seconds, report->step ? 1e6 * seconds / (double)report->step : 0.0);
    fflush(stdout);
}

/* End the job on every rank, with this text. */
static void abort_job(tr_job *job)
{
    char text[4096];

    snprintf(text, sizeof text, "%s: %s", tr_job_rank_name(job, tr_job_rank(job)), tr_error());
    tr_job_tell_failure(1, text);
    tr_job_abort(job, text);
}

/* Print a failure of this process. Another rank has printed its own. */
static void tell(tr_status status, tr_job *job)
{
    if (status == TR_OK || status == TR_EPEER)
        return;
    if (job) {
        abort_job(job);
        return;
    }
    fprintf(stderr, "trireme-trainer: %s\n", tr_error());
    if (tr_job_is_launched() && status != TR_ETIMEOUT)         /* after a timeout the launcher itself names the rank that is late */
        tr_job_tell_failure(1, tr_error());
}

/* == what a job does beside training ============================================================== */

/* Print a text from outside in one line, without bytes that steer the terminal. */
static void show(const char *text)
{
    for (; *text; text++)
        fprintf(stderr, (unsigned char)*text < 0x20 || *text == 0x7f ? "\\x%02x" : "%c", (unsigned char)*text);
}

static bool touches_files(const tr_job_program *program)
{
    tr_program *parsed = NULL;
    const bool  does = program->bytes && tr_program_parse(&parsed, program->bytes, program->size) == TR_OK &&
                      tr_program_check_io(parsed, TR_IO_PEERS) != TR_OK;

    tr_program_free(parsed);
    return does;
}

static bool any_touches_files(const tr_saved_job_desc *desc)
{
    bool does = touches_files(&desc->startup) || touches_files(&desc->main);

    for (int c = 0; !does && c < desc->partition_count; c++) {
        const tr_partition *partition = &desc->partitions[c];
        does = touches_files(&partition->trainer) || touches_files(&partition->idle) || touches_files(&partition->prepare) ||
               touches_files(&partition->begin) || touches_files(&partition->flush) || touches_files(&partition->after);
        for (int s = 0; !does && s < partition->spec.program_count; s++)
            does = touches_files(&partition->spec.programs[s]);
    }
    return does;
}

/* A saved job is code. So the user sees its commands and files before any of it runs. */
static void say_code(const tr_saved_job_desc *desc, const char *path)
{
    if (desc->data.pipe_command) {
        fprintf(stderr, "trireme-trainer: %s runs a command on each file of its data: ", path);
        show(desc->data.pipe_command);
        fputc('\n', stderr);
    }
    if (any_touches_files(desc))
        fprintf(stderr, "trireme-trainer: %s has programs with operators that read or write files\n", path);
    fflush(stderr);
}

static tr_status run(bool *is_stopped, tr_job *job, const tr_saved_job *saved, const choices *c)
{
    const bool        is_teller = !job || tr_job_index(job) == 0;
    tr_saved_job_desc desc = *tr_saved_job_get(saved);

    choose(&desc, c);
    if (is_teller)
        say_code(&desc, c->job);
    const tr_status status = tr_saved_job_run(is_stopped, &desc, job, is_teller ? watch : NULL, NULL);
    if (*is_stopped && job)
        tr_job_tell_failure(TR_STOPPED, "stopped, with a checkpoint");
    return status;
}

/* Leave the job, if this process is in one; return the exit code. */
static int leave(tr_job *job, tr_status status, bool is_stopped)
{
    const tr_status end = tr_job_free(job);
    const bool      is_good = status == TR_OK && end == TR_OK;

    fflush(NULL);
    if (job && (!is_good || tr_job_must_exit()))
        _exit(is_good ? 0 : tr_job_exit_code());   /* MPI is not finalized after a death */
    return is_stopped ? TR_STOPPED : is_good ? 0 : 1;
}

/* Serve as a standby until the standby replaces a dead trainer; then *job is the replacement's. Returns false when the job is over, with
 * the exit code in *code. */
static bool wait_as_standby(tr_job **job, int *code)
{
    const tr_job_options options = {.can_replace = true};

    tr_job_prepare();
    tr_status status = tr_dist_init();
    if (status == TR_OK)
        status = tr_job_start(job, TR_ROLE_STANDBY, &options);
    if (status != TR_OK)
        tell(status, NULL);
    else
        status = tr_job_serve(*job);               /* one rank prints why a job failed */
    if (status == TR_OK && tr_job_role(*job) == TR_ROLE_TRAINER)
        return true;
    *code = leave(*job, status, false);
    return false;
}

/* Run the job, as a trainer or alone. */
static int train(tr_job *job, const choices *c)
{
    tr_saved_job *saved = NULL;
    bool          is_stopped = false;
    tr_status     status = tr_dist_init();

    if (status == TR_OK)
        status = tr_saved_job_load(&saved, c->job);
    if (status == TR_OK && !job && is_in_job())
        status = tr_job_start(&job, TR_ROLE_TRAINER, NULL);
    if (status == TR_OK)
        status = run(&is_stopped, job, saved, c);
    tell(status, job);
    const int code = leave(job, status, is_stopped);
    tr_saved_job_free(saved);
    return code;
}

int main(int argc, char **argv)
{
    choices    c = {.epochs = -1, .steps = -1, .report = -1, .threads = -1, .readers = -1, .checkpoint_steps = -1,
                    .checkpoint_seconds = -1, .checkpoint_keep = -1, .checkpoint_full_every = -1};
    tr_job    *job = NULL;
    int        code;
    const bool is_standby = argc > 1 && !strcmp(argv[1], "--standby");

    if (is_standby && !wait_as_standby(&job, &code))
        return code;
    write_command(c.command, sizeof c.command, argc - is_standby, argv + is_standby);      /* before getopt changes the order */
    int found = read_environment(&c);
    if (!found)
        found = read_options(&c, argc - is_standby, argv + is_standby);
    if (is_in_job())
        tr_job_prepare();
    if (found > 1 && is_in_job())
        tr_job_tell_failure(found, "a wrong command line");
    return found > 1 ? found : found ? 0 : train(job, &c);
}
