/* Requests and answers as the bytes of a connection, for servers that may fail within them. */
#ifndef LN_TESTS_SERVER_RAW_H
#define LN_TESTS_SERVER_RAW_H

#include <stdbool.h>
#include <stddef.h>

/* A POST, after whose answer the connection closes; head and body in one packet or in two. */
void say_post(int fd, const char *path, const char *body, bool is_apart);
/* All that comes till the connection closes, NUL-terminated; false: it stays open for the time
 * without a word more. */
bool hear_all(int fd, int timeout_ms, char *heard, size_t capacity);
/* Of what was heard: the status, 0 when there is none; and whether the body is as long as the head
 * says, or comes in chunks to their end. */
int heard_status(const char *heard);
bool heard_whole(const char *heard);

#endif
