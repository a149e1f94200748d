#include "text/tokenizer/charsmap.h"

#include "base/utf8.h"

static uint32_t read_u32(const unsigned char *bytes) {
    return (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 |
           (uint32_t)bytes[3] << 24;
}

ln_status ln_charsmap_init(ln_charsmap *map, ln_arena *arena, const void *blob, size_t n_bytes,
                           ln_error *err) {
    const unsigned char *bytes = blob;
    *map = (ln_charsmap){0};
    if (n_bytes == 0)
        return LINNET_OK;
    if (n_bytes <= 4)
        return ln_fail(err, LINNET_ERR_FORMAT, "the precompiled charsmap has only %zu bytes",
                       n_bytes);
    size_t array_bytes = read_u32(bytes);
    if (array_bytes % 4 != 0 || array_bytes == 0 || array_bytes >= n_bytes - 4)
        return ln_fail(err, LINNET_ERR_FORMAT,
                       "the array of the precompiled charsmap has %zu of %zu bytes", array_bytes,
                       n_bytes);
    uint32_t *units = ln_arena_alloc(arena, array_bytes / 4, sizeof *units);
    size_t texts_bytes = n_bytes - 4 - array_bytes;
    char *texts = ln_arena_copy(arena, (const char *)bytes + 4 + array_bytes, texts_bytes);
    if (texts != NULL && !ln_utf8_check(texts, texts_bytes))
        return ln_fail(err, LINNET_ERR_FORMAT, "the precompiled charsmap maps to ill-formed text");
    if (units == NULL || texts == NULL)
        return ln_fail_memory(err, "the precompiled charsmap");
    for (size_t i = 0; i < array_bytes / 4; i++)
        units[i] = read_u32(bytes + 4 + 4 * i);
    *map = (ln_charsmap){units, array_bytes / 4, texts, texts_bytes};
    return LINNET_OK;
}

/* A unit: label in bits 0-7 and 31, has_leaf in bit 8, offset in bits 10-30 (scaled by 256 when
 * bit 9 is set); a leaf's unit is its value. */
static uint32_t unit_offset(uint32_t unit) {
    return (unit >> 10) << ((unit & (1u << 9)) >> 6);
}

const char *ln_charsmap_find(const ln_charsmap *map, const char *text, size_t n_bytes, int longest,
                             size_t *matched) {
    const char *found = NULL;
    *matched = 0;
    if (map->n_units == 0)
        return NULL;
    size_t at = unit_offset(map->units[0]);
    for (size_t i = 0; i < n_bytes; i++) {
        unsigned char byte = (unsigned char)text[i];
        at ^= byte;
        if (byte == 0 || at >= map->n_units)
            break;
        uint32_t unit = map->units[at];
        if ((unit & ((1u << 31) | 0xff)) != byte)
            break;
        at ^= unit_offset(unit);
        if (unit >> 8 & 1) {
            uint32_t value = at < map->n_units ? map->units[at] & 0x7fffffffu : UINT32_MAX;
            if (value >= map->texts_bytes || ((unsigned char)map->texts[value] & 0xc0) == 0x80)
                break; /* past the end, or inside a character */
            found = map->texts + value;
            *matched = i + 1;
            if (!longest)
                break;
        }
        if (at >= map->n_units)
            break;
    }
    return found;
}
