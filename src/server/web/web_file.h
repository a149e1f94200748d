/* The files of the web page (web/ in the source tree), which the build puts into the program. */
#ifndef LN_SERVER_WEB_WEB_FILE_H
#define LN_SERVER_WEB_WEB_FILE_H

#include <stddef.h>

typedef struct ln_web_file {
    const char *name; /* without a folder */
    const char *type; /* Content-Type */
    const char *etag; /* with its quotes; of the contents */
    size_t n_bytes;   /* before compression */
    const unsigned char *gzip;
    size_t n_gzip_bytes;
} ln_web_file;

/* What cmake/web.cmake writes; [ln_n_web_files] */
extern const ln_web_file ln_web_files[];
extern const size_t ln_n_web_files;

#endif
