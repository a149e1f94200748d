/* Bodies of llama.cpp's own API as those of completions. */
#ifndef LN_SERVER_NATIVE_NATIVE_INPUT_H
#define LN_SERVER_NATIVE_NATIVE_INPUT_H

#include "server/json/fields.h"

/* The body of /completion, or of /infill, as a new object, with that API's defaults; NULL with the
 * error of `fields` set. Fields that both APIs have stay as they are. */
json_t *ln_native_input_translate(const ln_fields *fields, bool fills_in);

#endif
