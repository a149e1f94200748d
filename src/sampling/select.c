#include "sampling/select.h"

bool ln_comes_before(const ln_candidate *a, const ln_candidate *b) {
    return a->logit > b->logit || (a->logit == b->logit && a->id < b->id);
}

static void swap(ln_candidate *a, ln_candidate *b) {
    ln_candidate held = *a;
    *a = *b;
    *b = held;
}

static size_t middle_of_three(const ln_candidate *c, size_t i, size_t j, size_t k) {
    if (ln_comes_before(&c[j], &c[i])) {
        size_t held = i;
        i = j;
        j = held;
    }
    if (ln_comes_before(&c[k], &c[i]))
        return i;
    return ln_comes_before(&c[k], &c[j]) ? k : j;
}

/* The middle of nine, three by three. They are picked by fixed pseudo-random numbers: no pattern in
 * the logits makes the partition lopsided again and again. */
static size_t choose_pivot(const ln_candidate *c, size_t n, uint64_t turn) {
    size_t at[9];
    uint64_t state = (turn + 1) * 0x9e3779b97f4a7c15u;
    for (size_t i = 0; i < 9; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        at[i] = (size_t)((state >> 32) % n);
    }
    return middle_of_three(c, middle_of_three(c, at[0], at[1], at[2]),
                           middle_of_three(c, at[3], at[4], at[5]),
                           middle_of_three(c, at[6], at[7], at[8]));
}

/* Puts what comes before a pivot in front of it and the rest behind; returns its index. */
static size_t partition(ln_candidate *c, size_t n, uint64_t turn) {
    swap(&c[choose_pivot(c, n, turn)], &c[n - 1]);
    const ln_candidate pivot = c[n - 1];
    size_t n_before = 0;
    for (size_t i = 0; i + 1 < n; i++)
        if (ln_comes_before(&c[i], &pivot))
            swap(&c[i], &c[n_before++]);
    swap(&c[n_before], &c[n - 1]);
    return n_before;
}

void ln_select_count(ln_candidate *candidates, size_t n, size_t count) {
    for (uint64_t turn = 0; count > 0 && count < n; turn++) {
        size_t pivot = partition(candidates, n, turn);
        if (count <= pivot) {
            n = pivot;
        } else {
            candidates += pivot + 1;
            n -= pivot + 1;
            count -= pivot + 1;
        }
    }
}

/* Whether any of logits[SOME] is greater. */
enum { SOME = 32 };
static inline bool any_above(const float *logits, float bound) {
    int n_above = 0;
    for (size_t i = 0; i < SOME; i++)
        n_above += logits[i] > bound;
    return n_above > 0;
}

/* The last in order of candidates[n]. */
static float least_logit(const ln_candidate *candidates, size_t n) {
    float least = candidates[0].logit;
    for (size_t i = 1; i < n; i++)
        least = candidates[i].logit < least ? candidates[i].logit : least;
    return least;
}

/* Whenever 2 * count are there, the better half stays; a later id then comes in only with a greater
 * logit than the least of them. */
void ln_select_logits(const float *logits, size_t n, size_t count, ln_candidate *candidates) {
    size_t n_kept = 0;
    float bound = 0;
    for (; n_kept < 2 * count; n_kept++)
        candidates[n_kept] = (ln_candidate){.logit = logits[n_kept], .id = (int32_t)n_kept};
    ln_select_count(candidates, n_kept, count);
    bound = least_logit(candidates, count);
    n_kept = count;
    for (size_t i = 2 * count; i < n;) {
        if (i + SOME <= n && !any_above(logits + i, bound)) {
            i += SOME;
            continue;
        }
        for (size_t end = i + SOME < n ? i + SOME : n; i < end; i++) {
            if (!(logits[i] > bound))
                continue;
            candidates[n_kept++] = (ln_candidate){.logit = logits[i], .id = (int32_t)i};
            if (n_kept < 2 * count)
                continue;
            ln_select_count(candidates, n_kept, count);
            bound = least_logit(candidates, count);
            n_kept = count;
        }
    }
    ln_select_count(candidates, n_kept, count);
}

size_t ln_select_mass(ln_candidate *candidates, size_t n, double mass) {
    size_t n_kept = 0; /* before candidates[0]; `mass` is what is still missing */
    for (uint64_t turn = 0; n > 1; turn++) {
        size_t pivot = partition(candidates, n, turn);
        double before = 0;
        for (size_t i = 0; i < pivot; i++)
            before += candidates[i].weight;
        if (pivot > 0 && before >= mass) {
            n = pivot;
            continue;
        }
        mass -= before + candidates[pivot].weight;
        n_kept += pivot + 1;
        if (mass <= 0 || pivot + 1 == n)
            return n_kept;
        candidates += pivot + 1;
        n -= pivot + 1;
    }
    return n_kept + n;
}
