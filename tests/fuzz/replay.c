/* replay.c - run a fuzz target over files instead of under libFuzzer.
 *
 *     fuzz_NAME FOLDER|FILE... [-mutants=FROM:TO | -changes=FROM:TO] [-keep=FILE]
 *
 * This makes each fuzz target a regression test in every build: what a fuzzer once found lies in
 * tests/fuzz/corpus/NAME and is tried again. A folder without a file is a failure, so that a corpus
 * that went missing is noticed. Each input is a heap block of just its size: a read beyond it is seen
 * by the address sanitizer.
 *
 * A target with a mutator of its own is tried with mutants of its corpus, too: number n is always the same one of the same
 * files. Mutants are changed at random, as often as the mutator likes; -changes tries every single change, one after the
 * other, if the target can name them. FROM is 1 or more; TO is not tried. -keep writes each mutant to a file before it runs, so that the
 * file holds the one that crashed. */
#include <dirent.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

int    LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed) __attribute__((weak));

/* The first change of the input where *more is false, then the next one; *more: there are others. */
size_t fuzz_change(uint8_t *data, size_t size, size_t max_size, bool *more) __attribute__((weak));
/* What the runs came to, in words. */
const char *fuzz_summary(void) __attribute__((weak));

enum { MAX_FILES = 4096, MAX_MUTANT = 1 << 20 };

typedef struct file {
    char     path[512];
    uint8_t *data;
    size_t   size;
} file;

static file files[MAX_FILES];
static int  file_count;

static uint8_t     room[MAX_MUTANT];
static const char *kept_as;            /* -keep */

/* -- the corpus ------------------------------------------------------------------------------- */

static int read_file(const char *path)
{
    struct stat info;
    FILE       *in = fopen(path, "rb");

    if (!in || fstat(fileno(in), &info) != 0 || file_count == MAX_FILES) {
        perror(path);
        exit(EXIT_FAILURE);
    }
    if (!S_ISREG(info.st_mode)) {
        fclose(in);
        return 0;
    }
    file *f = &files[file_count++];
    snprintf(f->path, sizeof f->path, "%s", path);
    f->size = (size_t)info.st_size;
    f->data = malloc(f->size > 0 ? f->size : 1);
    if (!f->data || fread(f->data, 1, f->size, in) != f->size) {
        perror(path);
        exit(EXIT_FAILURE);
    }
    fclose(in);
    return 1;
}

/* A folder's files, or one file; how many. */
static int read_files(const char *given)
{
    struct dirent **entries;
    struct stat     info;
    int             read = 0;

    if (stat(given, &info) == 0 && S_ISREG(info.st_mode))
        return read_file(given);
    const int count = scandir(given, &entries, NULL, alphasort);
    if (count < 0) {
        perror(given);
        exit(EXIT_FAILURE);
    }
    for (int i = 0; i < count; i++) {
        char path[512];
        snprintf(path, sizeof path, "%s/%s", given, entries[i]->d_name);
        read += read_file(path);
        free(entries[i]);
    }
    free(entries);
    return read;
}

/* -- running ---------------------------------------------------------------------------------- */

/* The last line of the output names the input that crashed. */
static void run_corpus(void)
{
    for (int i = 0; i < file_count; i++) {
        printf("%s (%zu bytes)\n", files[i].path, files[i].size);
        LLVMFuzzerTestOneInput(files[i].data, files[i].size);
    }
}

static void keep(const uint8_t *data, size_t size)
{
    FILE *out = fopen(kept_as, "wb");

    if (!out || fwrite(data, 1, size, out) != size || fclose(out) != 0) {
        perror(kept_as);
        exit(EXIT_FAILURE);
    }
}

static void run_mutant(const uint8_t *data, size_t size)
{
    uint8_t *mutant = malloc(size);

    memcpy(mutant, data, size);
    if (kept_as)
        keep(mutant, size);
    LLVMFuzzerTestOneInput(mutant, size);
    free(mutant);
}

static size_t take(const file *f)
{
    if (f->size > MAX_MUTANT) {
        fprintf(stderr, "%s is too large for mutants\n", f->path);
        exit(EXIT_FAILURE);
    }
    memcpy(room, f->data, f->size);
    return f->size;
}

static long run_mutants(long from, long to)
{
    for (long n = from; n < to; n++) {
        const file *f = &files[n % file_count];
        printf("mutant %ld of %s\n", n, f->path);
        run_mutant(room, LLVMFuzzerCustomMutator(room, take(f), MAX_MUTANT, (unsigned)n));
    }
    return to - from;
}

static long run_changes(long from, long to)
{
    long n = 1;

    for (int i = 0; i < file_count && n < to; i++) {
        bool more = false;
        do {
            const size_t size = fuzz_change(room, take(&files[i]), MAX_MUTANT, &more);
            if (n >= from) {
                printf("change %ld of %s\n", n, files[i].path);
                run_mutant(room, size);
            }
        } while (++n < to && more);
    }
    return n - from;
}

static void report(const char *what, long count, time_t began)
{
    printf("%ld %s of %d files: no finding in %ld s", count, what, file_count, (long)(time(NULL) - began));
    printf("%s%s\n", fuzz_summary ? "; " : "", fuzz_summary ? fuzz_summary() : "");
}

int main(int argc, char **argv)
{
    long         from = 0, to = 0;
    bool         changes = false;
    const time_t began = time(NULL);

    setvbuf(stdout, NULL, _IOLBF, 0);
    for (int i = 1; i < argc; i++) {
        if (sscanf(argv[i], "-mutants=%ld:%ld", &from, &to) == 2)
            continue;
        if (sscanf(argv[i], "-changes=%ld:%ld", &from, &to) == 2)
            changes = true;
        else if (strncmp(argv[i], "-keep=", 6) == 0)
            kept_as = argv[i] + 6;
        else if (read_files(argv[i]) == 0) {
            fprintf(stderr, "%s holds no file\n", argv[i]);
            return EXIT_FAILURE;
        }
    }
    if (from == 0)
        run_corpus();
    else if (changes && fuzz_change)
        report("changes", run_changes(from, to), began);
    else if (LLVMFuzzerCustomMutator)
        report("mutants", run_mutants(from, to), began);
    for (int i = 0; i < file_count; i++)
        free(files[i].data);
    return argc > 1 ? EXIT_SUCCESS : EXIT_FAILURE;
}
