#include "text/tokenizer/normalize.h"

#include <string.h>
#include <utf8proc.h>

#include "base/unicode.h"
#include "base/utf8.h"

static const char space_symbol[] = "\xe2\x96\x81"; /* U+2581 */

void ln_normalizer_free(ln_normalizer *normalizer) {
    for (size_t i = 0; i < normalizer->count; i++)
        if (normalizer->steps[i].kind == LN_NORMALIZE_REPLACE)
            ln_regex_free(normalizer->steps[i].replace.regex);
    normalizer->count = 0;
}

/* ---- steps that look at one code point at a time ------------------------------------------- */

static void lowercase(ln_strbuf *out, const char *text, size_t n_bytes) {
    for (size_t at = 0, length; at < n_bytes; at += length) {
        uint32_t lower[2];
        size_t n = ln_to_lower(ln_utf8_decode(text + at, &length), lower);
        for (size_t i = 0; i < n; i++)
            ln_strbuf_put_utf8(out, lower[i]);
    }
}

/* Keeps what `removed` does not name; *at_start falls when the first character goes. */
static void filter(ln_strbuf *out, const char *text, size_t n_bytes, bool (*removed)(uint32_t),
                   bool *at_start) {
    for (size_t at = 0, length; at < n_bytes; at += length) {
        if (!removed(ln_utf8_decode(text + at, &length)))
            ln_strbuf_append(out, text + at, length);
        else if (at == 0)
            *at_start = false;
    }
}

static void strip(ln_strbuf *out, const char *text, size_t n_bytes, bool left, bool right,
                  bool *at_start) {
    size_t begin = 0, end = n_bytes, length;
    while (left && begin < end && ln_is_space(ln_utf8_decode(text + begin, &length)))
        begin += length;
    while (right && end > begin) {
        size_t last = end - 1;
        while (last > begin && ((unsigned char)text[last] & 0xc0) == 0x80)
            last--;
        if (!ln_is_space(ln_utf8_decode(text + last, &length)))
            break;
        end = last;
    }
    if (begin > 0)
        *at_start = false;
    ln_strbuf_append(out, text + begin, end - begin);
}

static bool nmt_removed(uint32_t c) {
    return (c >= 1 && c <= 8) || c == 0xb || (c >= 0xe && c <= 0x1f) || c == 0x7f || c == 0x8f ||
           c == 0x9f;
}

static bool nmt_space(uint32_t c) {
    return c == 9 || c == 0xa || c == 0xc || c == 0xd || c == 0x1680 ||
           (c >= 0x200b && c <= 0x200f) || c == 0x2028 || c == 0x2029 || c == 0x2581 ||
           c == 0xfeff || c == 0xfffd;
}

static void nmt(ln_strbuf *out, const char *text, size_t n_bytes, bool *at_start) {
    for (size_t at = 0, length; at < n_bytes; at += length) {
        uint32_t c = ln_utf8_decode(text + at, &length);
        if (nmt_space(c))
            ln_strbuf_putc(out, ' ');
        else if (!nmt_removed(c))
            ln_strbuf_append(out, text + at, length);
        else if (at == 0)
            *at_start = false;
    }
}

