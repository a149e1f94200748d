/* The step sizes and decays of scans, as a row's inputs and the layer's parameters give them. */
#ifndef LN_BACKEND_CPU_SCALAR_SCAN_DECAY_H
#define LN_BACKEND_CPU_SCALAR_SCAN_DECAY_H

#include "backend/op.h"

/* dt of decay number i of a row. */
float ln_scan_step_size(const ln_op_scan *p, size_t row, size_t n_decays, size_t i);

/* g of the same, which is the head's; not of a selective scan. */
float ln_scan_log_decay(const ln_op_scan *p, size_t row, size_t n_decays, size_t head, size_t i);

#endif
