/* runlog.c - see runlog.h. A process has one log, because it has one job. */
#include "pserver/observe/runlog.h"

#include "framework/base/fork_lock.h"
#include "framework/base/number.h"
#include "pserver/observe/launcher.h"
#include "pserver/util/wake.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

static const int64_t SECOND = 1000000000;

static struct {
    tr_fork_lock      lock;           /* protects `lines` */
    tr_text           lines;          /* lines that are not written yet */
    atomic_bool       is_on;
    pthread_t         thread;
    atomic_bool       is_ending;
    atomic_uint       bell;
    tr_runlog_source source;
    atomic_int        file;           /* -1: there is no file */
    int               rank;
    bool              tells;          /* the launcher wants figures */
    char              path[1024];
    int64_t           period;         /* time between two lines with totals */
} runlog = {.lock = TR_FORK_LOCK_INIT, .file = -1};

/* == text ====================================================================================== */

const char *tr_json_quote(char *out, size_t size, const char *text)
{
    size_t n = 0;

    out[n++] = '"';
    for (; *text && n + 8 < size; text++) {
        const unsigned char c = (unsigned char)*text;
        if (c < 0x20)
            n += (size_t)snprintf(out + n, size - n, "\\u%04x", c);
        else if (c == '"' || c == '\\')
            n += (size_t)snprintf(out + n, size - n, "\\%c", c);
        else
            out[n++] = *text;
    }
    out[n++] = '"';
    out[n] = '\0';
    return out;
}

static void begin_line(tr_text *line, const char *event)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    tr_text_add(line, "{\"t_s\":%lld.%03ld,\"event\":\"%s\"", (long long)now.tv_sec, now.tv_nsec / 1000000, event);
}

static void add_line(tr_text *line)
{
    tr_text_add(line, "}\n");
    tr__fork_lock_take(&runlog.lock);
    if (line->data && !line->failed)
        tr_text_add_bytes(&runlog.lines, line->data, line->size);
    tr__fork_lock_release(&runlog.lock);
    tr_text_deinit(line);
}

static void add_args(tr_text *line, const char *format, va_list args)
{
    va_list again;

    va_copy(again, args);
    const int length = tr__vformat(NULL, 0, format, again);
    va_end(again);
    char *text = length > 0 ? malloc((size_t)length + 1) : NULL;
    if (!text)
        return;
    tr__vformat(text, (size_t)length + 1, format, args);
    tr_text_add_bytes(line, text, (size_t)length);
    free(text);
}

/* == writing =================================================================================== */

static void give_up(void)
{
    fprintf(stderr, "trireme: the log '%s' cannot be written and ends here: %s\n", runlog.path, strerror(errno));
    close(runlog.file);
    runlog.file = -1;
}

static void write_lines(void)
{
    tr_text taken;

    tr__fork_lock_take(&runlog.lock);
    taken = runlog.lines;
    runlog.lines = (tr_text){0};
    tr__fork_lock_release(&runlog.lock);
    for (size_t at = 0; runlog.file >= 0 && at < taken.size;) {
        const ssize_t n = write(runlog.file, taken.data + at, taken.size - at);
        if (n >= 0)
            at += (size_t)n;
        else if (errno != EINTR)
            give_up();
    }
    tr_text_deinit(&taken);
}

static void write_totals(void)
{
    tr_text line = {0};

    begin_line(&line, "steps");
    runlog.source.totals(runlog.source.self, &line);
    add_line(&line);
}

static void tell_launcher(void)
{
    tr_text text = {0};

    tr_text_add(&text, "{\"rank\":%d", runlog.rank);
    runlog.source.progress(runlog.source.self, &text);
    tr_text_add(&text, "}\n");
    if (!text.failed)
        tr__launcher_tell(TR_NOTICE_PROGRESS, runlog.rank, text.data);
    tr_text_deinit(&text);
}

