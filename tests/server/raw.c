#include "server/raw.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "server/client.h"
#include "test.h"

void say_post(int fd, const char *path, const char *body, bool is_apart) {
    char message[1024];
    int n_head = snprintf(message, sizeof message,
                          "POST %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                          "Content-Length: %zu\r\n\r\n",
                          path, strlen(body));
    assert_true((size_t)n_head + strlen(body) < sizeof message);
    strcat(message, body);
    if (is_apart) {
        say(fd, message, (size_t)n_head);
        sleep_ms(3);
        say_text(fd, body);
    } else {
        say_text(fd, message);
    }
}

bool hear_all(int fd, int timeout_ms, char *heard, size_t capacity) {
    size_t n = 0;
    for (;;) {
        struct pollfd at = {.fd = fd, .events = POLLIN};
        heard[n] = '\0';
        if (poll(&at, 1, timeout_ms) <= 0)
            return false;
        ssize_t got = read(fd, heard + n, capacity - 1 - n);
        if (got <= 0)
            return true;
        n += (size_t)got;
    }
}

int heard_status(const char *heard) {
    return strncmp(heard, "HTTP/1.1 ", 9) == 0 ? atoi(heard + 9) : 0;
}

bool heard_whole(const char *heard) {
    const char *body = strstr(heard, "\r\n\r\n"), *length = strstr(heard, "Content-Length: ");
    if (body == NULL)
        return false;
    if (length != NULL && length < body)
        return strlen(body + 4) == strtoul(length + 16, NULL, 10);
    return strstr(body, "\r\n0\r\n\r\n") != NULL;
}
