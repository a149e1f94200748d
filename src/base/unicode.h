/* Properties of code points, as the Rust libraries behind Hugging Face tokenizers see them. */
#ifndef LN_BASE_UNICODE_H
#define LN_BASE_UNICODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

bool ln_is_space(uint32_t code_point);       /* White_Space */
bool ln_is_numeric(uint32_t code_point);     /* category N */
bool ln_is_punctuation(uint32_t code_point); /* category P, and the symbols of ASCII */
bool ln_is_mark(uint32_t code_point);        /* category M */
bool ln_is_nonspacing_mark(uint32_t code_point);
bool ln_is_word(uint32_t code_point);         /* \w */
bool ln_is_bert_removed(uint32_t code_point); /* control and the like, U+FFFD */
bool ln_is_cjk(uint32_t code_point);          /* BERT's "Chinese characters" */

/* Lower case of one code point: 1 or 2 code points. */
size_t ln_to_lower(uint32_t code_point, uint32_t lower[2]);

/* Decompositions that the library does not know yet. */
bool ln_is_not_decomposed(uint32_t code_point);

#endif
