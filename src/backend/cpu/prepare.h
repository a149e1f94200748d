/* Weights for the CPU: packed for the fast kernels where they have a layout for the type; else used
 * where they are mapped when one untransformed tensor suffices, else copied together. */
#ifndef LN_BACKEND_CPU_PREPARE_H
#define LN_BACKEND_CPU_PREPARE_H

#include "backend/cpu/pack_write.h"
#include "backend/weight_source.h"
#include "base/pool.h"

/* The threads that prepare, and memory of each to read into. */
typedef struct ln_cpu_preparer {
    ln_pool *pool;          /* NULL for LN_PACK_NONE: the calling thread alone */
    ln_panel_packer packer; /* not for LN_PACK_NONE */
    uint8_t *buffers;       /* [pool size][buffer_bytes], for ln_bulk_add */
    size_t buffer_bytes;
    uint8_t *room; /* [pool size][room_bytes], for rows of a panel that are put together */
    size_t room_bytes;
} ln_cpu_preparer;

/* Rows that follow one another in one file, and become panels. */
typedef struct ln_panel_source {
    const ln_file_map *map; /* the checkpoint's */
    uint64_t offset;        /* of the first row in it */
    ln_dtype dtype;
    size_t n_rows, n_cols, row_bytes;
    size_t panel_bytes; /* of a packed panel */
    ln_panel_packer packer;
} ln_panel_source;

/* Whether its rows do so. */
bool ln_cpu_can_read(const ln_weight_request *request);
ln_status ln_cpu_panel_source(const ln_weight_request *request, ln_pack pack,
                              ln_panel_packer packer, ln_panel_source *source, ln_error *err);
/* Bytes of all packed panels. */
size_t ln_panel_source_bytes(const ln_panel_source *source);
/* Reads and packs panels from `panel` on; `rows`: room for their rows as the file has them. False:
 * the file cannot be read, or has become shorter. */
bool ln_panel_source_read(const ln_panel_source *source, size_t panel, size_t n_panels,
                          uint8_t *rows, uint8_t *out);

/* `pack`: the layout to give it; LN_PACK_NONE: rows as in the checkpoint. */
ln_status ln_cpu_plan_weight(const ln_weight_request *request, ln_pack pack, size_t *bytes,
                             ln_error *err);
/* Fills *weight as it will be, and prepares nothing. */
ln_status ln_cpu_describe_weight(const ln_weight_request *request, ln_pack pack, void *memory,
                                 ln_weight *weight, ln_error *err);
ln_status ln_cpu_prepare_weight(const ln_weight_request *request, ln_pack pack,
                                const ln_cpu_preparer *preparer, void *memory, ln_weight *weight,
                                ln_error *err);

#endif
