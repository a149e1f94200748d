/* tokenizer.model of SentencePiece: a protocol buffer (ModelProto of sentencepiece_model.proto),
 * read field by field. */
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "text/tokenizer/tokenizer_state.h"

/* ---- the wire format ----------------------------------------------------------------------- */

typedef struct wire {
    const unsigned char *data; /* [bytes] */
    size_t bytes, at;
} wire;

typedef struct wire_field {
    uint32_t number;
    uint64_t integer; /* varint or fixed */
    wire text;        /* length-delimited */
    bool is_text;
} wire_field;

static bool read_varint(wire *w, uint64_t *value) {
    *value = 0;
    for (unsigned shift = 0; shift < 64 && w->at < w->bytes; shift += 7) {
        unsigned char byte = w->data[w->at++];
        *value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80)
            return true;
    }
    return false;
}

static bool read_fixed(wire *w, size_t n_bytes, uint64_t *value) {
    if (w->bytes - w->at < n_bytes)
        return false;
    *value = 0;
    for (size_t i = 0; i < n_bytes; i++)
        *value |= (uint64_t)w->data[w->at + i] << 8 * i;
    w->at += n_bytes;
    return true;
}

/* The next field; *more is false at the end. */
static ln_status next_field(wire *w, wire_field *field, bool *more, ln_error *err) {
    uint64_t tag, length;
    *more = w->at < w->bytes;
    if (!*more)
        return LINNET_OK;
    bool ok = read_varint(w, &tag);
    *field = (wire_field){.number = (uint32_t)(tag >> 3), .is_text = (tag & 7) == 2};
    switch (tag & 7) {
    case 0: ok = ok && read_varint(w, &field->integer); break;
    case 1: ok = ok && read_fixed(w, 8, &field->integer); break;
    case 5: ok = ok && read_fixed(w, 4, &field->integer); break;
    case 2:
        ok = ok && read_varint(w, &length) && length <= w->bytes - w->at;
        if (ok) {
            field->text = (wire){w->data + w->at, (size_t)length, 0};
            w->at += (size_t)length;
        }
        break;
    default: ok = false;
    }
    if (!ok)
        return ln_fail(err, LINNET_ERR_FORMAT, "the model is malformed at byte %zu of a message",
                       w->at);
    return LINNET_OK;
}

/* ---- the model ----------------------------------------------------------------------------- */

enum { MODEL_UNIGRAM = 1, MODEL_BPE = 2 };

typedef enum piece_type {
    PIECE_NORMAL = 1,
    PIECE_UNKNOWN,
    PIECE_CONTROL,
    PIECE_USER_DEFINED,
    PIECE_UNUSED,
    PIECE_BYTE,
} piece_type;

typedef struct proto {
    size_t n_pieces;
    int model_type;
    bool byte_fallback, whitespace_as_suffix;
    bool add_dummy_prefix, remove_extra_whitespaces, escape_whitespaces;
    wire charsmap, unk_surface, bos_piece, eos_piece;
    bool has_denormalizer;
} proto;

static void set_text(wire *text, const wire_field *field) {
    if (field->is_text)
        *text = field->text;
}

static ln_status read_trainer(wire w, proto *p, ln_error *err) {
    wire_field field;
    for (bool more;;) {
        LN_TRY(next_field(&w, &field, &more, err));
        if (!more)
            return LINNET_OK;
        switch (field.number) {
        case 3: p->model_type = (int)(field.integer & 255); break;
        case 24: p->whitespace_as_suffix = field.integer != 0; break;
        case 35: p->byte_fallback = field.integer != 0; break;
        case 44: set_text(&p->unk_surface, &field); break;
        case 46: set_text(&p->bos_piece, &field); break;
        case 47: set_text(&p->eos_piece, &field); break;
        default: break;
        }
    }
}

