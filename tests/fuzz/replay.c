/* replay.c - run a fuzz target over files instead of under libFuzzer.
 *
 *     fuzz_NAME FOLDER... [-mutants=FROM:TO]
 *
 * This makes each fuzz target a regression test in every build: what a fuzzer once found lies in
 * tests/fuzz/corpus/NAME and is tried again. A folder without a file is a failure, so that a corpus
 * that went missing is noticed. Each input is a heap block of just its size: a read beyond it is seen
 * by the address sanitizer.
 *
 * A target with a mutator of its own is tried with mutants of its corpus, too: number n is always the same one. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int    LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed) __attribute__((weak));

enum { MAX_FILES = 4096, MAX_MUTANT = 1 << 20 };

typedef struct file {
    char     path[512];
    uint8_t *data;
    size_t   size;
} file;

static file files[MAX_FILES];
static int  file_count;

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

static int read_folder(const char *folder)
{
    struct dirent **entries;
    const int       count = scandir(folder, &entries, NULL, alphasort);
    int             read = 0;

    if (count < 0) {
        perror(folder);
        exit(EXIT_FAILURE);
    }
    for (int i = 0; i < count; i++) {
        char path[512];
        snprintf(path, sizeof path, "%s/%s", folder, entries[i]->d_name);
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

static void run_mutants(long from, long to)
{
    uint8_t *room = malloc(MAX_MUTANT);

    for (long n = from; room && n < to; n++) {
        const file *f = &files[n % file_count];
        if (f->size > MAX_MUTANT)
            continue;
        printf("mutant %ld of %s\n", n, f->path);
        memcpy(room, f->data, f->size);
        const size_t size = LLVMFuzzerCustomMutator(room, f->size, MAX_MUTANT, (unsigned)n);
        uint8_t     *mutant = malloc(size);
        memcpy(mutant, room, size);
        LLVMFuzzerTestOneInput(mutant, size);
        free(mutant);
    }
    free(room);
}

int main(int argc, char **argv)
{
    long from = 0, to = 0;

    setvbuf(stdout, NULL, _IOLBF, 0);
    for (int i = 1; i < argc; i++) {
        if (sscanf(argv[i], "-mutants=%ld:%ld", &from, &to) == 2)
            continue;
        if (read_folder(argv[i]) == 0) {
            fprintf(stderr, "%s holds no file\n", argv[i]);
            return EXIT_FAILURE;
        }
    }
    if (from == 0)
        run_corpus();
    if (to > from && LLVMFuzzerCustomMutator)
        run_mutants(from, to);
    for (int i = 0; i < file_count; i++)
        free(files[i].data);
    return argc > 1 ? EXIT_SUCCESS : EXIT_FAILURE;
}
