#include "format/quantize/fit.h"

#include <pthread.h>

#include "base/cpuid.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static const ln_fits *chosen = &ln_fits_baseline;

static void choose_once(void) {
#if defined(__x86_64__)
    ln_cpu_features processor = ln_cpu_detect();
    if (processor.avx2)
        chosen = processor.avx512 ? &ln_fits_avx512 : &ln_fits_avx2;
#endif
}

static const ln_fits *choose(void) {
    pthread_once(&once, choose_once);
    return chosen;
}

void ln_fit_groups(const ln_codes *codes, const float *x, int n, ln_group_fit *fit) {
    choose()->groups(codes, x, n, fit);
}

void ln_fit_scaled(const ln_scaled_shape *shape, const float *x, ln_scaled_block *blocks) {
    choose()->scaled(shape, x, blocks);
}

void ln_fit_affine(const ln_affine_shape *shape, const float *x, ln_affine_block *blocks) {
    choose()->affine(shape, x, blocks);
}