static ln_status read_normalizer(wire w, proto *p, ln_error *err) {
    wire_field field;
    for (bool more;;) {
        LN_TRY(next_field(&w, &field, &more, err));
        if (!more)
            return LINNET_OK;
        switch (field.number) {
        case 2: p->charsmap = field.text; break;
        case 3: p->add_dummy_prefix = field.integer != 0; break;
        case 4: p->remove_extra_whitespaces = field.integer != 0; break;
        case 5: p->escape_whitespaces = field.integer != 0; break;
        default: break;
        }
    }
}

static ln_status read_denormalizer(wire w, proto *p, ln_error *err) {
    wire_field field;
    for (bool more;;) {
        LN_TRY(next_field(&w, &field, &more, err));
        if (!more)
            return LINNET_OK;
        if (field.number == 2 && field.text.bytes > 0)
            p->has_denormalizer = true;
    }
}

/* Everything but the pieces, which are counted. */
static ln_status read_proto(wire w, proto *p, ln_error *err) {
    static const char bos[] = "<s>", eos[] = "</s>", unk[] = " \xe2\x81\x87 ";
    *p = (proto){.model_type = MODEL_UNIGRAM,
                 .add_dummy_prefix = true,
                 .remove_extra_whitespaces = true,
                 .escape_whitespaces = true,
                 .bos_piece = {(const unsigned char *)bos, sizeof bos - 1, 0},
                 .eos_piece = {(const unsigned char *)eos, sizeof eos - 1, 0},
                 .unk_surface = {(const unsigned char *)unk, sizeof unk - 1, 0}};
    wire_field field;
    for (bool more;;) {
        LN_TRY(next_field(&w, &field, &more, err));
        if (!more)
            return LINNET_OK;
        if (!field.is_text)
            continue;
        if (field.number == 1)
            p->n_pieces++;
        else if (field.number == 2)
            LN_TRY(read_trainer(field.text, p, err));
        else if (field.number == 3)
            LN_TRY(read_normalizer(field.text, p, err));
        else if (field.number == 5)
            LN_TRY(read_denormalizer(field.text, p, err));
    }
}

static uint32_t flags_of(uint64_t type) {
    switch (type) {
    case PIECE_UNKNOWN: return LN_TOKEN_UNKNOWN;
    case PIECE_CONTROL: return LN_TOKEN_SPECIAL | LN_TOKEN_ADDED;
    case PIECE_USER_DEFINED: return LN_TOKEN_USER_DEFINED;
    case PIECE_UNUSED: return LN_TOKEN_UNUSED;
    case PIECE_BYTE: return LN_TOKEN_BYTE;
    default: return 0;
    }
}

static ln_status read_piece(wire w, ln_tokenizer *t, const proto *p, size_t id, float *score,
                            ln_error *err) {
    wire_field field;
    wire text = {0};
    uint64_t type = PIECE_NORMAL;
    *score = 0;
    for (bool more;;) {
        LN_TRY(next_field(&w, &field, &more, err));
        if (!more)
            break;
        if (field.number == 1) {
            text = field.text;
        } else if (field.number == 2) {
            uint32_t bits = (uint32_t)field.integer;
            memcpy(score, &bits, sizeof bits);
        } else if (field.number == 3) {
            type = field.integer;
        }
    }
    if (text.bytes == 0)
        return ln_fail(err, LINNET_ERR_FORMAT, "piece %zu is empty", id);
    if (!ln_utf8_check((const char *)text.data, text.bytes))
        return ln_fail(err, LINNET_ERR_FORMAT, "piece %zu is not valid UTF-8", id);
    size_t n_model = t->vocab.n_model;
    LN_TRY(ln_vocab_set(&t->vocab, &t->arena, id, (const char *)text.data, text.bytes, err));
    const ln_piece *piece = &t->vocab.pieces[id];
    if (t->vocab.n_model == n_model)
        return ln_fail(err, LINNET_ERR_FORMAT, "piece %zu, \"%.60s\", is defined twice", id,
                       piece->data);
    t->vocab.pieces[id].flags = flags_of(type);
    if (type == PIECE_UNKNOWN) {
        if (t->vocab.unk >= 0)
            return ln_fail(err, LINNET_ERR_FORMAT, "piece %zu is a second unknown piece", id);
        t->vocab.unk = (int32_t)id;
    }
    if (type == PIECE_BYTE &&
        (!p->byte_fallback || ln_byte_piece(piece->data, piece->bytes, false) < 0))
        return ln_fail(err, LINNET_ERR_FORMAT, "piece %zu, \"%.60s\", is no valid byte piece", id,
                       piece->data);
    return LINNET_OK;
}

