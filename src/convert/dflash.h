/* What GGUF has of a drafter of blocks (DFlash) beside its layers. */
#ifndef LN_CONVERT_DFLASH_H
#define LN_CONVERT_DFLASH_H

#include "convert/plan.h"
#include "format/gguf_write.h"

/* What of it GGUF has no form for, or NULL; another model has nothing of the kind. */
const char *ln_convert_unknown_dflash(const ln_convert_plan *plan);
void ln_convert_put_dflash(const ln_convert_plan *plan, ln_gguf_writer *writer);
ln_status ln_convert_dflash(ln_convert_plan *plan);

#endif
