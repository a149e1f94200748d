#include "backend/cpu/scalar/scan_decay.h"

#include <math.h>

float ln_scan_step_size(const ln_op_scan *p, size_t row, size_t n_decays, size_t i) {
    float a = p->a[row * n_decays + i] + (p->a_bias != NULL ? p->a_bias[i] : 0.0f);
    float dt = a > 20.0f ? a : log1pf(expf(a));
    return dt < p->dt_min ? p->dt_min : dt > p->dt_max ? p->dt_max : dt;
}

float ln_scan_log_decay(const ln_op_scan *p, size_t row, size_t n_decays, size_t head, size_t i) {
    float rate = p->rate[head];
    if (p->decay == LN_DECAY_FIXED)
        return -rate;
    if (p->decay != LN_DECAY_BOUNDED)
        return -(rate * ln_scan_step_size(p, row, n_decays, i));
    float a = p->a[row * n_decays + i] + (p->a_bias != NULL ? p->a_bias[i] : 0.0f);
    return -p->bound / (1.0f + expf(-(rate * a)));
}