static ln_status bert(const ln_normalize_step *step, ln_strbuf *out, const char *text,
                      size_t n_bytes, bool *at_start, ln_error *err) {
    bool strip_accents = step->bert.strip_accents;
    ln_strbuf buffers[2];
    ln_strbuf_init(&buffers[0]);
    ln_strbuf_init(&buffers[1]);
    ln_strbuf *clean = strip_accents ? &buffers[0] : out;
    size_t kept = 0;
    for (size_t at = 0, length; at < n_bytes; at += length) {
        uint32_t c = ln_utf8_decode(text + at, &length), lower[2];
        if (step->bert.clean_text) {
            if (ln_is_bert_removed(c)) {
                *at_start = *at_start && kept > 0;
                continue;
            }
            c = ln_is_space(c) ? ' ' : c;
        }
        kept++;
        bool apart = step->bert.handle_cjk && ln_is_cjk(c);
        if (apart)
            ln_strbuf_putc(clean, ' ');
        size_t n = 1;
        lower[0] = c;
        if (step->bert.lowercase && !strip_accents)
            n = ln_to_lower(c, lower);
        for (size_t i = 0; i < n; i++)
            ln_strbuf_put_utf8(clean, lower[i]);
        if (apart)
            ln_strbuf_putc(clean, ' ');
    }
    ln_status status = LINNET_OK;
    if (strip_accents) {
        status = ln_normalize_unicode(&buffers[1], clean->data ? clean->data : "", clean->len,
                                      false, false, err);
        ln_strbuf *bare = step->bert.lowercase ? &buffers[0] : out;
        ln_strbuf_clear(&buffers[0]);
        const char *decomposed = buffers[1].data ? buffers[1].data : "";
        filter(bare, decomposed, buffers[1].len, ln_is_nonspacing_mark, at_start);
        if (step->bert.lowercase)
            lowercase(out, bare->data ? bare->data : "", bare->len);
    }
    if (buffers[0].failed || buffers[1].failed)
        out->failed = true;
    ln_strbuf_free(&buffers[0]);
    ln_strbuf_free(&buffers[1]);
    return status;
}

/* ---- replacing ----------------------------------------------------------------------------- */

static ln_status replace(const ln_normalize_step *step, ln_regex_work *work, ln_strbuf *out,
                         const char *text, size_t n_bytes, bool *at_start, ln_error *err) {
    size_t copied = 0;
    ln_regex_walk walk = {0};
    for (;;) {
        size_t begin = 0, end = 0;
        bool found = false;
        if (step->replace.literal != NULL) {
            size_t n = step->replace.literal_bytes;
            const char *hit =
                ln_find_text(text + copied, n_bytes - copied, step->replace.literal, n);
            found = hit != NULL;
            begin = found ? (size_t)(hit - text) : 0;
            end = begin + n;
        } else if (n_bytes > 0) {
            LN_TRY(ln_regex_next(step->replace.regex, work, &walk, text, n_bytes, &begin, &end,
                                 &found, err));
        }
        if (!found)
            break;
        ln_strbuf_append(out, text + copied, begin - copied);
        ln_strbuf_append(out, step->replace.content, step->replace.content_bytes);
        bool one = begin < n_bytes && end - begin == ln_utf8_length((unsigned char)text[begin]);
        if (begin == 0 && end > 0 && !(one && step->replace.content_bytes > 0))
            *at_start = false; /* the content counts as the last character that it replaces */
        copied = end;
    }
    ln_strbuf_append(out, text + copied, n_bytes - copied);
    return LINNET_OK;
}

/* ---- precompiled charsmaps ----------------------------------------------------------------- */

/* Hugging Face: grapheme by grapheme; a short one is replaced as a whole by what its shortest
 * mapped prefix maps to, else each of its characters is looked up. */
static void precompiled(const ln_charsmap *map, ln_strbuf *out, const char *text, size_t n_bytes) {
    for (size_t at = 0; at < n_bytes;) {
        size_t length, matched;
        int32_t state = 0, c = (int32_t)ln_utf8_decode(text + at, &length);
        size_t end = at + length;
        while (end < n_bytes) {
            int32_t next = (int32_t)ln_utf8_decode(text + end, &length);
            if (utf8proc_grapheme_break_stateful(c, next, &state))
                break;
            end += length;
            c = next;
        }
        const char *whole =
            end - at < 6 ? ln_charsmap_find(map, text + at, end - at, false, &matched) : NULL;
        if (whole != NULL) {
            ln_strbuf_puts(out, whole);
            at = end;
        }
        for (; at < end; at += length) {
            length = ln_utf8_length((unsigned char)text[at]);
            const char *one = ln_charsmap_find(map, text + at, length, false, &matched);
            if (one != NULL)
                ln_strbuf_puts(out, one);
            else
                ln_strbuf_append(out, text + at, length);
        }
    }
}

