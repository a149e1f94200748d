/* From a body to requests of the engine: read, admit, submit. */
#ifndef LN_SERVER_GENERATION_GENERATE_H
#define LN_SERVER_GENERATION_GENERATE_H

#include "server/api_task.h"

/* Reads a whole body and encodes its prompts; false with the error of `fields` set. Its root lives
 * as long as the request's strings are needed. */
typedef bool ln_generation_reader(const ln_fields *fields, const linnet_model *model,
                                  size_t ctx_tokens, ln_generation_request *request);

/* On a worker: reads the task's request and submits its runs. */
bool ln_generate(ln_api_task *task, const ln_fields *fields, ln_generation_reader *read);

#endif
