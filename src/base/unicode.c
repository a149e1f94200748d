#include "base/unicode.h"

#include <utf8proc.h>

typedef struct code_range {
    uint32_t first, last;
} code_range;

#include "base/unicode_tables.inc"

static bool in_ranges(const code_range *ranges, size_t n, uint32_t code_point) {
    size_t low = 0, high = n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (ranges[middle].last < code_point)
            low = middle + 1;
        else
            high = middle;
    }
    return low < n && ranges[low].first <= code_point;
}

#define IN(table, code_point) in_ranges(table, sizeof(table) / sizeof(table)[0], code_point)

bool ln_is_space(uint32_t c) {
    if (c < 0x80)
        return c == ' ' || (c >= 9 && c <= 13);
    return c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 ||
           c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

bool ln_is_numeric(uint32_t c) {
    return c < 0x80 ? c >= '0' && c <= '9' : IN(numeric, c);
}

bool ln_is_punctuation(uint32_t c) {
    return IN(punctuation, c);
}

bool ln_is_mark(uint32_t c) {
    return c >= 0x300 && IN(marks, c);
}

bool ln_is_nonspacing_mark(uint32_t c) {
    return c >= 0x300 && IN(nonspacing_marks, c);
}

bool ln_is_word(uint32_t c) {
    if (c < 0x80)
        return (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z') || c == '_';
    return IN(words, c);
}

bool ln_is_bert_removed(uint32_t c) {
    return !(c >= 0x20 && c < 0x7f) && IN(bert_removed, c);
}

bool ln_is_cjk(uint32_t c) {
    return (c >= 0x4e00 && c <= 0x9fff) || (c >= 0x3400 && c <= 0x4dbf) ||
           (c >= 0x20000 && c <= 0x2a6df) || (c >= 0x2a700 && c <= 0x2b73f) ||
           (c >= 0x2b740 && c <= 0x2b81f) || (c >= 0x2b920 && c <= 0x2ceaf) ||
           (c >= 0xf900 && c <= 0xfaff) || (c >= 0x2f800 && c <= 0x2fa1f);
}

size_t ln_to_lower(uint32_t c, uint32_t lower[2]) {
    if (c < 0x80) {
        lower[0] = c >= 'A' && c <= 'Z' ? c + 32 : c;
        return 1;
    }
    for (size_t i = 0; i < sizeof lower_extra / sizeof lower_extra[0]; i++) {
        if (lower_extra[i][0] != c)
            continue;
        lower[0] = lower_extra[i][1];
        lower[1] = lower_extra[i][2];
        return lower[1] != 0 ? 2 : 1;
    }
    lower[0] = (uint32_t)utf8proc_tolower((utf8proc_int32_t)c);
    return 1;
}

bool ln_is_not_decomposed(uint32_t c) {
    return c >= 0x3000 && IN(not_decomposed, c);
}
