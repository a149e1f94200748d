#include <string.h>

#include "model/family.h"

const char *ln_family_class_defaults(const char *type) {
    static const struct {
        const char *type, *defaults;
    } known[] = {
#include "model/families/class_defaults.inc"
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(known[i].type, type) == 0)
            return known[i].defaults;
    return NULL;
}