static ln_status read_pieces(wire w, ln_tokenizer *t, const proto *p, float *scores,
                             ln_error *err) {
    LN_TRY(ln_vocab_init(&t->vocab, &t->arena, p->n_pieces, p->n_pieces, err));
    wire_field field;
    size_t id = 0;
    for (bool more;;) {
        LN_TRY(next_field(&w, &field, &more, err));
        if (!more)
            break;
        if (field.number == 1 && field.is_text) {
            LN_TRY(read_piece(field.text, t, p, id, &scores[id], err));
            id++;
        }
    }
    if (t->vocab.unk < 0)
        return ln_fail(err, LINNET_ERR_FORMAT, "the model has no unknown piece");
    int32_t byte_ids[256];
    ln_vocab_find_bytes(&t->vocab, byte_ids);
    for (int i = 0; p->byte_fallback && i < 256; i++)
        if (byte_ids[i] < 0 || !(t->vocab.pieces[byte_ids[i]].flags & LN_TOKEN_BYTE))
            return ln_fail(err, LINNET_ERR_FORMAT, "the model has no piece for the byte 0x%02X", i);
    return LINNET_OK;
}

/* The id of a control piece by its name, or -1. */
static int32_t control_id(const ln_tokenizer *t, wire name) {
    int32_t id = ln_vocab_find(&t->vocab, (const char *)name.data, name.bytes);
    return id >= 0 && (t->vocab.pieces[id].flags & LN_TOKEN_SPECIAL) ? id : -1;
}

/* ---- the tokenizer ------------------------------------------------------------------------- */

static ln_status set_model(ln_tokenizer *t, const proto *p, const float *scores, ln_error *err) {
    if (p->model_type == MODEL_BPE) {
        t->model = LN_MODEL_BPE;
        t->bpe.byte_fallback = p->byte_fallback;
        ln_vocab_find_bytes(&t->vocab, t->bpe.byte_ids);
        return ln_bpe_init_scores(&t->bpe, &t->arena, &t->vocab, scores, err);
    }
    if (p->model_type != MODEL_UNIGRAM)
        return ln_fail(err, LINNET_ERR_UNSUPPORTED,
                       "SentencePiece's model type %d (word or char) is not supported",
                       p->model_type);
    t->model = LN_MODEL_UNIGRAM;
    t->unigram.byte_fallback = p->byte_fallback;
    double *wide = ln_arena_alloc(&t->arena, p->n_pieces, sizeof *wide);
    if (wide == NULL)
        return ln_fail_memory(err, "the tokenizer");
    for (size_t i = 0; i < p->n_pieces; i++)
        wide[i] = (double)scores[i];
    return ln_unigram_init(&t->unigram, &t->arena, &t->vocab, wide, p->n_pieces,
                           LN_UNIGRAM_SENTENCEPIECE, err);
}

static ln_status set_normalizer(ln_tokenizer *t, const proto *p, ln_error *err) {
    ln_normalize_step *step = ln_arena_alloc(&t->arena, 1, sizeof *step);
    if (step == NULL)
        return ln_fail_memory(err, "the tokenizer");
    step->kind = LN_NORMALIZE_SENTENCEPIECE;
    step->spm.add_dummy_prefix = p->add_dummy_prefix;
    step->spm.remove_extra_whitespaces = p->remove_extra_whitespaces;
    step->spm.escape_whitespaces = p->escape_whitespaces;
    step->spm.whitespace_as_suffix = p->whitespace_as_suffix;
    LN_TRY(
        ln_charsmap_init(&step->spm.charsmap, &t->arena, p->charsmap.data, p->charsmap.bytes, err));
    LN_TRY(
        ln_vocab_trie(&t->vocab, &t->arena, LN_TOKEN_USER_DEFINED, &step->spm.user_defined, err));
    t->normalizer = (ln_normalizer){step, 1};
    t->raw_bytes = true;
    return LINNET_OK;
}

