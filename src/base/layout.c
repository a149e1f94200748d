#include "base/layout.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include "base/checked.h"

size_t ln_layout_add(ln_layout *layout, size_t count, size_t item_bytes) {
    size_t offset = layout->bytes;
    size_t bytes, end;
    if (!ln_mul(count, item_bytes, &bytes) || !ln_add(offset, bytes, &end) ||
        end > SIZE_MAX / 2 - LN_LAYOUT_ALIGN) {
        layout->overflow = true;
        return 0;
    }
    layout->bytes = (end + LN_LAYOUT_ALIGN - 1) & ~(size_t)(LN_LAYOUT_ALIGN - 1);
    return offset;
}

void *ln_layout_place(ln_layout *layout, char *memory, size_t count, size_t item_bytes) {
    size_t offset = ln_layout_add(layout, count, item_bytes);
    return memory != NULL ? memory + offset : NULL;
}

ln_status ln_layout_check(const ln_layout *layout, const char *what, ln_error *err) {
    if (layout->overflow)
        return ln_fail(err, LINNET_ERR_LIMIT, "the size of the %s overflows", what);
    return LINNET_OK;
}

ln_status ln_reserve(size_t bytes, const char *what, void **memory, ln_error *err) {
    *memory = NULL;
    if (bytes == 0)
        return LINNET_OK;
    void *pages = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED)
        return ln_fail(err, LINNET_ERR_NOMEM, "cannot reserve %zu bytes for the %s: %s", bytes,
                       what, strerror(errno));
    *memory = pages;
    return LINNET_OK;
}

void ln_unreserve(void *memory, size_t bytes) {
    if (memory != NULL)
        munmap(memory, bytes);
}
