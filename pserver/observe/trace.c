/* trace.c - see trace.h. A line is one call of fprintf, so that lines of several threads do not mix. */
#include "pserver/observe/trace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool                   has_messages, has_members;
static tr_trace_membership_fn watch_members;
static void                  *watch_payload;

tr_status tr_trace_prepare(void)
{
    const char *text = getenv("TRIREME_TRACE");

    has_messages = has_members = false;
    while (text && *text) {
        const size_t length = strcspn(text, ",");
        if (length == strlen("messages") && !strncmp(text, "messages", length))
            has_messages = true;
        else if (length == strlen("members") && !strncmp(text, "members", length))
            has_members = true;
        else if (length)
            return tr_fail(TR_EINVAL, "job: TRIREME_TRACE has '%.*s' in the environment; 'messages' and 'members' are possible",
                           (int)length, text);
        text += length + (text[length] == ',');
    }
    return TR_OK;
}

bool tr_trace_has_messages(void)
{
    return has_messages;
}

/* Print a line. `does` is the rank's action on the object of this number. */
static void print(int64_t now, int rank, const char *does, int number, const char *text)
{
    fprintf(stderr, "trace,%lld.%06lld,%d,%s,%d,%s\n", (long long)(now / 1000000000), (long long)(now / 1000 % 1000000), rank, does,
            number, text);
}

void tr_trace_watch_members(tr_trace_membership_fn watch, void *payload)
{
    watch_members = watch;
    watch_payload = payload;
}

void tr_trace_membership(int64_t now, int rank, int trainer, tr_membership from, tr_membership to)
{
    char text[64];

    if (watch_members)
        watch_members(watch_payload, now, rank, trainer, from, to);
    if (!has_members)
        return;
    snprintf(text, sizeof text, "%s to %s", tr_membership_name(from), tr_membership_name(to));
    print(now, rank, "moves trainer", trainer, text);
}

void tr_trace_message(int64_t now, int rank, bool is_sent, int peer, const tr_wire *wire)
{
    char text[256];

    tr_wire_print(text, sizeof text, wire);
    print(now, rank, is_sent ? "sent to" : "received from", peer, text);
}
