/* Which type each tensor of a GGUF file gets. A mix has a base type for most matrices and, as
 * llama.cpp chooses them, more bits for tensors that matter more: the output, values and
 * down-projections of some layers. Vectors, norms, routers, convolutions and
 * tables of positions stay F32. */
#ifndef LN_FORMAT_QUANTIZE_MIX_H
#define LN_FORMAT_QUANTIZE_MIX_H

#include <regex.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "format/dtype.h"

typedef struct ln_mix {
    const char *name; /* "Q4_K_M" */
    ln_dtype base;
    uint32_t file_type; /* general.file_type */
} ln_mix;

/* By name, upper or lower case; NULL when there is none. Q3_K, Q4_K and Q5_K mean their _M. */
const ln_mix *ln_mix_find(const char *name);
/* All names, separated by ", "; static storage. */
const char *ln_mix_names(void);

/* A rule --keep REGEX=TYPE: matrices whose name the regex matches somewhere get the type. */
typedef struct ln_keep_rule {
    regex_t regex;    /* POSIX, extended; owned */
    const char *text; /* "REGEX=TYPE", as given; borrowed */
    ln_dtype dtype;
} ln_keep_rule;

/* Reads "REGEX=TYPE", a text that outlives the rule. Errors: ARGUMENT. */
ln_status ln_keep_rule_init(ln_keep_rule *rule, const char *text, ln_error *err);
void ln_keep_rule_free(ln_keep_rule *rule);
bool ln_keep_rule_matches(const ln_keep_rule *rule, const char *name, int n_dims);

/* What a mix must know of the model. */
typedef struct ln_mix_model {
    char architecture[64];
    size_t n_layers, n_experts;
    size_t heads_per_kv; /* query heads per KV head */
    bool has_output;     /* apart from the embedding */
} ln_mix_model;

typedef struct ln_mix_choice {
    const ln_mix *mix;
    const ln_keep_rule *rules; /* [n_rules]; the first that matches counts */
    size_t n_rules;
    ln_mix_model model;
} ln_mix_choice;

/* The type of a tensor under its GGUF name, dims outermost first; `from`: the type that it has, in
 * which quantised mixes keep what they don't quantise. Rows that are no whole number of blocks get
 * the next wider type that fits. */
ln_dtype ln_mix_choose(const ln_mix_choice *choice, const char *name, int n_dims,
                       const uint64_t *dims, ln_dtype from);

/* Whether no type with blocks is for the tensor of this GGUF name. */
bool ln_mix_keeps(const char *name);

#endif
