/* Building a BPE model: the table of pairs, and the symbols of characters. */
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "text/tokenizer/bpe.h"

enum { N_PAGES = 0x110000 / 256, LONGEST_MERGED_BYTES = 1024 };

static ln_status init_pairs(ln_bpe *bpe, ln_arena *arena, size_t n_pairs, ln_error *err) {
    size_t capacity = 16;
    bpe->pair_shift = 60;
    while (capacity < n_pairs + n_pairs / 2) {
        capacity *= 2;
        bpe->pair_shift--;
    }
    bpe->pairs = ln_arena_alloc(arena, capacity, sizeof *bpe->pairs);
    if (bpe->pairs == NULL)
        return ln_fail_memory(err, "the tokenizer's merges");
    bpe->pair_mask = capacity - 1;
    memset(bpe->pairs, 0xff, capacity * sizeof *bpe->pairs);
    return LINNET_OK;
}

/* The table must have room, which init_pairs saw to. */
static void add_pair(ln_bpe *bpe, ln_bpe_pair added, bool keep_first) {
    for (size_t at = ln_bpe_pair_slot(bpe, added.left, added.right);;
         at = (at + 1) & bpe->pair_mask) {
        ln_bpe_pair *pair = &bpe->pairs[at];
        if (pair->left == LN_BPE_NONE) {
            *pair = added;
            bpe->n_pairs++;
            return;
        }
        if (pair->left == added.left && pair->right == added.right) {
            if (!keep_first)
                *pair = added;
            return;
        }
    }
}

/* Whether a text is one character, or ends and begins with characters that are symbols: then
 * *first and *last are these. */
static bool end_symbols(const ln_bpe *bpe, const char *text, size_t n_bytes, uint32_t *first,
                        uint32_t *last) {
    size_t begin = n_bytes - 1, length;
    while (begin > 0 && ((unsigned char)text[begin] & 0xc0) == 0x80)
        begin--;
    *first = ln_bpe_char_symbol(bpe, ln_utf8_decode(text, &length));
    *last = ln_bpe_char_symbol(bpe, ln_utf8_decode(text + begin, &length));
    return *first != LN_BPE_NONE && *last != LN_BPE_NONE;
}

/* Adds the two characters on both sides of a seam, where a merge joins two texts. Texts are
 * well-formed and not empty. */
static void add_seam(ln_bpe *bpe, const char *left, size_t left_bytes, const char *right,
                     size_t right_bytes) {
    uint32_t ignored, before, after;
    if (end_symbols(bpe, left, left_bytes, &ignored, &before) &&
        end_symbols(bpe, right, right_bytes, &after, &ignored))
        add_pair(bpe, (ln_bpe_pair){before, after, UINT32_MAX, LN_BPE_NONE}, true);
}

static ln_status set_char(ln_bpe *bpe, ln_arena *arena, uint32_t code_point, uint32_t symbol,
                          ln_error *err) {
    uint32_t **page = &bpe->char_pages[code_point >> 8];
    if (*page == NULL) {
        *page = ln_arena_alloc(arena, 256, sizeof **page);
        if (*page == NULL)
            return ln_fail_memory(err, "the tokenizer's merges");
        memset(*page, 0xff, 256 * sizeof **page);
    }
    (*page)[code_point & 255] = symbol;
    return LINNET_OK;
}

static bool takes_part(const ln_bpe *bpe, const ln_piece *piece) {
    uint32_t apart = LN_TOKEN_SPECIAL | LN_TOKEN_BYTE | LN_TOKEN_UNKNOWN;
    return piece->data != NULL && piece->bytes > 0 && !(bpe->by_score && (piece->flags & apart));
}

