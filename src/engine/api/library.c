/* What belongs to no model and no engine. */
#include <linnet.h>
#include <stdlib.h>

#include "base/fault.h"

const char *linnet_version(void) {
    return LINNET_VERSION;
}

void linnet_free(void *memory) {
    free(memory);
}

const char *linnet_status_text(linnet_status status) {
    return ln_status_text(status);
}

linnet_status linnet_install_fault_handler(linnet_error *err) {
    return ln_fault_install(err);
}