/* What SentencePiece makes of the text's beginning: *taken bytes of it become *out. */
static void spm_prefix(const ln_normalize_step *step, const char *text, size_t n_bytes,
                       const char **out, size_t *out_bytes, size_t *taken) {
    uint32_t node = 0;
    *taken = 0;
    for (size_t at = 0; step->spm.user_defined.n_nodes > 0 && at < n_bytes; at++) {
        node = ln_trie_child(&step->spm.user_defined, node, (unsigned char)text[at]);
        if (node == 0)
            break;
        if (step->spm.user_defined.value[node] >= 0)
            *taken = at + 1;
    }
    *out = text;
    *out_bytes = *taken;
    if (*taken > 0)
        return;
    const char *mapped = ln_charsmap_find(&step->spm.charsmap, text, n_bytes, true, taken);
    if (mapped != NULL) {
        *out = mapped;
        *out_bytes = strlen(mapped);
        return;
    }
    *out_bytes = *taken = ln_utf8_valid(text, n_bytes);
    if (*taken == 0) {
        *out = "\xef\xbf\xbd";
        *out_bytes = 3;
        *taken = 1;
    }
}

static void put_spaced(const ln_normalize_step *step, ln_strbuf *out, const char *text,
                       size_t n_bytes) {
    for (size_t at = 0; at < n_bytes;) {
        const char *space =
            step->spm.escape_whitespaces ? memchr(text + at, ' ', n_bytes - at) : NULL;
        size_t end = space ? (size_t)(space - text) : n_bytes;
        ln_strbuf_append(out, text + at, end - at);
        if (space != NULL)
            ln_strbuf_puts(out, space_symbol);
        at = end + (space != NULL);
    }
}

static void sentencepiece(const ln_normalize_step *step, ln_strbuf *out, const char *text,
                          size_t n_bytes) {
    bool squeeze = step->spm.remove_extra_whitespaces;
    const char *part, *space = step->spm.escape_whitespaces ? space_symbol : " ";
    size_t part_bytes, taken, at = 0, begin = out->len, space_bytes = strlen(space);
    for (; squeeze && at < n_bytes; at += taken) {
        spm_prefix(step, text + at, n_bytes - at, &part, &part_bytes, &taken);
        if (part_bytes != 1 || part[0] != ' ')
            break;
    }
    if (at == n_bytes)
        return;
    if (step->spm.add_dummy_prefix && !step->spm.whitespace_as_suffix)
        ln_strbuf_puts(out, space);
    bool after_space = squeeze;
    for (; at < n_bytes; at += taken) {
        spm_prefix(step, text + at, n_bytes - at, &part, &part_bytes, &taken);
        while (after_space && part_bytes > 0 && part[0] == ' ') {
            part++;
            part_bytes--;
        }
        put_spaced(step, out, part, part_bytes);
        if (part_bytes > 0)
            after_space = squeeze && part[part_bytes - 1] == ' ';
    }
    while (squeeze && out->len - begin >= space_bytes &&
           memcmp(out->data + out->len - space_bytes, space, space_bytes) == 0)
        out->len -= space_bytes;
    if (step->spm.add_dummy_prefix && step->spm.whitespace_as_suffix)
        ln_strbuf_puts(out, space);
}

/* llama.cpp for GGUF's t5: a space before each word when extra white space is removed, else only
 * before the first one. */
