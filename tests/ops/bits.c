#include "ops/bits.h"

#include <inttypes.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/hash/fnv.h"
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
    found->hash = LN_FNV_START;
    return found;
}

/* All NaNs count as one. */
static void add_word(uint64_t *hash, float x) {
    uint32_t word = 0x7fc00000;
    if (!isnan(x))
        memcpy(&word, &x, sizeof word);
    *hash = ln_fnv_add(*hash, word);
}

void bits_add(const char *what, const float *x, size_t n) {
    uint64_t *hash = &find_or_add(what)->hash;
    for (size_t i = 0; i < n; i++)
        add_word(hash, x[i]);
}

/* What the C library's functions give, which releases of it round differently. */
static uint64_t hash_libm(void) {
    static float (*const functions[])(float) = {expf, exp2f, expm1f, logf, log1pf,
                                                sinf, cosf,  tanhf,  erff};
    enum { N_INPUTS = 8192 };
    uint64_t hash = LN_FNV_START;
    for (size_t f = 0; f < sizeof functions / sizeof *functions; f++)
        for (int i = 0; i < N_INPUTS; i++)
            add_word(&hash, functions[f]((float)(i - N_INPUTS / 2) * 0x1.3p-9f));
    for (int i = 1; i < N_INPUTS; i++)
        add_word(&hash, powf((float)i * 0x1.3p-9f, 1.7f));
    return hash;
}

bool bits_write(const char *path) {
    FILE *file = fopen(path, "w");
    if (file == NULL)
        return false;
    fprintf(file, "%016" PRIx64 " libm\n", hash_libm());
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
    bool is_same_libm = true;
    while (fscanf(file, "%" SCNx64 " %159s", &hash, name) == 2) {
        const line *got = find(name);
        if (strcmp(name, "libm") == 0)
            is_same_libm = hash == hash_libm();
        if (got == NULL)
            continue;
        if (got->hash == hash)
            n_same++;
        else if (n_other++ < 20)
            fprintf(stderr, "bits: %s differs from %s\n", name, path);
    }
    fclose(file);
    printf("bits: %zu as in %s, %zu others%s\n", n_same, path, n_other,
           is_same_libm ? "" : ", by another release of the C library, whose functions differ");
    return n_other == 0 || !is_same_libm;
}
