/* Encoding of rendered templates: control tokens count only where the template wrote them. */
#ifndef LN_TEXT_ENCODE_SPANS_H
#define LN_TEXT_ENCODE_SPANS_H

#include "text/template.h"
#include "text/tokenizer.h"

/* Appends the ids of text[n_bytes], whose runs are spans[n_spans] in order and without gaps. As
 * ln_tokenizer_encode with LN_ENCODE_PARSE_SPECIAL, but for special tokens whose text lies, wholly
 * or in part, outside the trusted spans: that stays text. Nothing else ends at a span: ordinary
 * text on both sides is encoded as one. No special tokens are added. */
ln_status ln_tokenizer_encode_spans(const ln_tokenizer *tokenizer, const char *text, size_t n_bytes,
                                    const ln_template_span *spans, size_t n_spans, ln_ids *ids,
                                    ln_error *err);

#endif
