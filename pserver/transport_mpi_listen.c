/* transport_mpi_listen.c - see the header. */
#include "pserver/transport_mpi_listen.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

static bool is_any(const struct sockaddr_storage *address)
{
    if (address->ss_family == AF_INET)
        return ((const struct sockaddr_in *)address)->sin_addr.s_addr == htonl(INADDR_ANY);
    return address->ss_family == AF_INET6 && IN6_IS_ADDR_UNSPECIFIED(&((const struct sockaddr_in6 *)address)->sin6_addr);
}

static bool is_listening_on_all(int fd)
{
    struct sockaddr_storage address = {0};
    socklen_t               length = sizeof address, size = sizeof(int);
    int                     accepts = 0;

    return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &accepts, &size) == 0 && accepts &&
           getsockname(fd, (struct sockaddr *)&address, &length) == 0 && is_any(&address);
}

void tr__listeners_find(tr_listeners *out)
{
    for (int fd = 0; fd < TR_LISTENERS_MAX; fd++)
        out->is_listening[fd] = is_listening_on_all(fd);
}

void tr__listeners_close_new(const tr_listeners *before)
{
    for (int fd = 0; fd < TR_LISTENERS_MAX; fd++) {
        if (before->is_listening[fd] || !is_listening_on_all(fd))
            continue;
        const int never_ready = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (never_ready < 0)
            return;
        dup3(never_ready, fd, O_CLOEXEC);
        close(never_ready);
    }
}
