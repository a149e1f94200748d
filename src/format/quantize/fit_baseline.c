/* The vectors that every processor of the architecture has. */
#define LN_FITS ln_fits_baseline
#include "format/quantize/fit_lanes.h"
