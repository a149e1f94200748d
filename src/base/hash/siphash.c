#include "base/hash/siphash.h"

typedef struct state {
    uint64_t v0, v1, v2, v3;
} state;

static uint64_t rotate(uint64_t x, int bits) {
    return x << bits | x >> (64 - bits);
}

static void mix(state *s, int rounds) {
    while (rounds-- > 0) {
        s->v0 += s->v1;
        s->v2 += s->v3;
        s->v1 = rotate(s->v1, 13) ^ s->v0;
        s->v3 = rotate(s->v3, 16) ^ s->v2;
        s->v0 = rotate(s->v0, 32);
        s->v2 += s->v1;
        s->v0 += s->v3;
        s->v1 = rotate(s->v1, 17) ^ s->v2;
        s->v3 = rotate(s->v3, 21) ^ s->v0;
        s->v2 = rotate(s->v2, 32);
    }
}

static void absorb(state *s, uint64_t word) {
    s->v3 ^= word;
    mix(s, 2);
    s->v0 ^= word;
}

uint64_t ln_siphash(const uint64_t key[2], const void *data, size_t n_bytes) {
    const unsigned char *bytes = data;
    state s = {key[0] ^ 0x736f6d6570736575u, key[1] ^ 0x646f72616e646f6du,
               key[0] ^ 0x6c7967656e657261u, key[1] ^ 0x7465646279746573u};
    uint64_t last = (uint64_t)n_bytes << 56;
    for (size_t left = n_bytes; left >= 8; left -= 8, bytes += 8) {
        uint64_t word = 0;
        for (int i = 0; i < 8; i++)
            word |= (uint64_t)bytes[i] << 8 * i;
        absorb(&s, word);
    }
    for (size_t i = 0; i < n_bytes % 8; i++)
        last |= (uint64_t)bytes[i] << 8 * i;
    absorb(&s, last);
    s.v2 ^= 0xff;
    mix(&s, 4);
    return s.v0 ^ s.v1 ^ s.v2 ^ s.v3;
}
