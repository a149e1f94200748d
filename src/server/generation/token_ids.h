/* Token ids in a body. */
#ifndef LN_SERVER_GENERATION_TOKEN_IDS_H
#define LN_SERVER_GENERATION_TOKEN_IDS_H

#include <linnet.h>

#include "server/json/fields.h"

/* The ids of a JSON array of numbers, malloc'd; errors name `param`. */
bool ln_api_read_ids(const json_t *array, const linnet_model_info *info, const char *param,
                     int32_t **ids, size_t *n_ids, ln_api_error *error);

/* A list of prompts may hold strings or lists of ids, not some of both. What is neither passes: who
 * reads the items refuses it. */
bool ln_api_check_mixed(const json_t *prompts, const char *param, ln_api_error *error);

#endif
