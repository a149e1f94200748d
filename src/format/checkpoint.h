/* A checkpoint on disk, one view over a GGUF file (or its split parts) and a Hugging Face folder
 * (config.json and safetensors). Opening reads headers and metadata only; tensor data stays
 * mapped and unread. Everything in a checkpoint is hostile until checked here: after a successful
 * open every tensor's span lies inside its file, fits its shape and type, and overlaps no other. */
#ifndef LN_FORMAT_CHECKPOINT_H
#define LN_FORMAT_CHECKPOINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "format/meta.h"
#include "format/tensor.h"

typedef enum ln_checkpoint_format { LN_FORMAT_GGUF, LN_FORMAT_HF } ln_checkpoint_format;

typedef struct ln_checkpoint ln_checkpoint;

/* `path`: a .gguf file (any part of a split one), or a folder. A folder needs config.json and
 * safetensors, unless `tokenizer_only` is set: then whatever holds a tokenizer is enough (a
 * folder with tokenizer.json, tokenizer.model or source.spm, a .gguf with only a vocabulary).
 * Errors name the file and the key, tensor or offset. */
ln_status ln_checkpoint_open(const char *path, bool tokenizer_only, ln_checkpoint **checkpoint,
                             ln_error *err);
void ln_checkpoint_close(ln_checkpoint *checkpoint);

const char *ln_checkpoint_path(const ln_checkpoint *checkpoint);
ln_checkpoint_format ln_checkpoint_get_format(const ln_checkpoint *checkpoint);

size_t ln_checkpoint_tensor_count(const ln_checkpoint *checkpoint);
const ln_tensor *ln_checkpoint_tensor(const ln_checkpoint *checkpoint, size_t index);
const ln_tensor *ln_checkpoint_find(const ln_checkpoint *checkpoint,
                                    const char *name); /* or NULL */

size_t ln_checkpoint_file_count(const ln_checkpoint *checkpoint);
/* Path and open descriptor (for pread) of a data file, and its size in bytes. */
const char *ln_checkpoint_file(const ln_checkpoint *checkpoint, size_t index, int *fd,
                               size_t *bytes);

/* Where a data file is mapped; NULL: it is empty. */
void *ln_checkpoint_map(const ln_checkpoint *checkpoint, size_t index, size_t *bytes);

/* LINNET_ERR_IO naming the data file that shrank while it was mapped, if one did. */
ln_status ln_checkpoint_check(const ln_checkpoint *checkpoint, ln_error *err);

/* Gives back the memory of all mapped pages; those still in use are read anew. */
void ln_checkpoint_drop_pages(const ln_checkpoint *checkpoint);

/* Bytes of heap and arena that the open checkpoint holds (headers, index), for the plan. */
size_t ln_checkpoint_header_bytes(const ln_checkpoint *checkpoint);

/* Metadata by key: a GGUF key ("llama.block_count"), or a dotted path into config.json
 * ("rope_parameters.rope_theta"). False when it is absent; JSON null counts as absent. */
bool ln_checkpoint_meta(const ln_checkpoint *checkpoint, const char *key, ln_meta_value *value);

/* Whether config.json holds the key as null, for those to whom that is not the same. */
bool ln_checkpoint_meta_is_null(const ln_checkpoint *checkpoint, const char *key);

/* The same for generation_config.json and tokenizer_config.json of a folder; false in GGUF. */
bool ln_checkpoint_generation_meta(const ln_checkpoint *checkpoint, const char *key,
                                   ln_meta_value *value);
bool ln_checkpoint_tokenizer_meta(const ln_checkpoint *checkpoint, const char *key,
                                  ln_meta_value *value);

/* Walks GGUF metadata in file order, or the top level of config.json; false past the end. */
bool ln_checkpoint_meta_at(const ln_checkpoint *checkpoint, size_t index, const char **key,
                           ln_meta_value *value);

/* Path of tokenizer.json, tokenizer.model or source.spm beside a folder's config, or NULL. */
const char *ln_checkpoint_tokenizer_json(const ln_checkpoint *checkpoint);
const char *ln_checkpoint_tokenizer_model(const ln_checkpoint *checkpoint);
const char *ln_checkpoint_source_spm(const ln_checkpoint *checkpoint);
/* The chat template (GGUF key, chat_template.jinja, or tokenizer_config.json), or NULL;
 * NUL-terminated, owned by the checkpoint. */
const char *ln_checkpoint_chat_template(const ln_checkpoint *checkpoint);

#endif
