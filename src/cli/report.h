/* What `linnet inspect` shows, as one JSON object: file, architecture, spec, tokenizer, metadata,
 * tensors. */
#ifndef LN_CLI_REPORT_H
#define LN_CLI_REPORT_H

#include <jansson.h>
#include <stdbool.h>

#include "format/checkpoint.h"
#include "model/model.h"

/* `model` is NULL when the architecture is not supported, and `why` says so. Owned by the
 * caller; NULL when memory is out. */
json_t *ln_cli_report(const ln_checkpoint *checkpoint, const struct linnet_model *model,
                      const char *why, bool with_tensors);

#endif