/* Pieces of one character are the symbols that a word begins with. */
static ln_status set_chars(ln_bpe *bpe, ln_arena *arena, ln_error *err) {
    bpe->char_pages = ln_arena_alloc(arena, N_PAGES, sizeof *bpe->char_pages);
    if (bpe->char_pages == NULL)
        return ln_fail_memory(err, "the tokenizer's merges");
    for (size_t id = 0; id < bpe->vocab->count; id++) {
        const ln_piece *piece = &bpe->vocab->pieces[id];
        if (!takes_part(bpe, piece) || piece->bytes > 4 ||
            ln_utf8_valid(piece->data, piece->bytes) != piece->bytes ||
            ln_vocab_find(bpe->vocab, piece->data, piece->bytes) != (int32_t)id)
            continue;
        size_t length;
        LN_TRY(set_char(bpe, arena, ln_utf8_decode(piece->data, &length), (uint32_t)id, err));
    }
    return LINNET_OK;
}

static ln_status resolve_merge(const ln_bpe *bpe, const ln_bpe_merge *merge, size_t rank,
                               char *joined, ln_bpe_pair *pair, const char **missing,
                               uint32_t *missing_bytes) {
    size_t prefix = bpe->prefix != NULL ? strlen(bpe->prefix) : 0;
    int32_t left = ln_vocab_find(bpe->vocab, merge->left, merge->left_bytes);
    int32_t right = ln_vocab_find(bpe->vocab, merge->right, merge->right_bytes);
    *missing = left < 0 ? merge->left : merge->right;
    *missing_bytes = left < 0 ? merge->left_bytes : merge->right_bytes;
    if (left < 0 || right < 0 || merge->right_bytes < prefix)
        return LINNET_ERR_FORMAT;
    size_t right_bytes = merge->right_bytes - prefix;
    memcpy(joined, merge->left, merge->left_bytes);
    memcpy(joined + merge->left_bytes, merge->right + prefix, right_bytes);
    size_t total = merge->left_bytes + right_bytes;
    int32_t merged = ln_vocab_find(bpe->vocab, joined, total);
    *missing = joined;
    *missing_bytes = (uint32_t)total;
    if (merged < 0)
        return LINNET_ERR_FORMAT;
    *pair = (ln_bpe_pair){(uint32_t)left, (uint32_t)right, (uint32_t)rank, (uint32_t)merged};
    return LINNET_OK;
}

/* Tokens that are no characters but symbols of a word all the same: byte tokens, the unknown one.
 * A merge with one of them makes seams that its text does not show. */
static bool is_plain_part(const ln_bpe *bpe, uint32_t id) {
    const ln_piece *piece = &bpe->vocab->pieces[id];
    return (int32_t)id != bpe->vocab->unk && piece->bytes > 0 &&
           ln_byte_piece(piece->data, piece->bytes, false) < 0 &&
           ln_utf8_check(piece->data, piece->bytes);
}

static void add_seams(ln_bpe *bpe) {
    bpe->cuts = bpe->prefix == NULL && bpe->suffix == NULL;
    size_t n_pairs = bpe->n_pairs; /* real ones come first: seams do not replace them */
    ln_bpe_pair *pairs = malloc((n_pairs + 1) * sizeof *pairs);
    if (pairs == NULL)
        bpe->cuts = false; /* slower, but it works */
    size_t n = 0;
    for (size_t i = 0; bpe->cuts && i <= bpe->pair_mask; i++) {
        if (bpe->pairs[i].left == LN_BPE_NONE)
            continue;
        pairs[n++] = bpe->pairs[i];
        bpe->cuts =
            is_plain_part(bpe, bpe->pairs[i].left) && is_plain_part(bpe, bpe->pairs[i].right);
    }
    for (size_t i = 0; bpe->cuts && i < n; i++) {
        const ln_piece *left = &bpe->vocab->pieces[pairs[i].left];
        const ln_piece *right = &bpe->vocab->pieces[pairs[i].right];
        add_seam(bpe, left->data, left->bytes, right->data, right->bytes);
    }
    free(pairs);
}

