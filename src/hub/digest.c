#include "hub/digest.h"

#include <errno.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { READ_BYTES = 1 << 20 };

/* Feeds the file into the context; what git hashes begins with a header. */
static ln_status hash_file(EVP_MD_CTX *context, int fd, bool is_git, unsigned char *buffer,
                           ln_hub_tick tick, void *user, ln_error *err) {
    struct stat about;
    char header[40];
    if (fstat(fd, &about) != 0)
        return ln_fail(err, LINNET_ERR_IO, "%s", strerror(errno));
    int n_header = snprintf(header, sizeof header, "blob %lld", (long long)about.st_size) + 1;
    if (is_git && !EVP_DigestUpdate(context, header, (size_t)n_header))
        return ln_fail(err, LINNET_ERR_NOMEM, "out of memory");
    for (off_t at = 0;;) {
        ssize_t n = pread(fd, buffer, READ_BYTES, at);
        if (n < 0)
            return ln_fail(err, LINNET_ERR_IO, "%s", strerror(errno));
        if (n == 0)
            return LINNET_OK;
        if (!EVP_DigestUpdate(context, buffer, (size_t)n))
            return ln_fail(err, LINNET_ERR_NOMEM, "out of memory");
        if (tick && !tick(user, (unsigned long long)n))
            return ln_fail(err, LINNET_ERR_CANCELLED, "interrupted");
        at += n;
    }
}

ln_status ln_hub_digest_check(int fd, const char *path, const char *hash, ln_hub_tick tick,
                              void *user, ln_error *err) {
    bool is_git = strlen(hash) == 40;
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned n_digest = 0;
    char text[2 * EVP_MAX_MD_SIZE + 1];
    unsigned char *buffer = malloc(READ_BYTES);
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    ln_status status = LINNET_OK;
    if (!buffer || !context ||
        !EVP_DigestInit_ex(context, is_git ? EVP_sha1() : EVP_sha256(), NULL))
        status = ln_fail(err, LINNET_ERR_NOMEM, "out of memory");
    if (status == LINNET_OK)
        status = hash_file(context, fd, is_git, buffer, tick, user, err);
    if (status == LINNET_OK && !EVP_DigestFinal_ex(context, digest, &n_digest))
        status = ln_fail(err, LINNET_ERR_NOMEM, "out of memory");
    EVP_MD_CTX_free(context);
    free(buffer);
    if (status != LINNET_OK)
        return ln_error_prefix(err, status, path);
    for (unsigned i = 0; i < n_digest; i++)
        snprintf(text + 2 * (size_t)i, 3, "%02x", digest[i]);
    if (strcmp(text, hash) == 0)
        return LINNET_OK;
    return ln_fail(err, LINNET_ERR_FORMAT,
                   "%s: its content hashes to %.12s..., the hub says %.12s...", path, text, hash);
}