static ln_status set_decoder(ln_tokenizer *t, const proto *p, ln_error *err) {
    ln_decode_spm options = {.strip_first = p->add_dummy_prefix || p->remove_extra_whitespaces,
                             .strip_all = p->remove_extra_whitespaces};
    ln_strbuf surface;
    ln_strbuf_init(&surface);
    ln_utf8_repair(&surface, (const char *)p->unk_surface.data, p->unk_surface.bytes);
    options.unk_surface = ln_strbuf_take(&surface);
    ln_status status = options.unk_surface != NULL
                           ? ln_decoder_build_spm(&t->decoder, &t->arena, &t->vocab, &options, err)
                           : ln_fail_memory(err, "the tokenizer");
    free((char *)(uintptr_t)options.unk_surface);
    return status;
}

/* Control pieces are recognised in trusted text. */
static ln_status set_added(ln_tokenizer *t, ln_error *err) {
    size_t n = 0;
    for (size_t i = 0; i < t->vocab.count; i++)
        n += (t->vocab.pieces[i].flags & LN_TOKEN_ADDED) != 0;
    t->added.tokens = ln_arena_alloc(&t->arena, n, sizeof *t->added.tokens);
    if (t->added.tokens == NULL)
        return ln_fail_memory(err, "the tokenizer");
    for (size_t i = 0; i < t->vocab.count; i++) {
        const ln_piece *piece = &t->vocab.pieces[i];
        if (piece->flags & LN_TOKEN_ADDED)
            t->added.tokens[t->added.count++] = (ln_added_token){.pattern = piece->data,
                                                                 .pattern_bytes = piece->bytes,
                                                                 .id = (int32_t)i,
                                                                 .special = true};
    }
    return ln_added_build(&t->added, &t->arena, err);
}

/* What segments a text. */
static ln_status read_model(wire w, ln_tokenizer *t, proto *p, ln_error *err) {
    LN_TRY(read_proto(w, p, err));
    if (p->has_denormalizer)
        return ln_fail(err, LINNET_ERR_UNSUPPORTED, "a denormalizer is not supported");
    float *scores = calloc(p->n_pieces + 1, sizeof *scores);
    if (scores == NULL)
        return ln_fail_memory(err, "the tokenizer");
    ln_status status = read_pieces(w, t, p, scores, err);
    if (status == LINNET_OK)
        status = set_model(t, p, scores, err);
    free(scores);
    LN_TRY(status);
    return set_normalizer(t, p, err);
}

static ln_status read_all(wire w, ln_tokenizer *t, ln_error *err) {
    proto p;
    LN_TRY(read_model(w, t, &p, err));
    t->vocab.bos = control_id(t, p.bos_piece);
    t->vocab.eos = control_id(t, p.eos_piece);
    LN_TRY(set_added(t, err));
    return set_decoder(t, &p, err);
}

ln_status ln_tokenizer_read_pieces(ln_tokenizer *t, const char *bytes, size_t n_bytes,
                                   ln_error *err) {
    proto p;
    return read_model((wire){(const unsigned char *)bytes, n_bytes, 0}, t, &p, err);
}

ln_status ln_tokenizer_from_sentencepiece(const char *bytes, size_t n_bytes,
                                          ln_tokenizer **tokenizer, ln_error *err) {
    *tokenizer = NULL;
    ln_tokenizer *t = ln_tokenizer_new();
    if (t == NULL)
        return ln_fail_memory(err, "the tokenizer");
    ln_status status = read_all((wire){(const unsigned char *)bytes, n_bytes, 0}, t, err);
    if (status == LINNET_OK)
        *tokenizer = t;
    else
        ln_tokenizer_close(t);
    return status;
}
