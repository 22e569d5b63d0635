/* replay.c - run a fuzz target over files instead of under libFuzzer.
 *
 *     fuzz_NAME FOLDER...
 *
 * This makes each fuzz target a regression test in every build: what a fuzzer once found lies in
 * tests/fuzz/corpus/NAME and is tried again. A folder without a file is a failure, so that a corpus
 * that went missing is noticed. Each input is a heap block of just its size: a read beyond it is seen
 * by the address sanitizer. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int run_file(const char *path)
{
    struct stat info;
    FILE       *in = fopen(path, "rb");

    if (!in || fstat(fileno(in), &info) != 0) {
        perror(path);
        exit(EXIT_FAILURE);
    }
    if (!S_ISREG(info.st_mode)) {
        fclose(in);
        return 0;
    }
    const size_t size = (size_t)info.st_size;
    uint8_t     *data = malloc(size > 0 ? size : 1);
    if (!data || fread(data, 1, size, in) != size) {
        perror(path);
        exit(EXIT_FAILURE);
    }
    fclose(in);
    printf("%s (%zu bytes)\n", path, size);
    fflush(stdout);                        /* so that the last line names the input that crashed */
    LLVMFuzzerTestOneInput(data, size);
    free(data);
    return 1;
}

static int run_folder(const char *folder)
{
    struct dirent **entries;
    const int       count = scandir(folder, &entries, NULL, alphasort);
    int             runs = 0;

    if (count < 0) {
        perror(folder);
        exit(EXIT_FAILURE);
    }
    for (int i = 0; i < count; i++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/%s", folder, entries[i]->d_name);
        runs += run_file(path);
        free(entries[i]);
    }
    free(entries);
    return runs;
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (run_folder(argv[i]) == 0) {
            fprintf(stderr, "%s holds no file\n", argv[i]);
            return EXIT_FAILURE;
        }
    }
    return argc > 1 ? EXIT_SUCCESS : EXIT_FAILURE;
}