/* At first lines with totals come at short intervals, so that a short job leaves some, too. */
static void *run(void *payload)
{
    int64_t told = 0, written = tr__clock(), period = runlog.period < SECOND ? runlog.period : SECOND;

    (void)payload;
    prctl(PR_SET_NAME, "trireme-log");
    while (!atomic_load(&runlog.is_ending)) {
        const unsigned seen = atomic_load(&runlog.bell);
        const int64_t  now = tr__clock();
        if (runlog.file >= 0 && now - written >= period) {
            write_totals();
            written = now;
            period = 2 * period < runlog.period ? 2 * period : runlog.period;
        }
        write_lines();
        if (runlog.tells && now - told >= SECOND) {
            told = now;
            tell_launcher();
        }
        if (!atomic_load(&runlog.is_ending))
            tr__bell_wait(&runlog.bell, seen, period < SECOND ? period : SECOND);
    }
    return NULL;
}

/* == calls ====================================================================================== */

static const char *folder_of_logs(void)
{
    const char *folder = getenv("TRIREME_LOG");
    return folder && *folder ? folder : NULL;
}

static tr_status check_folder(const char *folder)
{
    if (strlen(folder) + 64 > sizeof runlog.path)
        return tr_fail(TR_EINVAL, "job: TRIREME_LOG='%s' is too long for a path", folder);
    if (mkdir(folder, 0777) && errno != EEXIST)
        return tr_fail(TR_EIO, "job: the folder of the logs, '%s', cannot be made: %s", folder, strerror(errno));
    if (access(folder, W_OK | X_OK))
        return tr_fail(TR_EIO, "job: logs cannot be written to '%s': %s", folder, strerror(errno));
    return TR_OK;
}

static tr_status take_period(void)
{
    const char  *text = getenv("TRIREME_LOG_SECONDS");
    char        *end;
    const double seconds = text && *text ? tr__strtod(text, &end) : 10;

    if (text && *text && (*end || !(seconds >= 0.01 && seconds < 1e6)))
        return tr_fail(TR_EINVAL, "job: TRIREME_LOG_SECONDS='%s' in the environment; seconds from 0.01 on are possible", text);
    runlog.period = (int64_t)(seconds * 1e9);
    return TR_OK;
}

tr_status tr_runlog_prepare(void)
{
    const char *progress = getenv("TRIREME_PROGRESS");

    runlog.tells = progress && !strcmp(progress, "1");
    TR_TRY(take_period());
    return folder_of_logs() ? check_folder(folder_of_logs()) : TR_OK;
}

static void open_file(const char *name, bool is_again)
{
    snprintf(runlog.path, sizeof runlog.path, "%s/%s.jsonl", folder_of_logs(), name);
    runlog.file = open(runlog.path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | (is_again ? 0 : O_TRUNC), 0666);
    if (runlog.file < 0)
        fprintf(stderr, "trireme: there is no log '%s': %s\n", runlog.path, strerror(errno));
}

/* Signals are for the program's own threads, so this thread blocks them. */
static bool start_thread(void)
{
    sigset_t all, old;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    const int error = pthread_create(&runlog.thread, NULL, run, NULL);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return !error;
}

void tr_runlog_start(const char *name, int rank, bool is_again, const tr_runlog_source *source)
{
    if (folder_of_logs())
        open_file(name, is_again);
    if (runlog.file < 0 && !runlog.tells)
        return;
    runlog.source = *source;
    runlog.rank = rank;
    atomic_store(&runlog.is_on, start_thread());
}

bool tr_runlog_has_file(void)
{
    return runlog.is_on && runlog.file >= 0;
}

void tr_runlog_note(const char *event, const char *format, ...)
{
    tr_text line = {0};
    va_list args;

    if (!tr_runlog_has_file())
        return;
    begin_line(&line, event);
    va_start(args, format);
    add_args(&line, format, args);
    va_end(args);
    add_line(&line);
    tr__bell_ring(&runlog.bell);
}

void tr_runlog_end(const char *format, ...)
{
    tr_text line = {0};
    va_list args;

    if (!runlog.is_on)
        return;
    atomic_store(&runlog.is_ending, true);
    tr__bell_ring(&runlog.bell);
    pthread_join(runlog.thread, NULL);
    runlog.is_on = false;
    if (runlog.file < 0)
        return;
    begin_line(&line, "summary");
    runlog.source.totals(runlog.source.self, &line);
    va_start(args, format);
    add_args(&line, format, args);
    va_end(args);
    add_line(&line);
    write_lines();
    if (runlog.file >= 0)
        close(runlog.file);
    runlog.file = -1;
}
