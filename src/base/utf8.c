#include "base/utf8.h"

#include <string.h>

static bool is_trail(unsigned char byte) {
    return (byte & 0xc0) == 0x80;
}

/* The range of the second byte that keeps a sequence well-formed; 0 bytes for a bad first byte. */
static size_t expected(unsigned char first, unsigned char *low, unsigned char *high) {
    *low = 0x80;
    *high = 0xbf;
    if (first < 0x80)
        return 1;
    if (first < 0xc2 || first > 0xf4)
        return 0;
    if (first < 0xe0)
        return 2;
    if (first < 0xf0) {
        if (first == 0xe0)
            *low = 0xa0;
        if (first == 0xed)
            *high = 0x9f;
        return 3;
    }
    if (first == 0xf0)
        *low = 0x90;
    if (first == 0xf4)
        *high = 0x8f;
    return 4;
}

size_t ln_utf8_valid(const char *text, size_t n_bytes) {
    const unsigned char *byte = (const unsigned char *)text;
    if (n_bytes == 0)
        return 0;
    unsigned char low, high;
    size_t length = expected(byte[0], &low, &high);
    if (length <= 1)
        return length;
    if (n_bytes < length || byte[1] < low || byte[1] > high)
        return 0;
    for (size_t i = 2; i < length; i++)
        if (!is_trail(byte[i]))
            return 0;
    return length;
}

size_t ln_utf8_invalid(const char *text, size_t n_bytes, bool *cut_short) {
    const unsigned char *byte = (const unsigned char *)text;
    unsigned char low, high;
    size_t length = expected(byte[0], &low, &high);
    size_t at = 1;
    *cut_short = false;
    if (length < 2)
        return 1;
    if (at < n_bytes && (byte[1] < low || byte[1] > high))
        return 1;
    while (at < n_bytes && at < length && is_trail(byte[at]))
        at++;
    *cut_short = at == n_bytes && at < length;
    return at;
}

bool ln_utf8_check(const char *text, size_t n_bytes) {
    for (size_t at = 0; at < n_bytes;) {
        uint64_t eight;
        if (n_bytes - at >= sizeof eight) {
            memcpy(&eight, text + at, sizeof eight);
            if ((eight & 0x8080808080808080u) == 0) {
                at += sizeof eight;
                continue;
            }
        }
        size_t length = ln_utf8_valid(text + at, n_bytes - at);
        if (length == 0)
            return false;
        at += length;
    }
    return true;
}

bool ln_utf8_repair(ln_strbuf *out, const char *text, size_t n_bytes) {
    size_t begin = 0;
    for (size_t at = 0; at < n_bytes;) {
        size_t length = ln_utf8_valid(text + at, n_bytes - at);
        if (length > 0) {
            at += length;
            continue;
        }
        ln_strbuf_append(out, text + begin, at - begin);
        bool cut_short;
        at += ln_utf8_invalid(text + at, n_bytes - at, &cut_short);
        ln_strbuf_put_utf8(out, 0xfffd);
        begin = at;
    }
    return ln_strbuf_append(out, text + begin, n_bytes - begin);
}

size_t ln_utf8_encode(uint32_t code_point, char *out) {
    if (code_point < 0x80) {
        out[0] = (char)code_point;
        return 1;
    }
    size_t length = code_point < 0x800 ? 2 : code_point < 0x10000 ? 3 : 4;
    static const unsigned char marks[5] = {0, 0, 0xc0, 0xe0, 0xf0};
    for (size_t i = length - 1; i > 0; i--, code_point >>= 6)
        out[i] = (char)(0x80 | (code_point & 0x3f));
    out[0] = (char)(marks[length] | code_point);
    return length;
}

const char *ln_find_text(const char *text, size_t n_bytes, const char *part, size_t part_bytes) {
    enum { LONGEST_SHORT_PART = 4 };
    if (part_bytes > LONGEST_SHORT_PART)
        return memmem(text, n_bytes, part, part_bytes);
    const char *end = text + n_bytes;
    while (part_bytes > 0 && (size_t)(end - text) >= part_bytes) {
        const char *hit = memchr(text, part[0], (size_t)(end - text) - part_bytes + 1);
        if (hit == NULL || memcmp(hit, part, part_bytes) == 0)
            return hit;
        text = hit + 1;
    }
    return NULL;
}

/* Printable Latin-1 stands for itself; the 68 others follow U+0100 in order of value. */
static bool is_printable_byte(uint32_t byte) {
    return (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte != 0xad);
}

uint32_t ln_byte_to_char(unsigned char byte) {
    if (is_printable_byte(byte))
        return byte;
    if (byte <= 0x20)
        return 0x100u + byte;
    return byte == 0xad ? 0x143 : 0x121u + (byte - 0x7fu);
}

int ln_char_to_byte(uint32_t code_point) {
    if (code_point < 0x100)
        return is_printable_byte(code_point) ? (int)code_point : -1;
    if (code_point <= 0x120)
        return (int)code_point - 0x100;
    if (code_point <= 0x142)
        return (int)code_point - 0x121 + 0x7f;
    return code_point == 0x143 ? 0xad : -1;
}

bool ln_byte_level_encode(ln_strbuf *out, const char *bytes, size_t n_bytes) {
    if (!ln_strbuf_reserve(out, n_bytes * 2))
        return false;
    char *to = out->data + out->len;
    for (size_t i = 0; i < n_bytes; i++)
        to += ln_utf8_encode(ln_byte_to_char((unsigned char)bytes[i]), to);
    out->len = (size_t)(to - out->data);
    *to = '\0';
    return true;
}

bool ln_byte_level_decode(const char *text, size_t n_bytes, char *out, size_t *n_out) {
    size_t count = 0;
    for (size_t at = 0, length; at < n_bytes; at += length) {
        int byte = ln_char_to_byte(ln_utf8_decode(text + at, &length));
        if (byte < 0)
            return false;
        out[count++] = (char)byte;
    }
    *n_out = count;
    return true;
}

static int hex_digit(char c, bool any_case) {
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return any_case && c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

int ln_byte_piece(const char *piece, size_t n_bytes, bool any_case) {
    if (n_bytes != 6 || memcmp(piece, "<0x", 3) != 0 || piece[5] != '>')
        return -1;
    int high = hex_digit(piece[3], any_case), low = hex_digit(piece[4], any_case);
    if (any_case && piece[3] == '+' && low >= 0)
        return low; /* Rust's integer parser takes a sign */
    return high < 0 || low < 0 ? -1 : high * 16 + low;
}
