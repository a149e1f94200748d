#include "cli/interrupt.h"

#include <signal.h>
#include <stddef.h>

static volatile sig_atomic_t seen;
static struct sigaction int_before, term_before; /* hold */

static void on_signal(int number) {
    seen = number;
}

static struct sigaction make_action(int flags) {
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART | flags};
    sigemptyset(&action.sa_mask);
    return action;
}

void ln_interrupt_catch(void) {
    struct sigaction action = make_action((int)SA_RESETHAND);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

bool ln_interrupt_seen(void) {
    return seen != 0;
}

void ln_interrupt_hold(void) {
    struct sigaction action = make_action(0);
    sigaction(SIGINT, &action, &int_before);
    sigaction(SIGTERM, &action, &term_before);
}

int ln_interrupt_release(void) {
    sigaction(SIGINT, &int_before, NULL);
    sigaction(SIGTERM, &term_before, NULL);
    int number = seen;
    seen = 0;
    return number;
}
