/* trace.c - see trace.h. A line is one call of fprintf, so that lines of several threads do not mix. */
#include "pserver/trace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool has_messages;

tr_status tr_trace_prepare(void)
{
    const char *text = getenv("TRIREME_TRACE");

    has_messages = false;
    while (text && *text) {
        const size_t length = strcspn(text, ",");
        if (length == strlen("messages") && !strncmp(text, "messages", length))
            has_messages = true;
        else if (length)
            return tr_fail(TR_EINVAL, "job: TRIREME_TRACE has '%.*s' in the environment; 'messages' is possible", (int)length, text);
        text += length + (text[length] == ',');
    }
    return TR_OK;
}

bool tr_trace_has_messages(void)
{
    return has_messages;
}

void tr_trace_message(int64_t now, int rank, bool is_sent, int peer, const tr_wire *wire)
{
    char text[256];

    tr_wire_print(text, sizeof text, wire);
    fprintf(stderr, "trace,%lld.%06lld,%d,%s,%d,%s\n", (long long)(now / 1000000000), (long long)(now / 1000 % 1000000), rank,
            is_sent ? "sent to" : "received from", peer, text);
}
