/* CMakeLists.txt gives this file its flags. */
#define LN_FITS ln_fits_avx512
#include "format/quantize/fit_lanes.h"
