/* What all share that put metadata into the file that is written. */
#ifndef LN_CONVERT_METADATA_H
#define LN_CONVERT_METADATA_H

#include <stdio.h>

#include "convert/plan.h"

typedef struct ln_convert_key {
    char text[128];
} ln_convert_key;

/* "ARCHITECTURE.name" */
static inline ln_convert_key ln_convert_key_of(const ln_convert_plan *plan, const char *name) {
    ln_convert_key key;
    snprintf(key.text, sizeof key.text, "%s.%s", plan->architecture, name);
    return key;
}

static inline void ln_convert_put_number(const ln_convert_plan *plan, ln_gguf_writer *writer,
                                         const char *name, size_t value) {
    ln_gguf_put_u32(writer, ln_convert_key_of(plan, name).text, (uint32_t)value);
}

#endif
