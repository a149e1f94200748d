/* Which family a type is, and the names that it resembles. */
#include <stdio.h>
#include <string.h>

#include "model/family.h"

enum { MAX_TYPE_BYTES = 64, N_NEAREST = 3 };

static const char *names_of(const ln_family *family, ln_checkpoint_format format) {
    if (format == LN_FORMAT_GGUF)
        return family->gguf != NULL ? family->gguf : "";
    return family->hf_types != NULL ? family->hf_types : family->name;
}

const ln_family *ln_family_of(ln_checkpoint_format format, const char *type, size_t n_bytes) {
    for (size_t i = 0; ln_families[i] != NULL; i++)
        if (ln_list_has(names_of(ln_families[i], format), type, n_bytes))
            return ln_families[i];
    return NULL;
}

static size_t smaller(size_t a, size_t b) {
    return a < b ? a : b;
}

/* Levenshtein's distance: insertions, deletions and replacements that make one of the other. */
static size_t distance(const char *a, size_t n_a, const char *b, size_t n_b) {
    size_t row[MAX_TYPE_BYTES + 1];
    n_b = smaller(n_b, MAX_TYPE_BYTES);
    for (size_t j = 0; j <= n_b; j++)
        row[j] = j;
    for (size_t i = 1; i <= smaller(n_a, MAX_TYPE_BYTES); i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= n_b; j++) {
            size_t replaced = diagonal + (a[i - 1] != b[j - 1]);
            diagonal = row[j];
            row[j] = smaller(replaced, smaller(row[j], row[j - 1]) + 1);
        }
    }
    return row[n_b];
}

typedef struct candidate {
    const char *name;
    size_t n_bytes, distance;
} candidate;

/* Keeps `best` [N_NEAREST] in order; of equal ones the first stays ahead. */
static void offer(candidate *best, candidate c) {
    for (size_t i = 0; i < N_NEAREST; i++)
        if (best[i].name == NULL || c.distance < best[i].distance) {
            candidate pushed = best[i];
            best[i] = c;
            c = pushed;
        }
}

void ln_family_nearest(ln_checkpoint_format format, const char *type, size_t n_bytes,
                       char names[LN_NEAREST_BYTES]) {
    candidate best[N_NEAREST] = {{0}};
    for (size_t i = 0; ln_families[i] != NULL; i++)
        for (const char *c = names_of(ln_families[i], format); *c != '\0';) {
            size_t length = strcspn(c, "|"), apart = distance(type, n_bytes, c, length);
            if (2 * apart <= n_bytes) /* others only look like it by chance */
                offer(best, (candidate){c, length, apart});
            c += length + (c[length] == '|');
        }
    size_t used = 0;
    names[0] = '\0';
    for (size_t i = 0; i < N_NEAREST && best[i].name != NULL; i++)
        used += (size_t)snprintf(names + used, LN_NEAREST_BYTES - used, "%s%.*s", i > 0 ? ", " : "",
                                 (int)smaller(best[i].n_bytes, MAX_TYPE_BYTES), best[i].name);
}
