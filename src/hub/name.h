/* Names of models: ORG/NAME[:QUANT][@REVISION], as the hub and other tools write them. */
#ifndef LN_HUB_NAME_H
#define LN_HUB_NAME_H

#include <stdbool.h>

#include "base/error.h"

enum { LN_HUB_NAME_BYTES = 128, LN_HUB_COMMIT_BYTES = 41 };

typedef struct ln_hub_name {
    char repo[LN_HUB_NAME_BYTES];     /* "ORG/NAME" */
    char quant[LN_HUB_NAME_BYTES];    /* "" when not given */
    char revision[LN_HUB_NAME_BYTES]; /* a branch, tag or commit; "main" when not given */
} ln_hub_name;

/* Whether the text has the form of a name, so that it may be one where no such file exists. What
 * ends in .gguf is meant as a file. */
bool ln_hub_is_name(const char *text);
/* LINNET_ERR_ARGUMENT when it has not. */
ln_status ln_hub_name_parse(const char *text, ln_hub_name *name, ln_error *err);

/* Whether it is a commit: 40 lower-case hexadecimal digits. */
bool ln_hub_is_commit(const char *text);
/* Whether it names a file below a folder: no "..", no absolute path, no control characters. */
bool ln_hub_is_safe_path(const char *path);

#endif
