/* Reads numbers from a checkpoint's metadata under the names that config.json and GGUF give them,
 * and checks them. */
#ifndef LN_MODEL_CONFIG_H
#define LN_MODEL_CONFIG_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "format/checkpoint.h"

typedef struct ln_config {
    const ln_checkpoint *checkpoint;
    bool is_gguf;
    const char *nest; /* what goes before keys of config.json where another model wraps this one */
    char arch[64];    /* model_type; GGUF: the prefix of keys */
    /* What the reference implementation takes where config.json lacks a key, or NULL: rows as
     * "key=value|type:key=value|key=value unless other", the second for that model_type alone, the
     * third where config.json has no such key, either. The family's rows, and for keys that these
     * do not name those of the reference's config class; GGUF has the family's alone, by its
     * names. */
    const char *defaults, *class_defaults;
    bool by_layer; /* layers may differ: lists and per_layer_config count for `layer` */
    size_t layer;
    size_t n_layers; /* whose values a list holds; 0: not known yet, there are no lists */
} ln_config;

/* A quantity's names: HF keys (dotted, alternatives separated by '|') and the GGUF key after the
 * architecture's prefix (alternatives likewise). Empty: the format has no such key. */
typedef struct ln_key {
    const char *hf, *gguf;
} ln_key;

/* Finds a key's value, in config.json or else the family's default, which a null suppresses;
 * false when absent. `name` (or NULL) receives the key for messages. */
bool ln_config_find(const ln_config *config, ln_key key, ln_meta_value *value, char name[128]);

/* Each leaves *out alone when the key is absent (the caller sets the default). A wrong type or a
 * value outside [min, max] is LINNET_ERR_FORMAT naming the key. */
ln_status ln_config_size(const ln_config *config, ln_key key, size_t min, size_t max, size_t *out,
                         ln_error *err);
ln_status ln_config_real(const ln_config *config, ln_key key, double min, double max, double *out,
                         ln_error *err);
ln_status ln_config_flag(const ln_config *config, ln_key key, bool *out, ln_error *err);

/* A size that must be there. */
ln_status ln_config_need_size(const ln_config *config, ln_key key, size_t min, size_t max,
                              size_t *out, ln_error *err);

/* Finds a key that must hold a list; *is_there false when it is absent. */
ln_status ln_config_list(const ln_config *config, ln_key key, ln_meta_value *list, bool *is_there,
                         ln_error *err);

/* Whether a list of whole numbers has this one; *is_there as above. */
ln_status ln_config_lists(const ln_config *config, ln_key key, size_t number, bool *is_there,
                          bool *has, ln_error *err);

/* Entry number `index` of a list; or, of a default, of words separated by commas, which go on from
 * their beginning where they end. */
bool ln_config_entry(const ln_meta_value *list, size_t index, ln_meta_value *entry);

/* True when `word` [n_bytes] is one of the '|'-separated words of `list`. */
bool ln_list_has(const char *list, const char *word, size_t n_bytes);

/* True when the key holds just this string. */
bool ln_config_is(const ln_config *config, ln_key key, const char *text);

#endif
