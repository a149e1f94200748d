#include "server/content_coding.h"

#include <zlib.h>

enum { CHUNK_BYTES = 16384, ANY_HEADER = 32 }; /* zlib tells gzip from deflate by the header */

/* A gzip file may follow another one: their contents are joined. */
static bool begins_member(const z_stream *stream) {
    return stream->avail_in > 1 && stream->next_in[0] == 0x1f && stream->next_in[1] == 0x8b;
}

static bool inflate_all(z_stream *stream, size_t max_bytes, ln_strbuf *out, ln_api_error *error) {
    unsigned char chunk[CHUNK_BYTES];
    for (;;) {
        stream->next_out = chunk;
        stream->avail_out = sizeof chunk;
        int result = inflate(stream, Z_NO_FLUSH);
        size_t n_bytes = sizeof chunk - stream->avail_out;
        if (result == Z_MEM_ERROR)
            return ln_api_fail_memory(error);
        if (result != Z_OK && result != Z_STREAM_END)
            return ln_api_fail(error, 400, NULL, "the compressed body %s",
                               result == Z_BUF_ERROR ? "ends early" : "is malformed");
        if (n_bytes > max_bytes - out->len)
            return ln_api_fail(error, 413, NULL, "the body has more than %zu bytes", max_bytes);
        if (!ln_strbuf_append(out, chunk, n_bytes))
            return ln_api_fail_memory(error);
        if (result == Z_OK)
            continue;
        if (stream->avail_in == 0)
            return true;
        if (!begins_member(stream) || inflateReset(stream) != Z_OK)
            return ln_api_fail(error, 400, NULL, "something follows the compressed body");
    }
}

bool ln_content_inflate(ln_strbuf *body, size_t max_bytes, ln_api_error *error) {
    z_stream stream = {0};
    ln_strbuf out;
    ln_strbuf_init(&out);
    if (body->len == 0)
        return ln_api_fail(error, 400, NULL, "the compressed body is empty");
    if (inflateInit2(&stream, MAX_WBITS + ANY_HEADER) != Z_OK)
        return ln_api_fail_memory(error);
    stream.next_in = (unsigned char *)body->data;
    stream.avail_in = (unsigned)body->len;
    bool done = inflate_all(&stream, max_bytes, &out, error);
    inflateEnd(&stream);
    ln_strbuf_free(body);
    *body = out;
    return done;
}
