#include "text/tokenizer/added.h"

#include <stdlib.h>
#include <string.h>

#include "base/grow.h"
#include "base/unicode.h"
#include "base/utf8.h"

void ln_added_hits_free(ln_added_hits *hits) {
    free(hits->data);
    *hits = (ln_added_hits){0};
}

/* Patterns are reversed: walking the text backwards, the automaton's state then tells the longest
 * pattern that begins at each place, so that one pass finds what is leftmost and longest. */
static ln_status build_trie(const ln_added *added, ln_arena *arena, bool normalized, ln_trie *trie,
                            ln_error *err) {
    size_t n = 0, n_bytes = 0;
    for (size_t i = 0; i < added->count; i++)
        if (added->tokens[i].normalized == normalized) {
            n++;
            n_bytes += added->tokens[i].pattern_bytes;
        }
    if (n == 0)
        return LINNET_OK;
    ln_trie_key *keys = malloc(n * sizeof *keys);
    char *reversed = malloc(n_bytes + 1), *to = reversed;
    if (keys == NULL || reversed == NULL) {
        free(keys);
        free(reversed);
        return ln_fail_memory(err, "the tokenizer's added tokens");
    }
    n = 0;
    for (size_t i = 0; i < added->count; i++) {
        const ln_added_token *token = &added->tokens[i];
        if (token->normalized != normalized)
            continue;
        keys[n++] = (ln_trie_key){to, token->pattern_bytes, (int32_t)i};
        for (size_t at = token->pattern_bytes; at > 0; at--)
            *to++ = token->pattern[at - 1];
    }
    ln_status status = ln_trie_build(trie, arena, keys, n, true, err);
    free(keys);
    free(reversed);
    return status;
}

ln_status ln_added_build(ln_added *added, ln_arena *arena, ln_error *err) {
    LN_TRY(build_trie(added, arena, false, &added->raw, err));
    return build_trie(added, arena, true, &added->normalized, err);
}

static bool push(ln_added_hits *hits, ln_added_hit hit) {
    if (!ln_grow((void **)&hits->data, &hits->capacity, hits->count + 1, sizeof hit))
        return false;
    hits->data[hits->count++] = hit;
    return true;
}

/* The longest pattern that begins at each place, last place first. */
static bool find_all(const ln_added *added, const ln_trie *trie, const char *text, size_t n_bytes,
                     ln_added_hits *hits) {
    uint32_t state = 0;
    for (size_t at = n_bytes; at > 0;) {
        at--;
        state = ln_trie_step(trie, state, (unsigned char)text[at]);
        if (state == 0 || trie->best[state] == 0)
            continue;
        const ln_added_token *token = &added->tokens[trie->value[trie->best[state]]];
        uint32_t begin = (uint32_t)at;
        if (!push(hits, (ln_added_hit){begin, begin + token->pattern_bytes, token}))
            return false;
    }
    return true;
}

static bool word_before(const char *text, size_t at) {
    size_t begin = at - 1, length;
    while (begin > 0 && ((unsigned char)text[begin] & 0xc0) == 0x80)
        begin--;
    return ln_is_word(ln_utf8_decode(text + begin, &length));
}

static bool is_apart(const char *text, size_t n_bytes, size_t begin, size_t end) {
    size_t length;
    return (begin == 0 || !word_before(text, begin)) &&
           (end == n_bytes || !ln_is_word(ln_utf8_decode(text + end, &length)));
}

static size_t strip_left(const char *text, size_t begin, size_t floor) {
    while (begin > floor) {
        size_t last = begin - 1, length;
        while (last > floor && ((unsigned char)text[last] & 0xc0) == 0x80)
            last--;
        if (!ln_is_space(ln_utf8_decode(text + last, &length)))
            break;
        begin = last;
    }
    return begin;
}

static size_t strip_right(const char *text, size_t n_bytes, size_t end) {
    size_t length;
    while (end < n_bytes && ln_is_space(ln_utf8_decode(text + end, &length)))
        end += length;
    return end;
}

ln_status ln_added_find(const ln_added *added, bool normalized, bool plain, const char *text,
                        size_t n_bytes, ln_added_hits *hits, ln_error *err) {
    const ln_trie *trie = normalized ? &added->normalized : &added->raw;
    hits->count = 0;
    if (trie->n_nodes == 0)
        return LINNET_OK;
    if (!find_all(added, trie, text, n_bytes, hits))
        return ln_fail_memory(err, "tokens");
    for (size_t low = 0, high = hits->count; low + 1 < high; low++) {
        ln_added_hit swap = hits->data[low];
        hits->data[low] = hits->data[--high];
        hits->data[high] = swap;
    }
    size_t kept = 0, searched = 0, taken = 0; /* up to where the text is searched, and given out */
    for (size_t i = 0; i < hits->count; i++) {
        ln_added_hit hit = hits->data[i];
        if (hit.begin < searched)
            continue;
        searched = hit.end;
        if ((plain && hit.token->special) ||
            (hit.token->single_word && !is_apart(text, n_bytes, hit.begin, hit.end)))
            continue;
        if (hit.token->lstrip)
            hit.begin = (uint32_t)(hit.begin > taken ? strip_left(text, hit.begin, taken) : taken);
        if (hit.token->rstrip)
            hit.end = (uint32_t)strip_right(text, n_bytes, hit.end);
        taken = hit.end;
        if (hit.begin < hit.end) /* else it was white space that another one has taken */
            hits->data[kept++] = hit;
    }
    hits->count = kept;
    return LINNET_OK;
}
