#include "cli/interrupt.h"

#include <signal.h>
#include <stddef.h>

static volatile sig_atomic_t seen;
static struct sigaction before_hold;

static void on_signal(int number) {
    (void)number;
    seen = 1;
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
    sigaction(SIGINT, &action, &before_hold);
}

void ln_interrupt_release(void) {
    sigaction(SIGINT, &before_hold, NULL);
}

void ln_interrupt_forget(void) {
    seen = 0;
}