static void merge_spaces(const ln_normalize_step *step, ln_strbuf *out, const char *text,
                         size_t n_bytes) {
    const char *part, *space = step->spm.escape_whitespaces ? space_symbol : " ";
    size_t part_bytes, taken;
    bool squeeze = step->spm.remove_extra_whitespaces, in_word = false, prepended = false;
    bool prepend = step->spm.add_dummy_prefix && !step->spm.whitespace_as_suffix;
    for (size_t at = 0; at < n_bytes; at += taken) {
        spm_prefix(step, text + at, n_bytes - at, &part, &part_bytes, &taken);
        for (size_t i = 0; i < part_bytes; i++) {
            if (part[i] == ' ') {
                in_word = false;
                if (!squeeze)
                    ln_strbuf_puts(out, space);
                continue;
            }
            if (!in_word && ((prepend && !prepended) || squeeze)) {
                ln_strbuf_puts(out, space);
                prepended = true;
            }
            in_word = true;
            ln_strbuf_putc(out, part[i]);
        }
    }
    if (step->spm.add_dummy_prefix && step->spm.whitespace_as_suffix)
        ln_strbuf_puts(out, space);
}

/* ---- all steps ----------------------------------------------------------------------------- */

static ln_status run_step(const ln_normalize_step *step, ln_regex_work *work, ln_strbuf *out,
                          const char *text, size_t n, bool *at_start, ln_error *err) {
    switch (step->kind) {
    case LN_NORMALIZE_NFC: return ln_normalize_unicode(out, text, n, false, true, err);
    case LN_NORMALIZE_NFD: return ln_normalize_unicode(out, text, n, false, false, err);
    case LN_NORMALIZE_NFKC: return ln_normalize_unicode(out, text, n, true, true, err);
    case LN_NORMALIZE_NFKD: return ln_normalize_unicode(out, text, n, true, false, err);
    case LN_NORMALIZE_LOWERCASE: lowercase(out, text, n); break;
    case LN_NORMALIZE_STRIP_ACCENTS: filter(out, text, n, ln_is_mark, at_start); break;
    case LN_NORMALIZE_STRIP:
        strip(out, text, n, step->strip.left, step->strip.right, at_start);
        break;
    case LN_NORMALIZE_PREPEND:
        if (n > 0)
            ln_strbuf_append(out, step->prepend.text, step->prepend.bytes);
        ln_strbuf_append(out, text, n);
        break;
    case LN_NORMALIZE_REPLACE: return replace(step, work, out, text, n, at_start, err);
    case LN_NORMALIZE_BERT: return bert(step, out, text, n, at_start, err);
    case LN_NORMALIZE_NMT: nmt(out, text, n, at_start); break;
    case LN_NORMALIZE_BYTE_LEVEL: ln_byte_level_encode(out, text, n); break;
    case LN_NORMALIZE_PRECOMPILED: precompiled(&step->charsmap, out, text, n); break;
    case LN_NORMALIZE_SENTENCEPIECE:
        if (step->spm.merge_spaces)
            merge_spaces(step, out, text, n);
        else
            sentencepiece(step, out, text, n);
        break;
    }
    return LINNET_OK;
}

ln_status ln_normalize(const ln_normalizer *normalizer, ln_regex_work *work, ln_strbuf buffers[2],
                       const char *text, size_t n_bytes, const char **out, size_t *out_bytes,
                       bool *at_start, ln_error *err) {
    *out = text;
    *out_bytes = n_bytes;
    buffers[0].limit = buffers[1].limit = ln_text_limit(n_bytes);
    for (size_t i = 0; i < normalizer->count; i++) {
        ln_strbuf *to = &buffers[i % 2];
        ln_strbuf_clear(to);
        LN_TRY(run_step(&normalizer->steps[i], work, to, *out, *out_bytes, at_start, err));
        if (to->is_full)
            return ln_fail(err, LINNET_ERR_LIMIT,
                           "the tokenizer's normalizers make over %zu bytes of %zu", to->limit,
                           n_bytes);
        if (to->failed)
            return ln_fail_memory(err, "normalised text");
        *out = to->data != NULL ? to->data : "";
        *out_bytes = to->len;
    }
    return LINNET_OK;
}
