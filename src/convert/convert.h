/* A standard GGUF file, as llama.cpp loads it, from a Hugging Face folder: keys from the spec,
 * tensors by the names that families give in both formats, the tokenizer. */
#ifndef LN_CONVERT_CONVERT_H
#define LN_CONVERT_CONVERT_H

#include "format/checkpoint.h"
#include "format/quantize/gguf.h"

/* Writes `path`. options->mix NULL: the type that the folder's embedding has. What GGUF has no
 * form for is refused by name. Errors: ARGUMENT (not a folder), UNSUPPORTED (an architecture or a
 * variant without GGUF form, an unknown tokenizer), FORMAT (a tensor is missing), and those of
 * ln_write_gguf. */
ln_status ln_convert(const ln_checkpoint *checkpoint, const char *path, bool with_tokenizer,
                     const ln_quantize_options *options, ln_error *err);

#endif
