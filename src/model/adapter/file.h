/* An adapter on disk, one view over the folder that PEFT writes and the GGUF file that llama.cpp's
 * converter writes: matrices A and B, or vectors, by the module that they change. What cannot be
 * honoured is refused by name. Files are hostile: spans, shapes and types are checked. */
#ifndef LN_MODEL_ADAPTER_FILE_H
#define LN_MODEL_ADAPTER_FILE_H

#include "base/file.h"
#include "format/checkpoint.h"
#include "format/gguf.h"
#include "format/json.h"

enum { LN_MAX_ADAPTER_RANK = 256 };

/* What changes one module. Of a LoRA: A [rank][n_in], B [n_out][rank]; an embedding's A is
 * [rank][n_vocab] (`a_by_rank`) or [n_vocab][rank]. Of an IA3: a vector. */
typedef struct ln_adapter_part {
    const char *module; /* "model.layers.0.self_attn.q_proj", in GGUF "blk.0.attn_q" */
    const ln_tensor *a, *b, *vector;
    const ln_tensor *magnitude; /* of a DoRA: the length of each row of W + B A; NULL: of none */
    bool is_embedding, a_by_rank;
    bool is_input; /* the vector multiplies what the module reads */
    size_t rank;
    size_t n_experts; /* of a stack: A [n_experts * rank][n_in], B [n_out][rank * n_experts]; 0:
                         none */
    double scale;     /* the adapter's own */
    bool is_taken;    /* by some weight of the model */
} ln_adapter_part;

typedef struct ln_adapter_file {
    const char *path; /* the caller's */
    ln_checkpoint_format format;
    ln_file_map map;
    ln_arena arena;
    ln_tensor_list tensors;
    json_t *config;         /* of a folder */
    ln_gguf gguf;           /* of a file */
    ln_adapter_part *parts; /* [n_parts] */
    size_t n_parts;
    ln_hashmap by_module;
    size_t rank; /* the greatest; 0: an IA3 */
} ln_adapter_file;

/* Opens and checks it; on failure *file needs no closing. Errors: IO, FORMAT, UNSUPPORTED, LIMIT,
 * NOMEM. */
ln_status ln_adapter_file_open(const char *path, ln_adapter_file *file, ln_error *err);
void ln_adapter_file_close(ln_adapter_file *file);

/* The part of a module, or NULL. */
ln_adapter_part *ln_adapter_file_find(const ln_adapter_file *file, const char *module);

/* ---- what reading either form needs */

/* The part of a module of n_bytes, made where there is none; NULL: memory is out. */
ln_adapter_part *ln_adapter_file_part(ln_adapter_file *file, const char *module, size_t n_bytes);

/* peft.c, gguf.c: read what the tensors are for. */
ln_status ln_adapter_read_peft(ln_adapter_file *file, ln_error *err);
ln_status ln_adapter_read_gguf(ln_adapter_file *file, ln_error *err);

#endif