ln_status ln_bpe_init_merges(ln_bpe *bpe, ln_arena *arena, const ln_vocab *vocab,
                             const ln_bpe_merge *merges, size_t n_merges, bool lenient,
                             ln_error *err) {
    bpe->vocab = vocab;
    if (n_merges >= INT32_MAX)
        return ln_fail(err, LINNET_ERR_LIMIT, "the tokenizer has %zu merges", n_merges);
    LN_TRY(init_pairs(bpe, arena, 2 * n_merges, err)); /* with a seam each */
    LN_TRY(set_chars(bpe, arena, err));
    size_t longest = 1;
    for (size_t i = 0; i < n_merges; i++)
        if (longest < (size_t)merges[i].left_bytes + merges[i].right_bytes)
            longest = (size_t)merges[i].left_bytes + merges[i].right_bytes;
    uint32_t *merged_of_rank = ln_arena_alloc(arena, n_merges, sizeof *merged_of_rank);
    char *joined = malloc(longest);
    if (merged_of_rank == NULL || joined == NULL) {
        free(joined);
        return ln_fail_memory(err, "the tokenizer's merges");
    }
    ln_status status = LINNET_OK;
    for (size_t i = 0; i < n_merges && status == LINNET_OK; i++) {
        ln_bpe_pair pair;
        const char *missing;
        uint32_t missing_bytes;
        merged_of_rank[i] = LN_BPE_NONE;
        if (resolve_merge(bpe, &merges[i], i, joined, &pair, &missing, &missing_bytes) ==
            LINNET_OK) {
            merged_of_rank[i] = pair.merged;
            add_pair(bpe, pair, lenient);
        } else if (!lenient) {
            int shown = missing_bytes < 100 ? (int)missing_bytes : 100;
            status = ln_fail(err, LINNET_ERR_FORMAT,
                             "merge %zu needs the token \"%.*s\", which the vocabulary lacks", i,
                             shown, missing);
        } else {
            bpe->n_dangling++;
        }
    }
    free(joined);
    if (status == LINNET_OK)
        add_seams(bpe);
    bpe->n_ranks = (uint32_t)n_merges;
    bpe->merged_of_rank = merged_of_rank;
    return status;
}

/* ---- by score ---------------------------------------------------------------------------- */

typedef struct scored {
    float score;
    uint32_t id;
} scored;

