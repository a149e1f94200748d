/* UTF-8: checking, decoding, repairing, and the printable alphabet of byte-level tokenizers. */
#ifndef LN_BASE_UTF8_H
#define LN_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/strbuf.h"

/* Bytes of the well-formed sequence at text[0], 1 to 4; 0 when it is ill-formed or cut short. */
size_t ln_utf8_valid(const char *text, size_t n_bytes);

/* How many of the first bytes (at least 1) belong to one ill-formed sequence: what Unicode calls
 * a maximal subpart, replaced by one U+FFFD. *cut_short: more bytes could complete it. */
size_t ln_utf8_invalid(const char *text, size_t n_bytes, bool *cut_short);

bool ln_utf8_check(const char *text, size_t n_bytes);

/* Appends the text with each maximal ill-formed subpart replaced by U+FFFD. */
bool ln_utf8_repair(ln_strbuf *out, const char *text, size_t n_bytes);

/* Length by the first byte of well-formed text. */
static inline size_t ln_utf8_length(unsigned char first) {
    return first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
}

/* The code point at `text` in well-formed text; *n_bytes is its length. */
static inline uint32_t ln_utf8_decode(const char *text, size_t *n_bytes) {
    const unsigned char *byte = (const unsigned char *)text;
    *n_bytes = ln_utf8_length(byte[0]);
    switch (*n_bytes) {
    case 1: return byte[0];
    case 2: return (byte[0] & 0x1fu) << 6 | (byte[1] & 0x3fu);
    case 3: return (byte[0] & 0xfu) << 12 | (byte[1] & 0x3fu) << 6 | (byte[2] & 0x3fu);
    default:
        return (byte[0] & 7u) << 18 | (byte[1] & 0x3fu) << 12 | (byte[2] & 0x3fu) << 6 |
               (byte[3] & 0x3fu);
    }
}

/* out[4] receives the code point; returns its length. */
size_t ln_utf8_encode(uint32_t code_point, char *out);

/* Where `part` first occurs in the text, or NULL; an empty part never does. Short parts are looked
 * for by their first byte: checkers of memory walk all of the text at every call of memmem. */
const char *ln_find_text(const char *text, size_t n_bytes, const char *part, size_t part_bytes);

/* GPT-2's alphabet: a printable code point below 0x180 for each byte, and back (-1: none). */
uint32_t ln_byte_to_char(unsigned char byte);
int ln_char_to_byte(uint32_t code_point);

/* Appends the alphabet's text of the bytes. */
bool ln_byte_level_encode(ln_strbuf *out, const char *bytes, size_t n_bytes);

/* Writes the bytes that `text` (well-formed) stands for to out[n_bytes]; false, and nothing
 * useful written, when a code point is not of the alphabet. */
bool ln_byte_level_decode(const char *text, size_t n_bytes, char *out, size_t *n_out);

/* The byte of a piece of the form <0xHH>, or -1. Library: strict upper case as SentencePiece
 * writes it, or any hexadecimal as Hugging Face reads it. */
int ln_byte_piece(const char *piece, size_t n_bytes, bool any_case);

#endif
