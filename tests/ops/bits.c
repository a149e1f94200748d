#include "ops/bits.h"

#include <inttypes.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "test.h"

enum { MAX_LINES = 1024, MAX_NAME = 160 };

typedef struct line {
    char name[MAX_NAME]; /* TEST or TEST/WHAT, spaces as underscores */
    uint64_t hash;
} line;

static line lines[MAX_LINES];
static size_t n_lines;
static const char *test = "";

void bits_begin_test(const char *name) {
    test = name;
}

static line *find(const char *name) {
    for (size_t i = 0; i < n_lines; i++)
        if (strcmp(lines[i].name, name) == 0)
            return &lines[i];
    return NULL;
}

static line *find_or_add(const char *what) {
    char name[MAX_NAME];
    snprintf(name, sizeof name, "%s/%s", test, what);
    for (char *c = name; *c != '\0'; c++)
        if (*c == ' ')
            *c = '_';
    line *found = find(name);
    if (found != NULL)
        return found;
    assert_true(n_lines < MAX_LINES);
    found = &lines[n_lines++];
    memcpy(found->name, name, sizeof name);
    found->hash = UINT64_C(0xcbf29ce484222325);
    return found;
}

/* FNV-1a, by words. */
void bits_add(const char *what, const float *x, size_t n) {
    uint64_t *hash = &find_or_add(what)->hash;
    for (size_t i = 0; i < n; i++) {
        uint32_t word = 0x7fc00000;
        if (!isnan(x[i]))
            memcpy(&word, &x[i], sizeof word);
        *hash = (*hash ^ word) * UINT64_C(0x100000001b3);
    }
}

bool bits_write(const char *path) {
    FILE *file = fopen(path, "w");
    if (file == NULL)
        return false;
    for (size_t i = 0; i < n_lines; i++)
        fprintf(file, "%016" PRIx64 " %s\n", lines[i].hash, lines[i].name);
    return fclose(file) == 0;
}

bool bits_compare(const char *path) {
    FILE *file = fopen(path, "r");
    if (file == NULL) {
        printf("bits: %s is not there\n", path);
        return true;
    }
    size_t n_same = 0, n_other = 0;
    uint64_t hash;
    char name[MAX_NAME];
    while (fscanf(file, "%" SCNx64 " %159s", &hash, name) == 2) {
        const line *got = find(name);
        if (got == NULL)
            continue;
        if (got->hash == hash)
            n_same++;
        else if (n_other++ < 20)
            fprintf(stderr, "bits: %s differs from %s\n", name, path);
    }
    fclose(file);
    printf("bits: %zu as in %s, %zu others\n", n_same, path, n_other);
    return n_other == 0;
}
