/* tokenizer.model of SentencePiece, a protocol buffer: pieces, scores and kinds. */
#include <stdlib.h>
#include <string.h>

#include "convert/vocab.h"

/* A message and how far it is read. */
typedef struct message {
    const unsigned char *at, *end;
} message;

typedef struct field {
    unsigned number, wire;
    uint64_t value;
    message inner; /* of a length-delimited field */
} field;

static bool read_varint(message *m, uint64_t *value) {
    *value = 0;
    for (unsigned shift = 0; shift < 64 && m->at < m->end; shift += 7) {
        unsigned char byte = *m->at++;
        *value |= (uint64_t)(byte & 127) << shift;
        if (byte < 128)
            return true;
    }
    return false;
}

static bool read_bytes(message *m, size_t n_bytes, uint64_t *value) {
    *value = 0;
    if ((size_t)(m->end - m->at) < n_bytes)
        return false;
    memcpy(value, m->at, n_bytes);
    m->at += n_bytes;
    return true;
}

/* False when the message is malformed. */
static bool read_field(message *m, field *f) {
    uint64_t tag;
    if (!read_varint(m, &tag))
        return false;
    *f = (field){.number = (unsigned)(tag >> 3), .wire = (unsigned)(tag & 7)};
    switch (f->wire) {
    case 0: return read_varint(m, &f->value);
    case 1: return read_bytes(m, 8, &f->value);
    case 5: return read_bytes(m, 4, &f->value);
    case 2:
        if (!read_varint(m, &f->value) || f->value > (uint64_t)(m->end - m->at))
            return false;
        f->inner = (message){m->at, m->at + f->value};
        m->at += f->value;
        return true;
    default: return false;
    }
}

static ln_status malformed(const ln_convert_vocab *vocab) {
    return ln_fail(vocab->err, LINNET_ERR_FORMAT, "%s is no SentencePiece model", vocab->path);
}

static ln_status read_piece(ln_convert_vocab *vocab, message m, int64_t id) {
    field f;
    message text = {0};
    uint32_t score_bits = 0;
    int kind = LN_CONVERT_NORMAL;
    float score;
    while (m.at < m.end) {
        if (!read_field(&m, &f))
            return malformed(vocab);
        if (f.number == 1 && f.wire == 2)
            text = f.inner;
        else if (f.number == 2 && f.wire == 5)
            score_bits = (uint32_t)f.value;
        else if (f.number == 3 && f.wire == 0)
            kind = (int)f.value; /* the same numbers as GGUF's */
    }
    memcpy(&score, &score_bits, sizeof score);
    if (kind < LN_CONVERT_NORMAL || kind > LN_CONVERT_BYTE || text.at == NULL)
        return malformed(vocab);
    if (kind == LN_CONVERT_UNKNOWN)
        vocab->unk = id;
    return ln_convert_set_token(vocab, id, (const char *)text.at, (size_t)(text.end - text.at),
                                score, kind);
}

static ln_status read_trainer(ln_convert_vocab *vocab, message m) {
    field f;
    uint64_t type = 1;
    vocab->bos = 1;
    vocab->eos = 2;
    while (m.at < m.end) {
        if (!read_field(&m, &f))
            return malformed(vocab);
        if (f.number == 3 && f.wire == 0)
            type = f.value;
        if (f.number == 41 && f.wire == 0)
            vocab->bos = (int32_t)f.value;
        if (f.number == 42 && f.wire == 0)
            vocab->eos = (int32_t)f.value;
    }
    if (type != 1 && type != 2)
        return ln_fail(vocab->err, LINNET_ERR_UNSUPPORTED,
                       "%s: SentencePiece's word and character models have no GGUF form; "
                       "--no-tokenizer leaves it out",
                       vocab->path);
    vocab->model = type == 1 ? "t5" : "llama";
    return LINNET_OK;
}

static ln_status read_normalizer(ln_convert_vocab *vocab, message m) {
    field f;
    while (m.at < m.end) {
        if (!read_field(&m, &f))
            return malformed(vocab);
        if (f.number == 2 && f.wire == 2 && vocab->charsmap == NULL && f.value > 0) {
            vocab->charsmap = malloc((size_t)f.value);
            if (vocab->charsmap == NULL)
                return ln_fail_memory(vocab->err, "the tokenizer");
            memcpy(vocab->charsmap, f.inner.at, (size_t)f.value);
            vocab->charsmap_bytes = (size_t)f.value;
        }
        if (f.number == 3 && f.wire == 0)
            vocab->space_prefix = f.value != 0;
        if (f.number == 4 && f.wire == 0)
            vocab->remove_spaces = f.value != 0;
    }
    return LINNET_OK;
}

ln_status ln_convert_read_spm(ln_convert_vocab *vocab, const char *bytes, size_t n_bytes) {
    message m = {(const unsigned char *)bytes, (const unsigned char *)bytes + n_bytes};
    field f;
    int64_t id = 0;
    vocab->model = "t5";
    vocab->pre = "default";
    vocab->has_scores = vocab->has_space_prefix = true;
    vocab->space_prefix = vocab->remove_spaces = true;
    while (m.at < m.end) {
        if (!read_field(&m, &f))
            return malformed(vocab);
        if (f.wire != 2)
            continue;
        if (f.number == 1)
            LN_TRY(read_piece(vocab, f.inner, id++));
        else if (f.number == 2)
            LN_TRY(read_trainer(vocab, f.inner));
        else if (f.number == 3)
            LN_TRY(read_normalizer(vocab, f.inner));
    }
    if (id == 0)
        return malformed(vocab);
    if (strcmp(vocab->model, "llama") == 0)
        vocab->charsmap_bytes = 0; /* llama.cpp's has none */
    return LINNET_OK;
}
