/* stop_signal.c - see stop_signal.h. */
#include "trainer/checkpoints/stop_signal.h"

#include <signal.h>

#include "pserver/trireme_dist.h"
#include "pserver/trireme_notice.h"

static volatile sig_atomic_t asked;        /* the number of the signal that arrived first; 0: none */
static bool                  is_told;      /* the launcher knows */

static void note(int number)
{
    asked = asked ? asked : number;
}

static void listen_to(int number)
{
    struct sigaction action;

    if (sigaction(number, NULL, &action) == 0 && action.sa_handler != SIG_IGN)
        signal(number, note);
}

void tr_stop_signal_listen(void)
{
    listen_to(SIGTERM);
    listen_to(SIGUSR1);
    tr_notice_tell(TR_NOTICE_LISTENS, NULL);
}

void tr_stop_signal_ask(int number)
{
    note(number);
    tr_stop_signal_came();
}

bool tr_stop_signal_came(void)
{
    if (asked && !is_told)
        tr_notice_tell(TR_NOTICE_ASKED, NULL);
    is_told = asked != 0;
    return is_told;
}

const char *tr_stop_signal_name(char *name, size_t size)
{
    return asked == SIGTERM ? "SIGTERM" : tr_notice_asked_by(name, size, "SIGUSR1");
}