static int compare_scored(const void *a, const void *b) {
    const scored *x = a, *y = b;
    if (x->score != y->score)
        return x->score > y->score ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

/* ranks[vocab->count]: pieces of equal score share a rank; the highest score has rank 0. */
static ln_status rank_pieces(ln_bpe *bpe, const float *scores, uint32_t *ranks, ln_error *err) {
    size_t n = bpe->vocab->count;
    scored *order = malloc((n + 1) * sizeof *order);
    if (order == NULL)
        return ln_fail_memory(err, "the tokenizer's merges");
    for (size_t i = 0; i < n; i++)
        order[i] = (scored){scores[i] == scores[i] ? scores[i] : -3.4e38f, (uint32_t)i};
    qsort(order, n, sizeof *order, compare_scored);
    uint32_t rank = 0;
    for (size_t i = 0; i < n; i++) {
        if (i > 0 && order[i].score != order[i - 1].score)
            rank++;
        ranks[order[i].id] = rank;
    }
    bpe->n_ranks = rank + 1;
    free(order);
    return LINNET_OK;
}

/* Characters that pieces have but that are none themselves get symbols past the vocabulary. */
static ln_status set_inner_chars(ln_bpe *bpe, ln_arena *arena, ln_error *err) {
    uint32_t next = (uint32_t)bpe->vocab->count;
    for (size_t id = 0; id < bpe->vocab->count; id++) {
        const ln_piece *piece = &bpe->vocab->pieces[id];
        if (!takes_part(bpe, piece) || !ln_utf8_check(piece->data, piece->bytes))
            continue;
        for (size_t at = 0, length; at < piece->bytes; at += length) {
            uint32_t code_point = ln_utf8_decode(piece->data + at, &length);
            const uint32_t *page = bpe->char_pages[code_point >> 8];
            if (page == NULL || page[code_point & 255] == LN_BPE_NONE)
                LN_TRY(set_char(bpe, arena, code_point, next++, err));
        }
    }
    return LINNET_OK;
}

/* The symbol of a text: a character's, or a piece's; LN_BPE_NONE when it is neither. */
static uint32_t text_symbol(const ln_bpe *bpe, const char *text, size_t n_bytes) {
    size_t length = ln_utf8_length((unsigned char)text[0]);
    if (length == n_bytes) {
        uint32_t code_point = ln_utf8_decode(text, &length);
        const uint32_t *page = bpe->char_pages[code_point >> 8];
        return page == NULL ? LN_BPE_NONE : page[code_point & 255];
    }
    int32_t id = ln_vocab_find(bpe->vocab, text, n_bytes);
    return id >= 0 && takes_part(bpe, &bpe->vocab->pieces[id]) ? (uint32_t)id : LN_BPE_NONE;
}

/* Every way to put a piece together from two symbols is a pair. Counts them, adds them (ranks
 * given), or adds the characters at their seams. */
static size_t split_pieces(ln_bpe *bpe, const uint32_t *ranks, bool seams) {
    size_t n_pairs = 0;
    for (size_t id = 0; id < bpe->vocab->count; id++) {
        const ln_piece *piece = &bpe->vocab->pieces[id];
        if (!takes_part(bpe, piece) || piece->bytes > LONGEST_MERGED_BYTES ||
            !ln_utf8_check(piece->data, piece->bytes) ||
            ln_vocab_find(bpe->vocab, piece->data, piece->bytes) != (int32_t)id)
            continue;
        size_t at = ln_utf8_length((unsigned char)piece->data[0]);
        for (; at < piece->bytes; at += ln_utf8_length((unsigned char)piece->data[at])) {
            uint32_t left = text_symbol(bpe, piece->data, at);
            if (left == LN_BPE_NONE)
                continue;
            uint32_t right = text_symbol(bpe, piece->data + at, piece->bytes - at);
            if (right == LN_BPE_NONE)
                continue;
            n_pairs++;
            if (ranks != NULL)
                add_pair(bpe, (ln_bpe_pair){left, right, ranks[id], (uint32_t)id}, true);
            if (seams)
                add_seam(bpe, piece->data, at, piece->data + at, piece->bytes - at);
        }
    }
    return n_pairs;
}

ln_status ln_bpe_init_scores(ln_bpe *bpe, ln_arena *arena, const ln_vocab *vocab,
                             const float *scores, ln_error *err) {
    bpe->vocab = vocab;
    bpe->by_score = true;
    LN_TRY(set_chars(bpe, arena, err));
    LN_TRY(set_inner_chars(bpe, arena, err));
    LN_TRY(init_pairs(bpe, arena, 2 * split_pieces(bpe, NULL, false), err));
    uint32_t *ranks = calloc(vocab->count + 1, sizeof *ranks);
    if (ranks == NULL)
        return ln_fail_memory(err, "the tokenizer's merges");
    ln_status status = rank_pieces(bpe, scores, ranks, err);
    if (status == LINNET_OK) {
        split_pieces(bpe, ranks, false);
        split_pieces(bpe, NULL, true);
        bpe->cuts = true;
    }
    free(ranks);
    for (size_t id = 0; id < vocab->count; id++)
        bpe->has_unused |= (vocab->pieces[id].flags & LN_TOKEN_UNUSED) != 0;
    LN_TRY(status);
    return ln_vocab_trie(vocab, arena, LN_TOKEN_USER_DEFINED, &bpe->user_defined, err);
}

void ln_bpe_note_special(ln_bpe *bpe) {
    for (size_t i = 0; i <= bpe->pair_mask && bpe->pairs != NULL; i++) {
        const ln_bpe_pair *pair = &bpe->pairs[i];
        if (pair->left != LN_BPE_NONE && pair->merged < bpe->vocab->count &&
            (bpe->vocab->pieces[pair->merged].flags & LN_TOKEN_SPECIAL))
            bpe->has_special_merges = true;
    }
}
